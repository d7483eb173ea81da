"""The version of the protocol that a request uses. No I/O."""

from collections.abc import Sequence
from typing import Final

from coreason_client.a2a.errors import VersionNotSupportedError

__all__ = ["V03", "V10", "VERSIONS", "VERSION_HEADER", "requested_version"]

V10: Final = "1.0"
V03: Final = "0.3"
VERSION_HEADER: Final = "A2A-Version"
VERSIONS: Final = (V10, V03)
"""The versions of the protocol that the server knows, the latest first."""


def requested_version(given: str | None, supported: Sequence[str] = VERSIONS) -> str:
    """Return the version that a request names; one that names none uses 0.3.

    Raises:
        VersionNotSupportedError: it names another one.
    """
    version = (given or "").strip() or V03
    # A patch number is not part of a version, but some clients send one.
    short = ".".join(version.split(".")[:2])
    if short not in supported:
        shown = " and ".join(supported)
        raise VersionNotSupportedError(
            f"The server supports version {shown} of the protocol, and the request is for another "
            f"one. A request without {VERSION_HEADER} is one of {V03}."
        )
    return short
