"""Numbers that can be left to the provider."""

import pytest

from coreason_client import ArgumentError
from coreason_client.cli.llm._question_answer import number_or_none

from .command import coreason_here
from .models import MODEL, answer, model


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("0.5", float, 0.5),
        ("1", float, 1.0),
        ("none", float, None),
        (" None", int, None),
        ("7", int, 7),
    ],
)
def test_a_number_or_none(text: str, kind: type[float], number: float | None) -> None:
    assert number_or_none(text, "-t", kind) == number


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("1.5", int, "-t must be a whole number, or none, got '1.5'"),
        ("soon", float, "-t must be a number, or none, got 'soon'"),
        ("1_0", float, "-t must be a number"),
        ("\u0667", int, "-t must be a whole number"),
        ("", float, "-t must be a number"),
    ],
)
def test_anything_else_is_an_error(text: str, kind: type[float], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        number_or_none(text, "-t", kind)


def test_none_is_not_sent() -> None:
    with model(answer("Yes.")) as served:
        arguments = ("llm", "-m", MODEL, "-t", "none", "--max-tokens", "none", "Hi")
        done = coreason_here(*arguments, env=served.env)
        assert (done.returncode, done.stdout) == (0, "Yes.\n")
        assert not {"temperature", "max_tokens"} & served.received[0].json.keys()
        done = coreason_here("llm", "--max-tokens", "many", "Hi", env=served.env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --max-tokens must be a whole number, or none, got 'many'\n"
