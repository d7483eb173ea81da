"""`--schema`: a JSON schema as a format for the answer of a model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..exits import ExitCode, Failure
from ._conform import schema_problem

if TYPE_CHECKING:
    from pydantic import RootModel

__all__ = ["parse_schema", "read_schema", "schema_model"]


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
        reason = getattr(error, "strerror", None) or str(error)
        raise Failure(f"--schema {given}: {reason.lower()}", ExitCode.USAGE) from None
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
