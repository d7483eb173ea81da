"""The exceptions of the HTTP libraries, translated once.

A caller may hand in a client of `httpx2` or of `httpx`: the same names, other classes, and the
second may not be installed. So classes are known by their names.
"""

import ssl
from types import TracebackType

from ._types import FailureKind, TransportFailure

__all__ = ["translated"]

_LIBRARIES = ("httpx2", "httpx", "httpcore2", "httpcore")

# The most specific name comes first.
_KINDS = {
    "ConnectTimeout": FailureKind.CONNECT_TIMEOUT,
    "TimeoutException": FailureKind.TIMEOUT,
    "ConnectError": FailureKind.CONNECT,
    "ProxyError": FailureKind.PROXY,
    "TransportError": FailureKind.BROKEN,
    "NetworkError": FailureKind.BROKEN,
    "ProtocolError": FailureKind.BROKEN,
    "DecodingError": FailureKind.BROKEN,
    "StreamError": FailureKind.BROKEN,
    "InvalidURL": FailureKind.REQUEST,
}


class translated:  # noqa: N801 - used as `with translated():`
    """Turn every transport error into a `TransportFailure`; anything else passes.

    A class, because the generator of `contextlib` would be a tenth of what an open stream costs.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            kind = _kind_of(error)
            if kind is not None:
                raise TransportFailure(kind, _words(error)) from error


def _kind_of(error: Exception) -> FailureKind | None:
    names = [
        cls.__name__ for cls in type(error).__mro__ if cls.__module__.split(".")[0] in _LIBRARIES
    ]
    kind = next((kind for name, kind in _KINDS.items() if name in names), None)
    if kind is None and isinstance(error, OSError):  # a transport of the caller's own
        kind = FailureKind.BROKEN
    if kind is None and isinstance(error, UnicodeError | OverflowError):
        kind = FailureKind.REQUEST  # a host or a port that the socket library refuses
    if kind is FailureKind.CONNECT and _is_certificate_error(error):
        return FailureKind.CERTIFICATE
    return kind


def _is_certificate_error(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _words(error: Exception) -> str:
    name = type(error).__name__
    text = str(error)
    return f"{name}: {text}" if text else name
