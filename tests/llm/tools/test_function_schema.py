"""Functions as JSON schemas, and the validation of their arguments."""

import functools
import subprocess
import sys
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from coreason_client.llm import LLMRequestError
from coreason_client.llm.tools._function_schema import (
    ArgumentsError,
    FunctionSchema,
    function_schema,
)


class Place(BaseModel):
    """A place."""

    city: str
    country: str = "IT"


def weather(
    place: Place,
    day: date,
    days: Annotated[int, Field(ge=1, le=7, description="1 to 7")] = 1,
    unit: Literal["c", "f"] = "c",
    *,
    schema: list[str] | None = None,
) -> str:
    """Return the weather.

    Args:
        place: where.
        day: the first day.
        days: not used, because the annotation has a description.
    """
    return f"{place.city} {day} {days} {unit} {schema}"


def schema_of(function: Any) -> FunctionSchema:
    return function_schema(function, "tools[0]")


def test_annotations_defaults_and_descriptions_are_in_the_schema() -> None:
    schema = schema_of(weather)
    assert schema.description == "Return the weather."
    parameters = schema.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place", "day"]
    assert parameters["additionalProperties"] is False
    properties = parameters["properties"]
    assert properties["place"]["description"] == "where."
    assert properties["day"] == {
        "type": "string",
        "format": "date",
        "description": "the first day.",
    }
    assert properties["days"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 7,
        "description": "1 to 7",
        "default": 1,
    }
    assert properties["unit"] == {"type": "string", "enum": ["c", "f"], "default": "c"}
    assert properties["schema"]["default"] is None
    assert "title" not in parameters


def test_arguments_get_the_types_of_the_annotations() -> None:
    given = {"place": {"city": "Rome"}, "day": "2026-05-01", "days": 2}
    assert schema_of(weather).validated(given) == {
        "place": Place(city="Rome"),
        "day": date(2026, 5, 1),
        "days": 2,
    }


def test_invalid_arguments_are_all_named_without_their_values() -> None:
    with pytest.raises(ArgumentsError) as caught:
        schema_of(weather).validated({"place": {"city": 5}, "days": 9, "secret": "hunter2"})
    text = str(caught.value)
    assert "place.city: Input should be a valid string" in text
    assert "day: Field required" in text
    assert "days: Input should be less than or equal to 7" in text
    assert "secret: Extra inputs are not permitted" in text
    assert "hunter2" not in text


def test_many_errors_are_counted() -> None:
    with pytest.raises(ArgumentsError, match=r"; and 90 more$"):
        schema_of(weather).validated({f"x{n}": 1 for n in range(98)})


def test_a_schema_is_built_once() -> None:
    assert schema_of(weather) is schema_of(weather)


class Shop:
    def price(self, article: str) -> int:
        """Return a price."""
        return len(article)

    def __call__(self, article: str) -> int:
        """Sell."""
        return len(article)


class Slotted:
    """An object without weak references."""

    __slots__ = ()

    def __call__(self, n: int) -> int:
        """Count."""
        return n


@pytest.mark.parametrize(
    ("function", "description", "names"),
    [
        (Shop().price, "Return a price.", ["article"]),
        (Shop(), "Sell.", ["article"]),
        (Slotted(), "Count.", ["n"]),
        (functools.partial(weather, unit="f"), "Return the weather.", None),
    ],
)
def test_methods_objects_and_partials(function: Any, description: str, names: Any) -> None:
    schema = schema_of(function)
    assert schema.description == description
    assert names is None or list(schema.parameters["properties"]) == names


def test_the_schema_of_a_method_is_kept_for_its_function() -> None:
    assert schema_of(Shop().price) is schema_of(Shop().price)


def test_a_function_without_parameters() -> None:
    def now() -> str:
        return "now"

    assert schema_of(now).parameters["properties"] == {}
    assert schema_of(now).validated({}) == {}
    with pytest.raises(ArgumentsError):
        schema_of(now).validated({"x": 1})


def test_further_keywords_are_allowed_if_the_function_takes_them() -> None:
    def log(text: str, **fields: Any) -> None: ...

    assert schema_of(log).validated({"text": "a", "b": 1}) == {"text": "a", "b": 1}


def test_a_parameter_without_annotation_takes_anything() -> None:
    def echo(value): ...  # type: ignore[no-untyped-def]

    assert schema_of(echo).validated({"value": [1]}) == {"value": [1]}


def test_a_default_that_is_not_json_is_not_shown() -> None:
    def pick(key: Any = object) -> None: ...

    assert "default" not in schema_of(pick).parameters["properties"]["key"]


def positional(a: int, /) -> None: ...
def variable(*a: int) -> None: ...
def with_field(a: int = Field(3)) -> None: ...
def opaque(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unschematic(a: Shop) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (positional, "by keyword"),
        (variable, "by keyword"),
        (with_field, "Annotated"),
        (opaque, "exist at run time"),
        (unschematic, "JSON schema"),
        (dict.fromkeys, "by keyword"),
        (min, "signature"),
    ],
)
def test_a_function_that_cannot_be_described_is_an_error(function: Any, message: str) -> None:
    with pytest.raises(LLMRequestError, match=message) as caught:
        schema_of(function)
    assert str(caught.value).startswith("tools[0] must")


def test_pydantic_is_imported_only_for_a_schema() -> None:
    code = (
        "import sys; import coreason_client.llm.tools._function_schema;"
        "import coreason_client.llm.tools.tool; assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
