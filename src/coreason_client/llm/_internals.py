"""All uses of undocumented names of aiohttp and `os` in this package."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .._fallback import report_fallback


def request_function(session: Any) -> Callable[..., Awaitable[Any]]:
    """Return the coroutine function behind `ClientSession.request`.

    The documented method adds an object that is both awaitable and a context manager.
    """
    function: Callable[..., Awaitable[Any]] | None = getattr(session, "_request", None)
    if function is None:
        report_fallback("the sessions of aiohttp are", "each request takes a little longer")
        function = session.request
    return function


def unread_bytes(content: Any) -> bytes:
    """Return the bytes that aiohttp received, but did not deliver, before a connection broke.

    `content` is a `StreamReader` that has failed; its documented methods only raise the failure.
    """
    try:
        return content._read_nowait(-1) if content.total_bytes else b""
    except AttributeError:
        report_fallback(
            "the stream readers of aiohttp are",
            "bytes that arrive together with a failure of the connection are not delivered",
        )
        return b""


def fail_readers(content: Any, error: Exception) -> None:
    """Raise an error in all readers of a body; otherwise aiohttp leaves them waiting forever."""
    try:
        content.set_exception(error)
    except AttributeError:
        report_fallback(
            "the stream readers of aiohttp are",
            "a body that is being read when the client is closed ends with its read timeout",
        )


def environment_reader(names: Sequence[str]) -> Callable[[], tuple[object, ...]]:
    """Return a function that returns the current values of variables, to detect changes.

    It reads the dict behind `os.environ` where possible: `os.environ` itself raises and catches an
    exception for each variable that is not set. That takes 27 µs here, a quarter of the time of a
    bare request.
    """
    encode = getattr(os.environ, "encodekey", None)
    keys = None if encode is None else tuple(map(encode, names))  # bytes on POSIX

    def read() -> tuple[object, ...]:
        data = getattr(os.environ, "_data", None)
        if keys is not None and isinstance(data, dict):
            return tuple(map(data.get, keys))
        report_fallback("os.environ is", "the configuration is read a little slower")
        return tuple(map(os.environ.get, names))

    return read
