"""Credentials: where the security schemes of a card put them, and the refresh after a 401.

* A single value is used for the first requirement of the card with exactly one scheme; without a
  card, or without a requirement, it is a bearer token. A mapping has values by scheme name, and
  is used for the first requirement whose schemes it all contains.
* A callable is called once and its value is reused; after a 401 it is called again, and the request
  is sent once more. A fixed value cannot be refreshed.
* `ClientCredentials` are tokens that the senders request (`_oauth`). They are always bearer tokens
  for a card.
* A request that was redirected to another origin has no credential.
* The card itself is requested without a credential. After a 401 or 403 it is requested once more
  with the credential: as basic if the server asks for that, else as a bearer token, because only
  the card could define another scheme.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from .._http._types import Request
from .._secret import Credential, CredentialLike
from ..errors import ArgumentError
from ._oauth import ClientCredentials, TokenCache
from .types import AgentCard, SecurityScheme

OneAuth: TypeAlias = CredentialLike | ClientCredentials
Auth: TypeAlias = OneAuth | Mapping[str, OneAuth]
Placement: TypeAlias = Callable[[Request, str], Request]
"""Puts the value of a credential into a request."""


# Placements


def bearer(request: Request, value: str) -> Request:
    """Put a token into the `Authorization` header."""
    return _with_header(request, "Authorization", f"Bearer {value}")


def basic(request: Request, value: str) -> Request:
    """Put `user:password` into the `Authorization` header."""
    return _with_header(request, "Authorization", f"Basic {b64encode(value.encode()).decode()}")


def _other_scheme(scheme: str) -> Placement:
    return lambda request, value: _with_header(request, "Authorization", f"{scheme} {value}")


def _header(name: str) -> Placement:
    return lambda request, value: _with_header(request, name, value)


def _cookie(name: str) -> Placement:
    def place(request: Request, value: str) -> Request:
        cookies = [v for n, v in request.headers.items() if n.lower() == "cookie"]
        return _with_header(request, "Cookie", "; ".join([*cookies, f"{name}={value}"]))

    return place


def _query(name: str) -> Placement:
    def place(request: Request, value: str) -> Request:
        parts = urlsplit(request.url)
        pair = f"{quote(name, safe='')}={quote(value, safe='')}"
        query = f"{parts.query}&{pair}" if parts.query else pair
        return replace(request, url=urlunsplit(parts._replace(query=query)))

    return place


_KEY_PLACEMENTS: Mapping[str, Callable[[str], Placement]] = {
    "header": _header,
    "query": _query,
    "cookie": _cookie,
}


def _with_header(request: Request, name: str, value: str) -> Request:
    kept = {n: v for n, v in request.headers.items() if n.lower() != name.lower()}
    return replace(request, headers={**kept, name: value})


def _placement_of(scheme: SecurityScheme) -> Placement | None:
    """Return the placement for a scheme, None if its credential is not part of the request."""
    key = scheme.api_key_security_scheme
    if key is not None:
        make = _KEY_PLACEMENTS.get(key.location.lower())
        return None if make is None or not key.name else make(key.name)
    http = scheme.http_auth_security_scheme
    if http is not None:
        named = {"bearer": bearer, "basic": basic, "": bearer}
        return named.get(http.scheme.lower()) or _other_scheme(http.scheme)
    token = scheme.oauth2_security_scheme or scheme.open_id_connect_security_scheme
    return None if token is None else bearer


# Credentials


def _check_value(value: str) -> None:
    if not value or any(c in value for c in "\r\n\0"):
        raise ArgumentError("auth", "must be one line of text, and not empty")


def _credential(source: OneAuth) -> Credential | TokenCache:
    if isinstance(source, ClientCredentials):
        return source._cache
    return Credential(source, check=_check_value, async_client="AsyncA2AClient")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of every request with their placements."""

    placed: Sequence[tuple[Credential | TokenCache, Placement]] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """The current values, for redaction; without those of callables that were not called."""
        return tuple(credential.value for credential, _ in self.placed if credential.value)

    def refresh_after(self, request: Request, status: int) -> bool:
        """Return True if the request should be sent again with new credentials.

        The senders call this once for each request, so there is at most one refresh.
        """
        return (
            status == 401
            and not request.without_client_defaults
            and any(credential.can_refresh for credential, _ in self.placed)
        )

    def token_caches(self, request: Request) -> list[TokenCache]:
        """Return the caches whose tokens a request needs."""
        return [found for found in self._needed(request) if isinstance(found, TokenCache)]

    def apply(self, request: Request, *, refresh: bool = False) -> Request:
        """Return the request with the credentials, unless it was redirected to another origin."""
        values = [c.get(refresh=refresh) for c in self._needed(request)]
        return self._with_values(request, values)

    async def apply_async(self, request: Request, *, refresh: bool = False) -> Request:
        """Return the request with the credentials, unless it was redirected to another origin."""
        values = [await c.get_async(refresh=refresh) for c in self._needed(request)]
        return self._with_values(request, values)

    def _needed(self, request: Request) -> Sequence[Credential | TokenCache]:
        return (
            [] if request.without_client_defaults else [credential for credential, _ in self.placed]
        )

    def _with_values(self, request: Request, values: Sequence[str]) -> Request:
        for value, (_, place) in zip(values, self.placed, strict=False):
            request = place(request, value)
        return request


