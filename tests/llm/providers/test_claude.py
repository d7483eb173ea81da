"""The limits of Claude's models."""

import pytest

from coreason_client.llm.providers._claude import BEFORE_4_6, NO_TEMPERATURE, supported_schema


@pytest.mark.parametrize(
    ("schema", "supported"),
    [
        ({"type": "string", "minLength": 1}, {"type": "string"}),
        ({"type": "string", "format": "regex"}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "object"}, {"type": "object", "additionalProperties": False}),
        (
            {"properties": {"minLength": {"oneOf": [{"maximum": 1}]}}},
            {"properties": {"minLength": {"anyOf": [{}]}}, "additionalProperties": False},
        ),
        ({"items": {"uniqueItems": True}, "minItems": 1}, {"items": {}, "minItems": 1}),
        ({"minItems": 2}, {}),
        (True, True),
    ],
)
def test_a_schema_without_what_is_rejected(schema: object, supported: object) -> None:
    assert supported_schema(schema) == supported


def test_a_model_that_takes_the_beginning_of_an_answer_takes_a_temperature() -> None:
    assert not [name for name in NO_TEMPERATURE if name.startswith(BEFORE_4_6)]
