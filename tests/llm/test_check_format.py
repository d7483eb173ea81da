"""`response_format`: every valid form becomes a schema, any other is rejected."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from coreason_client import LLMClient
from coreason_client.llm import ResponseCache
from coreason_client.llm._call import Schema
from coreason_client.llm._response_format import check_response_format, format_name
from coreason_client.llm.tools._output import with_parsed
from coreason_client.testing import ModelTurn, fake_model
from tests.each import each

from .calls import SCHEMA, rejection

T = TypeVar("T")


class City(BaseModel):
    name: str
    people: int = 0


class Box(BaseModel, Generic[T]):
    inside: T


class Node(BaseModel):
    next: "Node | None"


class Numbers(RootModel[list[int]]):
    pass


class Colour(Enum):
    RED = "red"


class Point(TypedDict):
    x: int


@dataclass
class Place:
    name: str
    at: tuple[int, int]


class Lock:
    pass


class Uncallable(BaseModel):
    function: Callable[[int], int]


class Unfinished(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("response_format", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Schema("answer", None)),
        (SCHEMA, Schema("answer", SCHEMA)),
        ({"anyOf": [SCHEMA]}, Schema("answer", {"anyOf": [SCHEMA]})),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            Schema("n", SCHEMA),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}},
            Schema("answer", SCHEMA, strict=True),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": None}},
            Schema("answer", SCHEMA),
        ),
        (City, Schema("City", City.model_json_schema(), strict=None)),
        (Box[int], Schema("Box_int_", Box[int].model_json_schema(), strict=None)),
    ],
)
def test_a_valid_format_becomes_a_schema(response_format: Any, schema: Schema | None) -> None:
    assert check_response_format(response_format) == schema


@each("response_format", ["json", 5, [], [City], (int, str), City(name="x")])
def test_anything_but_a_schema_and_a_type_is_rejected(response_format: Any) -> None:
    message = rejection(check_response_format, response_format)
    assert message.startswith("response_format must be a JSON schema, a pydantic model or another")


# A type, whether its answer is wrapped in an object, an answer, and the value of it.
TYPES: list[tuple[Any, bool, Any, Any]] = [
    (City, False, {"name": "Oslo"}, City(name="Oslo")),
    (Place, False, {"name": "Oslo", "at": [1, 2]}, Place("Oslo", (1, 2))),
    (Point, False, {"x": 1}, {"x": 1}),
    (dict[str, int], False, {"x": 1}, {"x": 1}),
    (Node, False, {"next": {"next": None}}, Node(next=Node(next=None))),
    (list[City], True, [{"name": "Oslo"}], [City(name="Oslo")]),
    (Numbers, True, [1, 2], Numbers([1, 2])),
    (City | None, True, None, None),
    (City | Place, True, {"name": "Oslo", "at": [1, 2]}, Place("Oslo", (1, 2))),
    (int, True, 7, 7),
    (bool, True, False, False),
    (str, True, "yes", "yes"),
    (Literal["a", "b"], True, "b", "b"),
    (Annotated[int, Field(gt=3)], True, 4, 4),
    (Colour, True, "red", Colour.RED),
    (set[date], True, ["2024-02-29"], {date(2024, 2, 29)}),
]


@each(("kind", "wrapped", "answer", "value"), TYPES, repr)
def test_any_type_is_a_format_and_its_value_is_parsed(
    kind: Any, wrapped: bool, answer: Any, value: Any
) -> None:
    schema = check_response_format(kind)
    assert schema is not None
    assert (schema.strict, schema.wrapped) == (None, wrapped)
    assert schema.schema is not None
    assert schema.schema["type"] == "object"
    assert not wrapped or schema.schema["required"] == ["answer"]
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", schema.name)
    sent = {"answer": answer} if wrapped else answer
    jsonschema_rs.validate(dict(schema.schema), sent)
    text = json.dumps(sent)
    with (
        fake_model([text] * 4) as fake,
        LLMClient("a-key", fake.url, "openai/gpt-4o", cache=ResponseCache()) as client,
    ):
        responses = [client.generate("q", response_format=kind) for _ in range(2)]
        assert len(fake.requests) == 1  # the second answer is from the cache
        with client.stream("q2", response_format=kind) as stream:
            assert list(stream.objects())[-1:] == [answer]
            responses.append(stream.result())
        run = client.run("q3", response_format=kind)
    assert [response["data"]["parsed"] for response in responses] == [value] * 3
    assert run.parsed == value
    stored = {"data": {"content": text, "tool_calls": []}}
    restored: Any = with_parsed(stored, kind)  # type: ignore[arg-type]
    assert restored["data"]["parsed"] == value


def test_a_wrapped_value_grows_without_its_object() -> None:
    pieces = ['{"ans', 'wer": [{"name": "Os', 'lo"}, {"na', 'me": "Bergen"}]}']
    with (
        fake_model([ModelTurn(pieces)]) as fake,
        LLMClient("a-key", fake.url) as client,
        client.stream("q", response_format=list[City]) as stream,
    ):
        seen = list(stream.objects())
        assert stream.result()["data"]["parsed"] == [City(name="Oslo"), City(name="Bergen")]
    assert seen == [
        [{"name": "Os"}],
        [{"name": "Oslo"}, {}],
        [{"name": "Oslo"}, {"name": "Bergen"}],
    ]


def test_an_answer_of_another_type_is_sent_back_with_the_place_of_its_error() -> None:
    with fake_model(['{"answer": ["x"]}', '{"answer": [7]}']) as fake:
        with LLMClient("a-key", fake.url) as client:
            assert client.generate("q", response_format=list[int])["data"]["parsed"] == [7]
        reason = fake.requests[1].messages[-1]["content"]
    assert "does not match list[int]" in reason
    assert "- answer.0: " in reason


def test_the_strict_schema_of_a_list_is_sent() -> None:
    with fake_model('{"answer": []}') as fake:
        with LLMClient("a-key", fake.url, "openai/gpt-4o") as client:
            client.generate("q", response_format=list[City])
        sent = fake.requests[0].json["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"]) == ("list_City_", True)
    assert sent["schema"]["properties"]["answer"]["items"] == {"$ref": "#/$defs/City"}


@pytest.mark.parametrize("model", [BaseModel, Uncallable, Unfinished, Lock, list[Lock]])
def test_a_model_without_a_schema_is_rejected_with_the_reason_in_one_line(model: Any) -> None:
    message = rejection(check_response_format, model)
    start = f"response_format must have a JSON schema, and {format_name(model)} has none: "
    assert message.startswith(start)
    assert "\n" not in message
    assert len(message) > len(start)


@pytest.mark.parametrize(
    "wrapped", [None, "x", [], {}, {"name": "x"}, {"schema": []}, {"schema": {}, "name": 5}]
)
def test_a_wrapped_schema_needs_a_schema_and_a_name_that_is_text(wrapped: Any) -> None:
    given_ = {"type": "json_schema", "json_schema": wrapped}
    message = rejection(check_response_format, given_)
    assert message.startswith('response_format.json_schema must be {"name": …, "schema": {…}}')


def test_strict_must_be_a_boolean() -> None:
    given_ = {"type": "json_schema", "json_schema": {"schema": {}, "strict": "no"}}
    message = rejection(check_response_format, given_)
    assert message == "response_format.json_schema.strict must be true or false, got 'no'"


def test_the_name_of_a_model_is_cut_at_64_characters() -> None:
    model = type("M" * 70, (City,), {})
    schema = check_response_format(model)
    assert schema is not None
    assert schema.name == "M" * 64
