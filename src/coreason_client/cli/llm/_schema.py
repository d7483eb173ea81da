"""`--schema`: a JSON schema as a format for the answer of a model.

Values are checked by the 2020-12 draft. A keyword that is invalid, and a reference to another
document, are not checked: such a schema accepts more values than it should, never fewer.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..exits import ExitCode, Failure, reason_of

if TYPE_CHECKING:
    from pydantic import RootModel

_MAX_MESSAGE = 300  # characters; the messages of the library quote the value

Check = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


def read_schema(given: str) -> "type[RootModel[Any]]":
    """Return the format for a JSON schema, or for a file that contains one.

    Raises:
        Failure: it is not a JSON schema, or the file cannot be read.
    """
    if given.lstrip().startswith("{"):
        return schema_model(parse_schema(given, "--schema"))
    try:
        text = Path(given).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Failure(f"--schema {given}: the file is not UTF-8", ExitCode.USAGE) from None
    except (OSError, ValueError) as error:
        raise Failure(f"--schema {given}: {reason_of(error)}", ExitCode.USAGE) from None
    return schema_model(parse_schema(text, f"--schema {given}"))


def parse_schema(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object in a text; `name` is used in the error.

    Raises:
        Failure: it is not a JSON object.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{name}: it is not valid JSON: {error}", ExitCode.USAGE) from None
    if not isinstance(schema, dict):
        raise Failure(f"{name}: it must be a JSON object", ExitCode.USAGE)
    return schema


def schema_model(schema: dict[str, Any]) -> "type[RootModel[Any]]":
    """Return a pydantic model that accepts the values of a JSON schema, and no others.

    The AI client asks the model once more if its answer does not match.
    """
    from pydantic import RootModel, model_validator
    from pydantic_core import PydanticCustomError

    class Conforming(RootModel[Any]):
        @model_validator(mode="after")
        def _check(self) -> "Conforming":
            if (problem := schema_problem(self.root, schema)) is not None:
                raise PydanticCustomError("schema", "{problem}", {"problem": problem})
            return self

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema

    Conforming.__name__ = "schema"  # the name that the provider and errors get
    return Conforming


def schema_problem(value: Any, schema: Any) -> str | None:
    """Return the first difference between a value and a schema, None if there is none."""
    from referencing import Registry

    if not isinstance(schema, dict | bool):
        return None
    # The registry of the library would fetch other documents.
    validator = _validator()(schema, registry=Registry())
    try:
        error = next(validator.iter_errors(value), None)
    except RecursionError:
        return "the value or the schema is nested too deeply"
    if error is None:
        return None
    place = error.json_path.removeprefix("$").removeprefix(".") or "the value"
    if len(error.message) <= _MAX_MESSAGE:
        return f"{place}: {error.message}"
    return f"{place} does not match `{error.validator}` of the schema"


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.validators import extend  # type: ignore[import-untyped]

    checks: dict[str, Check] = {**Draft202012Validator.VALIDATORS, "multipleOf": _multiple_of}
    types = Draft202012Validator.TYPE_CHECKER
    types = types.redefine("number", lambda _, value: _is_number(value))
    types = types.redefine("integer", lambda _, value: _is_number(value) and value == int(value))
    lenient = {name: _if_valid(check) for name, check in checks.items()}
    return extend(Draft202012Validator, lenient, type_checker=types)


def _if_valid(check: Check) -> Check:
    """Return a check of a keyword that finds nothing if the keyword is invalid."""
    from jsonschema.exceptions import UnknownType  # type: ignore[import-untyped]
    from referencing.exceptions import Unresolvable

    invalid = (UnknownType, Unresolvable, re.error, ArithmeticError, AttributeError, TypeError)

    def checked(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        try:
            yield from check(validator, rule, value, schema) or ()
        except invalid:
            return

    return checked


def _multiple_of(_: Any, divisor: Any, value: Any, __: Any) -> Iterator[Any]:
    """Check a multiple as people count: 0.3 is one of 0.1."""
    from jsonschema import ValidationError

    quotient = value / divisor if _is_number(value) else 0
    if not math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9):
        yield ValidationError(f"{value} is not a multiple of {divisor}")


def _is_number(value: Any) -> bool:
    """Return True for a number of JSON, which has no NaN and no infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
