"""The JSON schema of a function's parameters, and the validation of its arguments. No I/O.

Arguments are validated as a `TypedDict`: a parameter may have any name, and the function itself
fills in its defaults.
"""

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, get_type_hints
from weakref import WeakKeyDictionary

from pydantic_core import ValidationError

from ..errors import LLMRequestError

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_MAX_SHOWN_ERRORS = 10
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class ArgumentsError(ValueError):
    """The arguments of a tool call are invalid; the message is for the model."""


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """A function as a model sees it, and the validation of its arguments."""

    description: str
    parameters: Mapping[str, Any]
    adapter: "TypeAdapter[dict[str, Any]]"

    def validated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the types of the annotations.

        Raises:
            ArgumentsError: an argument is missing, unknown or has the wrong type.
        """
        try:
            return self.adapter.validate_python(dict(arguments))
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
        shown = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found[:_MAX_SHOWN_ERRORS]]
        more = len(found) - len(shown)
        raise ArgumentsError("; ".join(shown) + (f"; and {more} more" if more else ""))


_schemas: "WeakKeyDictionary[Callable[..., Any], FunctionSchema]" = WeakKeyDictionary()
_lock = threading.Lock()


def function_schema(function: Callable[..., Any], where: str) -> FunctionSchema:
    """Return the schema of a function; it is built once per function.

    `where` is the name of the argument in an error, such as "tools[0]".

    Raises:
        LLMRequestError: the signature cannot be described by a JSON schema.
    """
    # A bound method is a new object each time, so the schema is kept for its function.
    key = function.__func__ if inspect.ismethod(function) else function
    try:
        with _lock:
            known = _schemas.get(key)
    except TypeError:  # an object that is not hashable, or that has no weak references
        return _build(function, where)
    if known is None:
        known = _build(function, where)
        with _lock:
            _schemas[key] = known
    return known


def _build(function: Callable[..., Any], where: str) -> FunctionSchema:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    description, texts = read_docstring(_documented(function).__doc__)
    hints = _hints(function, where)
    required: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    extra = "forbid"
    for name, parameter in _signature(function, where).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        _check_parameter(parameter, where)
        required[name] = hints.get(name, Any)
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
    fields = {n: NotRequired[t] if n in defaults else t for n, t in required.items()}
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(_typed_dict(fields, extra))
        schema = _json_schema(adapter)
    except PydanticUserError as error:
        raise LLMRequestError(
            f"{where} must have annotations with a JSON schema: {str(error).partition(chr(10))[0]}"
        ) from None
    return FunctionSchema(description, _described(schema, texts, defaults), adapter)


def _documented(function: Callable[..., Any]) -> Any:
    """Return the object that has the docstring and the annotations of a function."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _signature(function: Callable[..., Any], where: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise LLMRequestError(
            f"{where} must be a function with a signature; pass Tool(…, parameters=…) for others"
        ) from None


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(_documented(function)), include_extras=True)
    except (NameError, TypeError) as error:
        raise LLMRequestError(
            f"{where} must have annotations that exist at run time: {error}"
        ) from None


def _check_parameter(parameter: inspect.Parameter, where: str) -> None:
    from pydantic.fields import FieldInfo

    if parameter.kind in _POSITIONAL:
        raise LLMRequestError(
            f"{where} must take its arguments by keyword; {parameter} is positional"
        )
    if isinstance(parameter.default, FieldInfo):
        raise LLMRequestError(
            f"{where} must have plain defaults; annotate {parameter.name} with "
            "Annotated[…, Field(…)] instead"
        )


def _typed_dict(fields: dict[str, Any], extra: str) -> Any:
    from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

    make: Any = TypedDict
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = {"extra": extra, "arbitrary_types_allowed": False}
    return arguments


def _json_schema(adapter: "TypeAdapter[dict[str, Any]]") -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Titles repeat the names and cost tokens."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    schema = adapter.json_schema(schema_generator=Untitled)
    schema.pop("title", None)
    return schema


def _described(
    schema: dict[str, Any], texts: Mapping[str, str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Add the descriptions of the docstring, and the defaults that are JSON."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    properties: dict[str, dict[str, Any]] = schema.setdefault("properties", {})
    for name, field in properties.items():
        if text := texts.get(name):
            field.setdefault("description", text)
        if name in defaults:
            try:
                field.setdefault("default", to_jsonable_python(defaults[name]))
            except PydanticSerializationError:
                continue
    return schema


# Descriptions of a tool and of its parameters, from its docstring.

# Section titles of Google's style; the text before the first one describes the tool.
_HEADER = re.compile("(?:Args|Arguments|Parameters|Returns?|Yields|Raises|Examples?|Notes?):")
_PARAMETER_HEADERS = frozenset({"Args:", "Arguments:", "Parameters:"})
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Described(NamedTuple):
    """The description of a function, and that of each parameter in its `Args:` section."""

    description: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Described:
    """Return the descriptions in a docstring."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip())]
    end = headers[0] if headers else len(lines)
    parameters: dict[str, str] = {}
    for begin, after in pairwise([*headers, len(lines)]):
        if lines[begin].rstrip() in _PARAMETER_HEADERS:
            parameters |= _read_parameters(lines[begin + 1 : after])
    return Described("\n".join(lines[:end]).strip(), parameters)


def _read_parameters(lines: list[str]) -> dict[str, str]:
    """Return the description of each parameter; deeper lines continue the one above."""
    texts: dict[str, list[str]] = {}
    current: list[str] = []
    depth: int | None = None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if indent == 0:  # text after the section
            break
        depth = indent if depth is None else depth
        found = _PARAMETER.fullmatch(line.strip()) if indent <= depth else None
        if found is not None:
            current = texts[found[1]] = [found[2]]
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, pieces)) for name, pieces in texts.items()}
