"""Each `coreason` command of the README, of the pages about it and of its help can be parsed."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from coreason_client.cli import a2a, chat, completion, inspect, llm, profiles, serve, store
from coreason_client.cli._app import app

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "console"}
INLINE = re.compile(r"`(coreason [^`]*? --[^`]*)`")
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("cli*.md")))]
# Options that act while they are parsed; this one would change the files of the developer's shell.
ACTING = ["--install-completion"]


def a2a_help(group: typer.Typer, name: str) -> dict[str, str]:
    """Return the text below the help of each command of a group."""
    found = {name: str(group.info.epilog)}
    for one in group.registered_commands:
        found[f"{name} {one.name}"] = str(one.epilog)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        found |= a2a_help(inner.typer_instance, f"{name} {inner.name}")
    return found


HELP = {
    "chat": chat.EPILOG,
    "inspect": inspect.EPILOG,
    "llm": llm.EPILOG,
    "llm models": llm.MODELS_EPILOG,
    "llm logs": llm.LOGS_EPILOG,
    "serve": serve.EPILOG,
    "profiles": profiles.PROFILES_EPILOG,
    "completion": completion.COMPLETION_EPILOG,
    **a2a_help(a2a.app, "a2a"),
    "store backup": store.BACKUP_EPILOG,
    "store upgrade": store.UPGRADE_EPILOG,
}


def commands(script: str) -> list[list[str]]:
    """Return the arguments of each `coreason` in a script, without pipes and redirections."""
    found: list[list[str]] = []
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        words: list[str] | None = None
        for word in lexer:
            if set(word) <= set("|;&<>"):
                words = None
            elif words is not None:
                words.append(word)
            elif word == "coreason":
                found.append(words := [])
    return found


def shell_blocks(text: str) -> list[str]:
    """Return the content of each code block of a page that is for a shell."""
    return [content for language, content in BLOCK.findall(text) if language.strip() in SHELLS]


def documented() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in shell_blocks(text):
            found += [(page, arguments) for arguments in commands(block)]
        for line in INLINE.findall(BLOCK.sub("", text)):
            found += [(page, arguments) for arguments in commands(line.replace("\n", " "))]
    for name, text in HELP.items():
        found += [(f"help of {name}", arguments) for arguments in commands(text.split("\n\n")[0])]
    return found


def parse(arguments: list[str]) -> None:
    """Parse a command line as the command would; nothing is run."""
    command = typer.main.get_command(app)
    if arguments == ACTING:
        assert ACTING[0] in [name for option in command.params for name in option.opts]
        return
    context = command.make_context("coreason", list(arguments))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


DOCUMENTED = documented()


def test_prose_between_two_blocks_is_not_a_script() -> None:
    page = "```python\nprint()\n```\nIt's prose.\n\n```sh\ncoreason chat\n```\n\n```\nls\n```\n"
    assert shell_blocks(page) == ["coreason chat\n", "ls\n"]
    assert BLOCK.sub("", page).strip() == "It's prose."


def test_there_are_commands_on_each_page() -> None:
    for page in [*PAGES, *(f"help of {name}" for name in HELP)]:
        assert [arguments for where, arguments in DOCUMENTED if where == page], page


@pytest.mark.parametrize(
    ("where", "arguments"), DOCUMENTED, ids=[" ".join(words)[:60] for _, words in DOCUMENTED]
)
def test_a_documented_command_can_be_parsed(where: str, arguments: list[str]) -> None:
    parse(arguments)


@pytest.mark.parametrize(
    "arguments", [["chat", "--no-such-option"], ["inspect", "a", "b"], ["a2a", "send"], ["nope"]]
)
def test_a_wrong_command_is_noticed(arguments: list[str]) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|unexpected"):
        parse(arguments)
