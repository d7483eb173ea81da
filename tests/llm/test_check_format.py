"""`response_format`: every valid form becomes a schema, any other is rejected."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from coreason_client.llm._call import Schema
from coreason_client.llm._check_call import check_response_format

from .calls import SCHEMA, rejection

T = TypeVar("T")


class City(BaseModel):
    name: str
    people: int = 0


class Box(BaseModel, Generic[T]):
    inside: T


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


@pytest.mark.parametrize(
    "response_format",
    ["json", 5, [], dict, int, list[int], City(name="x"), City | None],
    ids=repr,
)
def test_anything_but_a_schema_and_a_model_is_rejected(response_format: Any) -> None:
    message = rejection(check_response_format, response_format)
    assert message.startswith("response_format must be a JSON schema or a pydantic model")


@pytest.mark.parametrize("model", [BaseModel, Uncallable, Unfinished])
def test_a_model_without_a_schema_is_rejected_with_the_reason_in_one_line(model: Any) -> None:
    message = rejection(check_response_format, model)
    start = f"response_format must have a JSON schema, and {model.__name__} has none: "
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
