"""The effect of Enter, Alt-Enter and Ctrl-C depends on the text."""

from coreason_client.cli.prompt._line_rules import (
    SAY_LINE,
    Edit,
    after_alt_enter,
    after_enter,
    after_keys,
    after_typed_ahead,
    leaves_after_ctrl_c,
)
from tests.each import each


@each(
    ("text", "multi", "edit"),
    [
        ("hello", False, Edit.SEND),
        ("", False, Edit.SEND),
        ("a\nb", False, Edit.SEND),
        ("a \\", False, Edit.REPLACE_BACKSLASH),
        ("a\n\\", False, Edit.REPLACE_BACKSLASH),
        ("C:\\\\", False, Edit.SEND),
        ("three \\\\\\", False, Edit.REPLACE_BACKSLASH),
        ("hello", True, Edit.NEW_LINE),
        ("a \\", True, Edit.NEW_LINE),
        ("", True, Edit.NEW_LINE),
        ("/multi", True, Edit.SEND),
        ("/nope", True, Edit.NEW_LINE),
        ("a\n/multi", True, Edit.NEW_LINE),
    ],
)
def test_enter_sends_or_starts_a_line(text: str, multi: bool, edit: Edit) -> None:
    assert after_enter(text, len(text), multi=multi) is edit


def test_a_backslash_counts_only_at_the_cursor() -> None:
    assert after_enter("a \\", 1, multi=False) is Edit.SEND


def test_alt_enter_is_the_opposite_of_enter() -> None:
    assert after_alt_enter(multi=False) is Edit.NEW_LINE
    assert after_alt_enter(multi=True) is Edit.SEND


@each(
    ("text", "before", "leaves"),
    [("", False, False), ("a", False, False), ("a", True, False), ("", True, True), (" ", True, 1)],
)
def test_ctrl_c_leaves_the_second_time_on_an_empty_line(
    text: str, before: bool, leaves: bool
) -> None:
    assert leaves_after_ctrl_c(text, cleared_before=before) == leaves


@each(
    ("typed", "multi", "text", "sends"),
    [
        ("", False, "", False),
        ("half a li", False, "half a li", False),
        ("one line\n", False, "one line", True),
        ("/help\n", True, "/help", True),
        ("one line\n", True, "one line\n", False),
        ("a \\\n", False, "a \\\n", False),
        ("a\nb", False, "a\nb", False),
        ("a\nb\n", False, "a\nb\n", False),
        ("\n\n", False, "", False),
        ("\na\n", False, "a\n", False),
    ],
)
def test_one_line_that_was_typed_ahead_is_sent_but_not_as_an_answer_and_several_wait(
    typed: str, multi: bool, text: str, sends: bool
) -> None:
    assert after_typed_ahead(typed, multi=multi) == (text, sends)
    assert after_typed_ahead(typed, multi=multi, asked=True) == (text, False)


@each(
    ("typed", "text"),
    [
        ("ab\x7f\x7fc", "c"),
        ("a\bb", "b"),
        ("\x7fa\n\x7fb", "a\nb"),
        ("one\ntwo\x15\x7fthree", "one\nthree"),
        ("漢字\x7f", "漢"),
    ],
)
def test_backspace_and_ctrl_u_edit_the_last_line(typed: str, text: str) -> None:
    assert after_keys(typed) == text


@each(
    ("typed", "said", "rest"),
    [
        ("/say a\n", ["a"], ""),
        ("/say  a 'b' \n/say c\n/say d", ["a 'b'", "c"], "/say d"),
        ("one\n/say a\ntwo", ["a"], "one\ntwo"),
        ("/say\n/say \n/saying a\n //say a\n", [], "/say\n/say \n/saying a\n //say a\n"),
    ],
)
def test_only_a_say_line_that_was_ended_is_said(typed: str, said: list[str], rest: str) -> None:
    assert SAY_LINE.findall(typed) == said
    assert SAY_LINE.sub("", typed) == rest
