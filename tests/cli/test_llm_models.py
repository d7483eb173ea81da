"""`coreason llm models` against a provider on loopback."""

import json
import re

import pytest

from tests.llm.server import Replied

from .command import coreason_here
from .models import KEY, Model, model

LIST = Replied(
    body=json.dumps(
        {
            "object": "list",
            "data": [
                {"id": "gpt-5", "object": "model", "created": 1_700_000_000},
                {"id": "gpt-4o", "object": "model", "context_window": 128_000},
            ],
        }
    ).encode()
)


def models(served: Model, *arguments: str, **env: str) -> tuple[int, str, str]:
    done = coreason_here("llm", "models", *arguments, env={**served.env, **env})
    assert KEY not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def test_the_models_are_sorted_rows() -> None:
    with model(LIST) as served:
        assert models(served) == (0, "gpt-4o\t128000\ngpt-5\n", "")
        assert served.received[0].path == "/v1/models"
        assert served.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_json_is_an_object_per_line() -> None:
    with model(LIST) as served:
        code, out, err = models(served, "--json", "--base-url", f"{served.url}/v1")
    assert (code, err) == (0, "")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["gpt-4o", "gpt-5"]


def test_an_empty_list_is_no_error() -> None:
    with model(Replied(body=b'{"data": []}')) as served:
        assert models(served) == (0, "", "the provider lists no models\n")


@pytest.mark.parametrize(
    ("arguments", "reply", "code", "says"),
    [
        (["nobody"], LIST, 2, "provider must be one of openai, .*, got 'nobody'"),
        ([], Replied(401, body=b'{"error": {"message": "No."}}'), 1, "answered 401"),
        ([], Replied(body=b"<html>"), 4, "a web page"),
    ],
)
def test_an_error_is_one_sentence_with_its_exit_code(
    arguments: list[str], reply: Replied, code: int, says: str
) -> None:
    with model(reply) as served:
        done = models(served, *arguments)
    assert done[:2] == (code, "")
    assert re.fullmatch(f"error: .*{says}.*\n", done[2])
