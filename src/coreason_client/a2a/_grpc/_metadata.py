"""Metadata: the headers of an A2A call in gRPC, in both directions. Pure.

The service parameters are `a2a-version` and `a2a-extensions`; a credential is in `authorization` or
in the key that the card names. Keys are in lower case. Headers that describe an HTTP message are
not sent, because gRPC has its own.
"""

import re
from collections.abc import Iterable, Mapping

__all__ = ["extensions_in", "metadata_from_headers", "version_in"]

_KEY = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[ -~]*")
_OF_HTTP = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "te",
        "transfer-encoding",
        "user-agent",
    }
)


def metadata_from_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the metadata for the headers of a request.

    Raises:
        ValueError: gRPC cannot send a header; the message omits its value, which may be a secret.
    """
    found = tuple(
        (name.lower(), value) for name, value in headers.items() if name.lower() not in _OF_HTTP
    )
    for key, value in found:
        if not _KEY.fullmatch(key) or key.startswith("grpc-") or key.endswith("-bin"):
            raise ValueError(f"gRPC cannot send a header with the name {key!r}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"gRPC cannot send the header {key!r}: its value is not ASCII text")
    return found


def version_in(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the protocol version that a request names; missing or empty means 0.3."""
    return next(iter(_values("a2a-version", metadata)), "") or "0.3"


def extensions_in(metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    """Return the URIs of the extensions that a request activates, each once."""
    keys = ("a2a-extensions", "x-a2a-extensions")  # the second is that of 0.3
    pairs = list(metadata)
    values = [value for key in keys for value in _values(key, pairs)]
    uris = [uri.strip() for value in values for uri in value.split(",")]
    return list(dict.fromkeys(uri for uri in uris if uri))


def _values(key: str, metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    return [
        value.strip() for name, value in metadata if name.lower() == key and isinstance(value, str)
    ]
