"""`--schema`: the answer is JSON that conforms, or an error."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.llm._schema import parse_schema, read_schema, schema_model
from tests.llm.server import Replied

from .command import coreason_here
from .models import MODEL, Model, answer, model

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
ROME = {"name": "Röm", "people": 3}


def ask(served: Model, *arguments: str) -> tuple[int, str, str]:
    given = ("--schema", json.dumps(SCHEMA), *arguments, "Rome?")
    done = coreason_here("llm", "-m", MODEL, *given, env=served.env)
    return done.returncode, done.stdout, done.stderr


def test_the_answer_is_one_line_of_json() -> None:
    text = json.dumps(ROME, indent=2)
    with model(answer(text[:5], text[5:])) as served:
        assert ask(served) == (0, '{"name": "Röm", "people": 3}\n', "")
    sent = served.received[0].json["response_format"]["json_schema"]
    assert (sent["name"], sent["schema"]["properties"]) == ("schema", SCHEMA["properties"])


def test_json_is_the_response_object_with_the_parsed_value() -> None:
    with model(answer(json.dumps(ROME))) as served:
        code, out, err = ask(served, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["data"]["parsed"] == ROME


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_the_model_may_correct_its_answer_once(how: str) -> None:
    wrong, right = '{"name": "Rome"}', json.dumps(ROME)
    replies = [_whole(text) if how == "--no-stream" else answer(text) for text in (wrong, right)]
    with model(*replies) as served:
        assert ask(served, how) == (0, '{"name": "Röm", "people": 3}\n', "")
    [*_, (role, correction)] = served.sent()
    assert role == "user"
    assert "'people' is a required property" in correction


def _whole(text: str) -> Replied:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Replied(body=json.dumps({"choices": [choice]}).encode())


def test_an_answer_that_does_not_conform_is_an_error_and_not_printed() -> None:
    with model(answer('{"name": "Rome", "people": "many"}')) as served:
        code, out, err = ask(served)
    assert (code, out, len(served.received)) == (4, "", 2)
    assert re.fullmatch(
        "error: the answer does not match --schema: people: 'many' is not of type 'integer'\n", err
    )


def test_an_answer_that_was_cut_off_says_so() -> None:
    with model(answer('{"name": "Ro', finish="length")) as served:
        code, out, err = ask(served)
    assert (code, out) == (4, "")
    assert re.fullmatch("error: .*, because it was cut off; increase --max-tokens\n", err)


def test_a_schema_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(SCHEMA).encode())
    assert read_schema(str(tmp_path / "schema.json")).model_json_schema() == SCHEMA
    assert read_schema(f" {json.dumps(SCHEMA)}").model_json_schema() == SCHEMA


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{", "--schema: it is not valid JSON: "),
        ("missing.json", "--schema missing.json: no such file or directory"),
        (".", "--schema .: is a directory"),
        ("list.json", "--schema list.json: it must be a JSON object"),
        ("binary.json", "--schema binary.json: the file is not UTF-8"),
        ("broken.json", "--schema broken.json: it is not valid JSON: "),
    ],
)
def test_a_wrong_schema_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("list", b"[]"), ("binary", b"\xff"), ("broken", b"{")):
        (tmp_path / f"{name}.json").write_bytes(content)
    with pytest.raises(Failure, match=f"^{re.escape(says)}") as caught:
        read_schema(given)
    assert caught.value.code is ExitCode.USAGE


def test_only_values_that_conform_are_accepted() -> None:
    accepts = schema_model(SCHEMA)
    assert accepts.model_validate_json(json.dumps(ROME)).root == ROME
    with pytest.raises(ValidationError, match="'people' is a required property"):
        accepts.model_validate_json('{"name": "Rome"}')


def test_a_deep_schema_is_an_error() -> None:
    with pytest.raises(Failure, match="it is not valid JSON"):
        parse_schema('{"not":' * 100_000, "--schema")
