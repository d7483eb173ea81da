"""Checks of `response_format`."""

import re
from collections.abc import Mapping
from typing import Any

from ._argument_errors import invalid
from ._call import Schema, is_pydantic_model
from .errors import LLMRequestError

__all__ = ["check_response_format"]

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)


def check_response_format(response_format: Any) -> Schema | None:
    """Return the schema of the answer, None if it is plain text.

    Raises:
        LLMRequestError: the format is wrong.
    """
    if response_format is None:
        return None
    if is_pydantic_model(response_format):
        return _model_schema(response_format)
    if not isinstance(response_format, Mapping):
        raise invalid(
            "response_format", "must be a JSON schema or a pydantic model", response_format
        )
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return Schema("answer", None)
    if kind == "json_schema":
        return _wrapped_schema(response_format.get("json_schema"))
    return Schema("answer", response_format)


def _model_schema(model: Any) -> Schema:
    try:
        schema = model.model_json_schema()
    except (
        RuntimeError,
        NameError,
        AttributeError,
    ) as error:  # the base classes of pydantic's errors
        reason = str(error).partition("\n")[0]
        raise LLMRequestError(
            f"response_format must have a JSON schema, and {model.__name__} has none: {reason}"
        ) from None
    return Schema(_NOT_IN_NAME.sub("_", model.__name__)[:64], schema, strict=None)


def _wrapped_schema(wrapped: Any) -> Schema:
    where = "response_format.json_schema"
    schema = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
    name = wrapped.get("name", "answer") if isinstance(wrapped, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(name, str):
        raise invalid(where, 'must be {"name": …, "schema": {…}}', wrapped)
    strict = wrapped.get("strict")
    if not isinstance(strict, bool | None):
        raise invalid(f"{where}.strict", "must be true or false", strict)
    return Schema(name, schema, bool(strict))
