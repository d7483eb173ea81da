"""Commands whose names have two words."""

from typing import Any

import pytest
import typer

from coreason_client.cli._app import app


def resolved(*arguments: str) -> tuple[str | None, list[str]]:
    command: Any = typer.main.get_command(app)
    context = command.make_context("coreason", list(arguments))
    name, _, rest = command.resolve_command(context, list(arguments))
    return name, rest


@pytest.mark.parametrize(
    ("arguments", "name", "rest"),
    [
        (["llm", "logs"], "llm logs", []),
        (["llm", "logs", "-n", "3"], "llm logs", ["-n", "3"]),
        (["llm", "models", "openai"], "llm models", ["openai"]),
        (["llm"], "llm", []),
        (["llm", "logs are full"], "llm", ["logs are full"]),
        (["llm", "-c", "logs"], "llm", ["-c", "logs"]),
        (["llm", "--", "logs"], "llm", ["--", "logs"]),
        (["llm", "what", "are", "logs"], "llm", ["what", "are", "logs"]),
        (["chat", "logs"], "chat", ["logs"]),
    ],
)
def test_only_the_first_word_after_llm_can_be_a_command(
    arguments: list[str], name: str, rest: list[str]
) -> None:
    assert resolved(*arguments) == (name, rest)
