"""Translates the exceptions of the HTTP libraries into `TransportFailure`.

A caller may pass a client of `httpx2` or of `httpx`. Their classes have the same names but are
different, and `httpx` may not be installed, so exceptions are recognised by class name.
"""

import ssl

from ._types import FailureKind, TransportFailure

__all__ = ["translated"]

_LIBRARIES = ("httpx2", "httpx", "httpcore2", "httpcore")

# The most specific name comes first.
_KINDS = {
    "DecodingError": FailureKind.ENCODING,
    "ConnectTimeout": FailureKind.CONNECT_TIMEOUT,
    "TimeoutException": FailureKind.TIMEOUT,
    "ConnectError": FailureKind.CONNECT,
    "ProxyError": FailureKind.PROXY,
    "TransportError": FailureKind.BROKEN,
    "NetworkError": FailureKind.BROKEN,
    "ProtocolError": FailureKind.BROKEN,
    "StreamError": FailureKind.BROKEN,
    "InvalidURL": FailureKind.REQUEST,
}


class translated:  # noqa: N801 - used as `with translated():`
    """Turn every transport error into a `TransportFailure`; other exceptions propagate.

    A class, because a `contextlib` generator would be a tenth of the cost of an open stream.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            kind = _kind_of(error)
            if kind is not None:
                raise TransportFailure(kind, _message(error)) from error


def _kind_of(error: Exception) -> FailureKind | None:
    names = [
        cls.__name__ for cls in type(error).__mro__ if cls.__module__.split(".")[0] in _LIBRARIES
    ]
    kind = next((kind for name, kind in _KINDS.items() if name in names), None)
    if kind is None and isinstance(error, OSError):  # from a caller's own transport
        kind = FailureKind.BROKEN
    if kind is None and isinstance(error, UnicodeError | OverflowError):
        kind = FailureKind.REQUEST  # a host or port that the socket library rejects
    if kind is FailureKind.CONNECT and _is_certificate_error(error):
        return FailureKind.CERTIFICATE
    return kind


def _is_certificate_error(error: BaseException) -> bool:
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, ssl.SSLCertVerificationError):
            return True
        current = current.__cause__ or current.__context__
    return False


def _message(error: Exception) -> str:
    name = type(error).__name__
    text = str(error)
    return f"{name}: {text}" if text else name
