"""The outcome of a step as JSON, and its arguments as a digest. No I/O."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

MAX_RESULT_BYTES = 1024 * 1024
_LIMIT = "_coreason_max_result_bytes"


def with_limit(function: Callable[..., Any], max_bytes: int) -> None:
    """Let the results of a function have another size."""
    setattr(function, _LIMIT, max_bytes)


_MAX_MESSAGE = 2000  # characters of an error's message that the journal keeps


def failure_of(error: BaseException) -> dict[str, str]:
    """Return the type and the message of an error as the journal keeps them."""
    # A message may have a file name, whose bytes need not be Unicode.
    message = str(error)[:_MAX_MESSAGE].encode(errors="backslashreplace").decode()
    return {"type": type(error).__name__, "message": message}


class ResultError(ValueError):
    """The result of a step cannot be stored."""


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside any `functools.partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function that the journal keeps."""
    inner = unwrapped(function)
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__


def arguments_digest(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    """Return a digest of the arguments of a step, with those of a `functools.partial`.

    Of an object that is not JSON, it has only the type.
    """
    given: list[Any] = [list(arguments)]
    while isinstance(function, functools.partial):
        given += [list(function.args), sorted(function.keywords.items())]
        function = function.func
    return sha256(_digestible_json(given)).hexdigest()[:32]


def _digestible_json(value: Any) -> bytes:
    return to_json(_digestible(value), fallback=_type_name)


def _digestible(value: Any) -> Any:
    """Return a value as JSON that is the same in every process; it is not changed or used up."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, bytes | bytearray | memoryview):
        return sha256(value).hexdigest()
    if isinstance(value, Iterator):
        return _type_name(value)
    if isinstance(value, list | tuple):
        return [_digestible(item) for item in value]
    if isinstance(value, set | frozenset):  # the order of strings is another in each process
        return sorted(_digestible_json(item).decode() for item in value)
    return _digestible_fields(value)


def _digestible_fields(value: Any) -> Any:
    if isinstance(value, BaseModel):
        value = dict(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {_digestible(key): _digestible(item) for key, item in value.items()}
    return [[_digestible(key), _digestible(item)] for key, item in value.items()]


def _type_name(value: object) -> str:
    return f"<{function_name(value)}>" if callable(value) else f"<{type(value).__qualname__}>"


class ResultType:
    """Converts the results of one function; its return annotation is their type."""

    __slots__ = ("_adapter", "_max_bytes", "_step")

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        self._step = step
        self._adapter = _adapter(unwrapped(function))
        self._max_bytes = getattr(function, _LIMIT, MAX_RESULT_BYTES)

    def dump(self, result: object) -> bytes:
        """Return a result as JSON.

        Raises:
            ResultError: it is not JSON, or too large.
        """
        try:
            data = self._adapter.dump_json(result, warnings="error")
        except (PydanticSerializationError, UnicodeEncodeError, ValueError, RecursionError):
            raise ResultError(
                f"the result of the step {self._step} must be JSON or fit the return annotation of "
                f"its function, got {type(result).__name__}"
            ) from None
        if len(data) > self._max_bytes:
            raise ResultError(
                f"the result of the step {self._step} may have {self._max_bytes} bytes of JSON, "
                f"got {len(data)}: store it elsewhere and return its address"
            )
        return data

    def parse(self, data: bytes) -> Any:
        """Return the result for the agent.

        Raises:
            ResultError: the JSON does not fit the return annotation.
        """
        try:
            return self._adapter.validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise ResultError(
                f"the result of the step {self._step} does not fit the return annotation of its "
                f"function: {first['msg']}"
            ) from None


_ANY: TypeAdapter[Any] = TypeAdapter(Any)
_cached_adapter = functools.lru_cache(256)(TypeAdapter)
# Looking up the names in annotations takes longer than the rest of a short step.
_adapters: WeakKeyDictionary[Callable[..., Any], TypeAdapter[Any]] = WeakKeyDictionary()


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the adapter of a return annotation; that of Any if there is none to use."""
    target = function if inspect.isroutine(function) else type(function).__call__
    if not inspect.isfunction(target):  # a method is a new object each time
        return _make_adapter(target)
    adapter = _adapters.get(target)
    if adapter is None:
        adapter = _adapters[target] = _make_adapter(target)
    return adapter


def _make_adapter(target: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        annotation = get_type_hints(target, include_extras=True).get("return", Any)
        return _cached_adapter(annotation)
    except (NameError, TypeError, PydanticUserError):
        return _ANY
