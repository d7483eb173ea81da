"""The version of the protocol that a request uses. No I/O."""

from typing import Final

from coreason_client.a2a.errors import VersionNotSupportedError

__all__ = ["V03", "V10", "VERSION_HEADER", "requested_version"]

V10: Final = "1.0"
V03: Final = "0.3"
VERSION_HEADER: Final = "A2A-Version"
_SUPPORTED: Final = (V10, V03)


def requested_version(given: str | None) -> str:
    """Return the version that a request names; one that names none uses 0.3.

    Raises:
        VersionNotSupportedError: it names another one.
    """
    version = (given or "").strip() or V03
    # A patch number is not part of a version, but some clients send one.
    short = ".".join(version.split(".")[:2])
    if short not in _SUPPORTED:
        shown = " and ".join(_SUPPORTED)
        raise VersionNotSupportedError(
            f"The protocol versions {shown} are supported, but the request is for another one."
        )
    return short
