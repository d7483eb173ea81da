"""The check against a JSON schema, compared with a complete validator."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.llm._schema import schema_problem

DEFS = {"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (True, [1, None], []),
        (False, [], [1]),
        ({}, [1, None, []], []),
        ({"type": "integer"}, [1, 1.0], [1.5, "1", True, None]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": ["string", "null"]}, ["", None], [0]),
        ({"type": "boolean"}, [True], [1]),
        ({"enum": [1, "a", None]}, [1, 1.0, "a", None], [True, "b"]),
        ({"const": [1, {"a": True}]}, [[1.0, {"a": True}]], [[1, {"a": 1}], [1]]),
        ({"required": ["a"]}, [{"a": 1}, 7], [{}]),
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "null"}},
            [{"a": ""}, {"b": None}, []],
            [{"a": 1}, {"b": 1}],
        ),
        (
            {"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
            [{"x1": None}, {}],
            [{"x1": 1}, {"y": 1}],
        ),
        (
            {"properties": {"x": {"minimum": 1}}, "patternProperties": {"x": {"maximum": 2}}},
            [{"x": 1.5}],
            [{"x": 0}, {"x": 3}],
        ),
        ({"additionalProperties": False}, [{}, 1], [{"a": 1}]),
        ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}, 1], [{}, {"a": 1, "b": 1}]),
        ({"dependentRequired": {"a": ["b"]}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        ({"items": {"type": "null"}}, [[], [None], {}], [[1]]),
        (
            {"prefixItems": [{"type": "null"}], "items": {"type": "string"}},
            [[], [None, "a"]],
            [["a"], [None, 1]],
        ),
        ({"prefixItems": [{"type": "null"}], "items": False}, [[None]], [[None, 1]]),
        ({"contains": {"type": "null"}}, [[1, None]], [[], [1]]),
        ({"contains": {"const": 1}, "minContains": 2, "maxContains": 2}, [[1, 1]], [[1], [1] * 3]),
        ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [[1, True]], [[], [1, 1.0], [1] * 3]),
        ({"minLength": 1, "maxLength": 2, "pattern": "^a"}, ["a", "ab", 7], ["", "abc", "b"]),
        ({"minimum": 1, "maximum": 2}, [1, 2, "a"], [0, 3]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 2}, [1.5], [1, 2]),
        ({"multipleOf": 0.1}, [0.3, 7], [0.35]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [0, 3]),
        ({"anyOf": [{"type": "null"}, {"minimum": 1, "type": "number"}]}, [None, 1], [0, "a"]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [1.5, "a"]),
        ({"not": {"type": "null"}}, [1], [None]),
        ({"if": {"type": "null"}, "then": False, "else": {"minimum": 1}}, [1, "a"], [None, 0]),
        (DEFS, ["a"], [1]),
        (TREE, [{"next": {"next": {}}}], [{"next": {"other": 1}}, {"next": 1}]),
    ],
)
def test_a_keyword_accepts_and_rejects(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    oracle = jsonschema_rs.validator_for(schema)
    for value in valid:
        assert schema_problem(value, schema) is None
        assert oracle.is_valid(value)
    for value in invalid:
        assert schema_problem(value, schema) is not None
        assert not oracle.is_valid(value)


names = st.sampled_from(["a", "b", "xy"])
leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | names
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner), max_leaves=6
)
types = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
small = st.integers(0, 2)


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "properties": st.dictionaries(names, inner),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "y"]), inner),
            "additionalProperties": inner,
            "required": st.lists(names, unique=True),
            "propertyNames": inner,
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "uniqueItems": st.booleans(),
            "minItems": small,
            "maxItems": small,
            "minLength": small,
            "maxProperties": small,
            "minimum": small,
            "exclusiveMaximum": small,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


schemas = st.recursive(st.booleans(), schemas_of, max_leaves=6)


@given(schemas, values)
def test_a_complete_validator_agrees(schema: Any, value: Any) -> None:
    problem = schema_problem(value, schema)
    assert (problem is None) is jsonschema_rs.validator_for(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "object"}, 1, "the value: 1 is not of type 'object'"),
        (
            {"properties": {"a": {"items": {"required": ["b"]}}}},
            {"a": [{}]},
            "a[0]: 'b' is a required property",
        ),
        ({"enum": [1]}, 2, "the value: 2 is not one of [1]"),
    ],
)
def test_a_problem_names_its_place(schema: Any, value: Any, says: str) -> None:
    assert schema_problem(value, schema) == says


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_json_is_no_number(value: float) -> None:
    assert schema_problem(value, {"type": "number"}) is not None


@pytest.mark.parametrize(
    "invalid",
    [
        {"pattern": "("},
        {"$ref": "https://x.example/"},
        {"$ref": "#/nowhere"},
        {"type": "any"},
        {"minLength": "1"},
        {"not": 7},
    ],
)
def test_what_is_not_known_or_invalid_is_not_checked(invalid: dict[str, Any]) -> None:
    assert schema_problem("a", invalid) is None
    assert schema_problem("a", {**invalid, "maxLength": 0}) is not None  # the rest is
    assert schema_problem("a", 7) is None


def test_a_large_value_is_not_quoted() -> None:
    says = "the value does not match `type` of the schema"
    assert schema_problem("a" * 1000, {"type": "object"}) == says


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert schema_problem(1, {"$ref": "#"}) == "the value or the schema is nested too deeply"
