"""The commands of a conversation: what a line means, help and completion."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.prompt._line_rules import (
    Command,
    Mistake,
    command_help,
    completed_words,
    file_prefix,
    parse_line,
)
from tests.each import each


@each(
    ("line", "meaning"),
    [
        ("hello", "hello"),
        ("  hello \n", "hello"),
        ("", ""),
        ("   ", ""),
        ("/help", Command("help")),
        ("/?", Command("help")),
        ("/quit ", Command("exit")),
        ("/save  my file.md ", Command("save", "my file.md")),
        ("/save 'my file.md'", Command("save", "my file.md")),
        ('/attach "a\'b.png"', Command("attach", "a'b.png")),
        ("/attach '", Command("attach", "'")),
        ("//etc is full", "/etc is full"),
        (" /etc is full", "/etc is full"),
        ("/etc/hosts\nis wrong", "/etc/hosts\nis wrong"),
        ("//etc\nis full", "/etc\nis full"),
        ("/say  'hello' there ", Command("say", "'hello' there")),
        ("/say", Mistake("/say needs a text: /say TEXT")),
        ("/new now", Mistake("/new takes nothing after it.")),
        ("/save", Mistake("/save needs the name of a file: /save FILE")),
        ("/attach  ", Mistake("/attach needs the name of a file: /attach FILE")),
    ],
)
def test_a_line_is_a_message_or_a_command(line: str, meaning: object) -> None:
    assert parse_line(line) == meaning


@each("line", ["/", "/nope", "/nope x", "/Help", "/etc/hosts"])
def test_an_unknown_command_says_how_to_send_it(line: str) -> None:
    found = parse_line(line)
    assert isinstance(found, Mistake)
    word = line.split()[0]
    assert found.sentence.startswith(f"Unknown command {word}. Type /help for the commands, or a ")


@given(st.text())
def test_any_text_can_be_sent(text: str) -> None:
    sent = text.strip()
    assert parse_line(f" {sent}") == sent
    if sent.startswith("/"):
        assert parse_line(f"/{sent}") == sent


def test_the_help_fits_the_width_and_names_the_keys_of_the_editor() -> None:
    text = command_help(80, editing=True)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("/")] == [
        *("/help", "/id", "/new", "/attach", "/save", "/multi", "/exit", "//"),
    ]
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, command_help(40, editing=True).splitlines())) <= 40
    plain = command_help(80, editing=False)
    assert "Alt-Enter" not in plain
    assert "/multi" not in plain
    assert "/say TEXT" in command_help(80, editing=True, says=True)
    assert "/say" not in text + command_help(80, editing=False, says=True)


@each(
    ("before", "words"),
    [
        ("/", ["/help", "/id", "/say ", "/new", "/attach ", "/save ", "/multi", "/exit"]),
        ("/s", ["/say ", "/save "]),
        ("/x", []),
        ("/save ", []),
        (" /s", []),
        ("s", []),
        ("", []),
    ],
)
def test_commands_are_completed(before: str, words: list[str]) -> None:
    assert list(completed_words(before)) == words


@each(
    ("before", "prefix"),
    [
        ("/save a", "a"),
        ("/attach  ~/a b", "~/a b"),
        ("/save ", ""),
        ("/save", None),
        ("/help a", None),
        ("save a", None),
        ("/save a\nb", None),
    ],
)
def test_files_are_completed_after_a_command_that_takes_one(
    before: str, prefix: str | None
) -> None:
    assert file_prefix(before) == prefix