def credentials(auth: Auth | None, card: AgentCard | None = None) -> Credentials:
    """Return credentials with the placements that the card requires.

    Raises:
        ValueError: the card requires schemes that were not given, or a value cannot be sent.
        TypeError: `auth` is not a credential.
    """
    if auth is None:
        return Credentials()
    required = [] if card is None else [list(r.schemes) for r in card.security_requirements]
    schemes = {} if card is None else card.security_schemes
    if isinstance(auth, Mapping):
        return Credentials(_by_scheme_name(auth, required, schemes))
    for names in required:
        placements = [_placement_of(schemes[name]) for name in names if name in schemes]
        if len(names) == len(placements) == 1 and placements[0] is not None:
            return Credentials([(_credential(auth), placements[0])])
    only = [place for s in schemes.values() if (place := _placement_of(s)) is not None]
    return Credentials([(_credential(auth), only[0] if len(only) == 1 else bearer)])


def _by_scheme_name(
    auth: Mapping[str, OneAuth],
    required: Sequence[Sequence[str]],
    schemes: Mapping[str, SecurityScheme],
) -> list[tuple[Credential | TokenCache, Placement]]:
    for names in [*required, list(auth)]:
        if names and all(name in auth and name in schemes for name in names):
            pairs = [(auth[name], _placement_of(schemes[name])) for name in names]
            return [(_credential(value), place) for value, place in pairs if place is not None]
    expected: Any = [" and ".join(names) for names in required] or sorted(schemes)
    rule = f"must have the schemes that the card requires, {expected}; got {sorted(auth)}"
    raise ArgumentError("auth", rule)


# The card's own credential


@dataclass(slots=True)
class ChallengedRequest(Request):
    """A card request after a 401 or 403; `challenge` is the `WWW-Authenticate` header."""

    challenge: str = ""


class CardCredential:
    """The credential for a card that requires one; empty unless exactly one was given.

    Raises:
        ValueError: it cannot be sent.
        TypeError: it is not a credential.
    """

    def __init__(self, auth: Auth | None) -> None:
        if isinstance(auth, Mapping):
            auth = next(iter(auth.values())) if len(auth) == 1 else None
        self._credential = None if auth is None else _credential(auth)

    def __bool__(self) -> bool:
        return self._credential is not None

    def for_request(self, request: Request) -> Credentials:
        """Return the credentials of a request; empty unless the server has challenged it."""
        if self._credential is None or not isinstance(request, ChallengedRequest):
            return Credentials()
        is_basic = request.challenge.partition(" ")[0].lower() == "basic"
        is_token = isinstance(self._credential, TokenCache)
        place = basic if is_basic and not is_token else bearer
        return Credentials([(self._credential, place)])

    @property
    def values(self) -> tuple[str, ...]:
        """The current value, for redaction; empty if there is none."""
        value = None if self._credential is None else self._credential.value
        return () if value is None else (value,)
