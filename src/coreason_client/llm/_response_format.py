"""`response_format`: the JSON schema for an answer, and the answer as a value of its type. Pure.

Providers enforce only schemas of objects. So the schema for any other type, such as a list, is that
of an object whose only key is `answer`; the value is taken out of it when the answer is parsed.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, get_origin

from pydantic_core import from_json

from ._argument_errors import invalid
from ._call import Schema, is_pydantic_model
from ._json import ANSWER_KEY
from .errors import LLMRequestError

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)
_MODULES = re.compile(r"(?:\w+\.)+(?=\w)")


class _Format(NamedTuple):
    """The schema of a type, and the function that turns JSON text into one of its values."""

    schema: Schema
    parse: Callable[[str], Any]


def check_response_format(response_format: Any) -> Schema | None:
    """Return the schema of the answer, None if it is plain text.

    Raises:
        LLMRequestError: the format is wrong.
    """
    if response_format is None:
        return None
    if _is_type(response_format):
        return _format(response_format).schema
    if not isinstance(response_format, Mapping):
        rule = "must be a JSON schema, a pydantic model or another type"
        raise invalid("response_format", rule, response_format)
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return Schema("answer", None)
    if kind == "json_schema":
        return _openai_schema(response_format.get("json_schema"))
    return Schema("answer", response_format)


def parse_answer(content: str, response_format: Any) -> Any:
    """Return the value that a JSON text has in a format.

    Raises:
        ValueError: it is not JSON, or pydantic's `ValidationError`: it does not match the type.
    """
    return (
        _format(response_format).parse(content) if _is_type(response_format) else from_json(content)
    )


def format_name(response_format: Any) -> str:
    """Return the name of a type for messages, such as `list[City]`."""
    if isinstance(response_format, type) and get_origin(response_format) is None:
        return response_format.__name__
    return _MODULES.sub("", str(response_format))


def _is_type(value: Any) -> bool:
    return isinstance(value, type) or get_origin(value) is not None or hasattr(value, "__value__")


def _format(kind: Any) -> _Format:
    try:
        return _known_format(kind)
    except TypeError:  # it cannot be a key of the cache
        return _new_format(kind)


def _new_format(kind: Any) -> _Format:
    name = format_name(kind)
    try:
        schema, parse = _schema_and_parse(kind)
        wrapped = schema.get("type") != "object"
        if wrapped:
            schema, parse = _wrapped(kind, name)
    except (RuntimeError, NameError, AttributeError, TypeError) as error:  # pydantic's, and others
        reason = str(error).partition("\n")[0]
        raise LLMRequestError(
            f"response_format must have a JSON schema, and {name} has none: {reason}"
        ) from None
    sent_name = _NOT_IN_NAME.sub("_", name)[:64]
    return _Format(Schema(sent_name, schema, strict=None, wrapped=wrapped), parse)


_known_format = lru_cache(maxsize=256)(_new_format)  # pydantic needs milliseconds for a type


def _schema_and_parse(kind: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    if is_pydantic_model(kind):
        schema, parse = kind.model_json_schema(), kind.model_validate_json
    else:
        from pydantic import TypeAdapter  # most programs do not need it

        adapter = TypeAdapter(kind)
        schema, parse = adapter.json_schema(), adapter.validate_json
    if "$ref" in schema:  # a type that contains itself
        definitions = schema["$defs"]
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], "$defs": definitions}
    return schema, parse


def _wrapped(kind: Any, name: str) -> tuple[dict[str, Any], Callable[[str], Any]]:
    from pydantic import create_model

    fields: dict[str, Any] = {ANSWER_KEY: (kind, ...)}
    model = create_model(name, **fields)
    return model.model_json_schema(), lambda content: getattr(
        model.model_validate_json(content), ANSWER_KEY
    )


def _openai_schema(given: Any) -> Schema:
    where = "response_format.json_schema"
    schema = given.get("schema") if isinstance(given, Mapping) else None
    name = given.get("name", "answer") if isinstance(given, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(name, str):
        raise invalid(where, 'must be {"name": …, "schema": {…}}', given)
    strict = given.get("strict")
    if not isinstance(strict, bool | None):
        raise invalid(f"{where}.strict", "must be true or false", strict)
    return Schema(name, schema, bool(strict))
