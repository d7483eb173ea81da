"""Origin rules: which interfaces of a card may be called, and which get credentials. Pure.

The named origin is that of the URL given to `connect` or to a resolver; for a card that no resolver
fetched, it is that of the first interface that this client supports.

* Interfaces at the named origin, or at one listed in `interface_origins`, get credentials and
  headers.
* Other origins get neither. If the caller gave credentials or headers, such an interface is left
  out, because the call would fail without them. Otherwise it is used, without anything that the
  HTTP client adds by itself.
* If the named origin is https, http interfaces are left out, unless they are listed.
* If no interface is left, an error is raised before anything is sent.

Two origins are the same if scheme, host and port are equal. Two exceptions: http on port 80 may be
replaced by https on port 443 at the same host, and all names of this machine are the same host.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .._host_port import bracketed, host_port
from .._http._types import DEFAULT_PORTS, origin
from ._call import checked_url
from .errors import A2AOriginError

__all__ = ["Origins", "headers_refused", "origin_of"]

Origin: TypeAlias = tuple[str, str, int | None]

_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - not bound


def origin_of(url: str) -> str:
    """Return the origin of a URL as text, with the port if it is not the default."""
    scheme, host, port = origin(url)
    if port is None or port == DEFAULT_PORTS.get(scheme):
        return f"{scheme}://{bracketed(host)}"
    return f"{scheme}://{host_port(host, port)}"


def _is_same(named: Origin, found: Origin) -> bool:
    if named == found:
        return True
    if (named[0], named[2], found[0], found[2]) == ("http", 80, "https", 443):
        return named[1] == found[1]
    is_local = named[1] in _THIS_MACHINE and found[1] in _THIS_MACHINE
    return is_local and (named[0], named[2]) == (found[0], found[2])


@dataclass(frozen=True, slots=True)
class Origins:
    """The named origin, the allowed ones, and whether the caller gave credentials or headers."""

    named: str
    allowed: Collection[Origin] = ()
    has_secrets: bool = False

    @classmethod
    def from_options(cls, named: str, allowed: Sequence[str], *, has_secrets: bool) -> "Origins":
        """Create it from options.

        Raises:
            ValueError, TypeError: an allowed origin is not a URL.
        """
        if isinstance(allowed, str):
            raise TypeError(f"interface_origins must be a list of origins, got {allowed!r}")
        origins = frozenset(origin(checked_url(url, "interface_origins")) for url in allowed)
        return cls(named, origins, has_secrets)

    def is_trusted(self, url: str) -> bool:
        """Return True if an interface gets credentials and headers."""
        found = origin(url)
        return found in self.allowed or _is_same(origin(self.named), found)

    def may_call(self, url: str) -> bool:
        """Return True if an interface may be called at all."""
        if self.is_trusted(url):
            return True
        is_downgrade = origin(self.named)[0] == "https" and origin(url)[0] == "http"
        return not is_downgrade and not self.has_secrets

    def error(self, name: str, urls: Sequence[str]) -> A2AOriginError:
        """Return the error for a card whose interfaces are all at other origins."""
        named = origin_of(self.named)
        found = list(dict.fromkeys(map(origin_of, urls)))
        why = (
            "credentials and headers are not sent to another origin"
            if self.has_secrets
            else "an agent with an https address is not called over http"
        )
        return A2AOriginError(
            f"the card of {name!r} names interfaces at {', '.join(found)}, but the caller named"
            f" {named}; {why}; to allow it, pass interface_origins={found!r}",
            named=named,
            found=found,
        )


def headers_refused(url: str) -> A2AOriginError:
    """Return the error for a call with its own headers to an interface that gets none."""
    found = origin_of(url)
    return A2AOriginError(
        f"the interface is at {found}, which is not the named origin; headers are not"
        f" sent there; to allow it, pass interface_origins={[found]!r}",
        found=[found],
    )
