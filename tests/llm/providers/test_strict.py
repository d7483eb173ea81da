"""Schemas for strict mode: what can be enforced is, and everything else is left as it was."""

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from coreason_client.llm._call import ModelCall, Schema
from coreason_client.llm.providers._openai import sent_schema, strict_schema
from coreason_client.llm.providers.profiles import PROFILES
from tests.each import each


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Wheel(BaseModel):
    size: Annotated[float, Field(gt=0, le=99)]
    kind: Literal["front", "rear"] = "rear"


class Car(BaseModel):
    """A car."""

    name: str = Field(description="Its name", pattern="^[a-z]+$")
    colour: Colour = Colour.RED
    wheels: list[Wheel] = Field(default_factory=list, max_length=4)
    spare: Wheel | None = Field(None, description="Under the boot")
    owner: str | int | None = None


class Tree(BaseModel):
    children: "list[Tree]"


class Free(BaseModel):
    values: dict[str, int]


class Anything(BaseModel):
    value: Any


class Short(BaseModel):
    name: str = Field(min_length=1)


class Pair(BaseModel):
    both: tuple[int, str]


class Empty(BaseModel):
    pass


def objects(schema: Any) -> list[dict[str, Any]]:
    """All objects within a schema."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    inner = [found for value in schema.values() for found in objects(value)]
    return [schema, *inner] if schema.get("type") == "object" else inner


def test_every_object_is_closed_and_requires_all() -> None:
    strict = strict_schema(Car.model_json_schema())
    assert strict is not None
    found = objects(strict)
    assert len(found) == 2
    for schema in found:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    assert "default" not in str(strict)
    spare = strict["properties"]["spare"]
    assert spare["anyOf"] == [{"$ref": "#/$defs/Wheel"}, {"type": "null"}]
    assert spare["description"] == "Under the boot"
    assert strict["properties"]["colour"] == {"$ref": "#/$defs/Colour"}
    assert strict["$defs"]["Wheel"]["properties"]["size"]["exclusiveMinimum"] == 0


def test_the_schema_itself_is_not_changed() -> None:
    schema = Car.model_json_schema()
    strict_schema(schema)
    assert schema == Car.model_json_schema()


@pytest.mark.parametrize("model", [Tree, Free, Anything, Short, Pair])
def test_what_cannot_be_enforced_is_left_alone(model: type[BaseModel]) -> None:
    assert strict_schema(model.model_json_schema()) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "uri-template"}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": []}}},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": [], "patternProperties": {}},
    ],
)
def test_schemas_that_strict_mode_refuses(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_a_model_without_fields() -> None:
    strict = strict_schema(Empty.model_json_schema())
    assert strict is not None
    assert (strict["required"], strict["additionalProperties"]) == ([], False)


STRICT_OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


PROFILES_BY_NAME = {profile.name: profile for profile in PROFILES}


def sent(model: str, strict: bool | None, schema: Any = STRICT_OBJECT) -> Any:
    """Return what is sent for a schema to a model of a provider, `provider/model`."""
    provider, _, name = model.partition("/")
    call = ModelCall(model=name, messages=[], schema=Schema("n", schema, strict))
    return sent_schema(call, PROFILES_BY_NAME[provider])


ENFORCING = (
    *("openai/m", "azure/m", "mistral/m", "xai/m", "cerebras/m", "fireworks/m", "together/m"),
    *("openrouter/openai/gpt-4o", "groq/openai/gpt-oss-120b"),
)


@each("model", ENFORCING)
def test_a_schema_is_converted_if_nobody_chose_and_the_model_enforces_it(model: str) -> None:
    converted = strict_schema(STRICT_OBJECT)
    assert sent(model, None) == {"name": "n", "schema": converted, "strict": True}
    free = {"type": "array"}
    assert sent(model, None, free) == {"name": "n", "schema": free, "strict": False}


@each(
    ("model", "strict"),
    [
        *(("openai/m", True), ("openai/m", False), ("groq/llama-3.3-70b", None), ("groq/m", True)),
        *(("vllm/m", None), ("ollama-openai/m", None)),
    ],
)
def test_otherwise_a_schema_is_sent_unchanged(model: str, strict: bool | None) -> None:
    unchanged = {"name": "n", "schema": STRICT_OBJECT, "strict": bool(strict)}
    assert sent(model, strict) == unchanged


def test_a_provider_without_schemas_gets_none() -> None:
    assert sent("deepseek/m", None) is None


def test_the_options_of_a_union_may_have_a_discriminator() -> None:
    options = [{"type": "string"}, {"type": "null"}]
    union = {"oneOf": options, "discriminator": {"propertyName": "a"}}
    strict = strict_schema({"type": "object", "properties": {"a": union}})
    assert strict is not None
    assert strict["properties"]["a"] == {"anyOf": options}
