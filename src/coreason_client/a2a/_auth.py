"""Where a credential goes, as the card's security schemes say, and its one refresh on 401.

* A plain value goes where the first requirement of the card that it can meet wants it; without a
  card, or without a requirement, it is a bearer token. A mapping gives values by scheme name, and
  meets the first requirement all of whose schemes it has.
* A callable is asked once and its value kept; on a 401 it is asked again, and the request is sent
  once more, since it was refused. A value that was given as such cannot be refreshed.
* A request that a redirect took to another origin carries no credential.
* The card itself is asked for without a credential. Where it is refused with 401 or 403, it is
  asked for once more with the credential: basic if the server asks for that, else as a bearer
  token, since only the card could say otherwise.
"""

import inspect
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from .._drive import AsyncOpener, SyncOpener
from .._http._types import Request
from .._secret import header_secrets, redact, redact_chain
from ..errors import ArgumentError
from .errors import A2AError
from .types import AgentCard, SecurityScheme

__all__ = [
    "AsyncAuthSender",
    "AsyncCardSender",
    "Auth",
    "CardCredential",
    "ChallengedRequest",
    "Credential",
    "Credentials",
    "SyncAuthSender",
    "SyncCardSender",
    "credentials",
]

Credential: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
Auth: TypeAlias = Credential | Mapping[str, Credential]
Place: TypeAlias = Callable[[Request, str], Request]


# Places


def bearer(request: Request, value: str) -> Request:
    """Put a token into the `Authorization` header."""
    return _with_header(request, "Authorization", f"Bearer {value}")


def basic(request: Request, value: str) -> Request:
    """Put `user:password` into the `Authorization` header."""
    return _with_header(request, "Authorization", f"Basic {b64encode(value.encode()).decode()}")


def _other_scheme(scheme: str) -> Place:
    return lambda request, value: _with_header(request, "Authorization", f"{scheme} {value}")


def _header(name: str) -> Place:
    return lambda request, value: _with_header(request, name, value)


def _cookie(name: str) -> Place:
    def place(request: Request, value: str) -> Request:
        given = [v for n, v in request.headers.items() if n.lower() == "cookie"]
        return _with_header(request, "Cookie", "; ".join([*given, f"{name}={value}"]))

    return place


def _query(name: str) -> Place:
    def place(request: Request, value: str) -> Request:
        parts = urlsplit(request.url)
        pair = f"{quote(name, safe='')}={quote(value, safe='')}"
        query = f"{parts.query}&{pair}" if parts.query else pair
        return replace(request, url=urlunsplit(parts._replace(query=query)))

    return place


_KEY_PLACES: Mapping[str, Callable[[str], Place]] = {
    "header": _header,
    "query": _query,
    "cookie": _cookie,
}


def _with_header(request: Request, name: str, value: str) -> Request:
    kept = {n: v for n, v in request.headers.items() if n.lower() != name.lower()}
    return replace(request, headers={**kept, name: value})


def _place_of(scheme: SecurityScheme) -> Place | None:
    """Return where a scheme wants its credential, None where that is not in the request."""
    key = scheme.api_key_security_scheme
    if key is not None:
        make = _KEY_PLACES.get(key.location.lower())
        return None if make is None or not key.name else make(key.name)
    http = scheme.http_auth_security_scheme
    if http is not None:
        named = {"bearer": bearer, "basic": basic, "": bearer}
        return named.get(http.scheme.lower()) or _other_scheme(http.scheme)
    token = scheme.oauth2_security_scheme or scheme.open_id_connect_security_scheme
    return None if token is None else bearer


# Credentials


class _Source:
    """A credential, or where to get it."""

    def __init__(self, credential: Credential) -> None:
        if not isinstance(credential, str) and not callable(credential):
            raise TypeError("a credential is a string, or a callable that returns one")
        self._credential = credential
        self._value = credential if isinstance(credential, str) else None

    @property
    def refreshes(self) -> bool:
        return not isinstance(self._credential, str)

    @property
    def last(self) -> str | None:
        """The value that was used last."""
        return self._value

    def get(self, *, refresh: bool) -> str:
        """Return the value.

        Raises:
            TypeError: the callable is async, which a sync client cannot wait for.
        """
        if isinstance(self._credential, str):
            return self._credential
        if self._value is None or refresh:
            value = self._credential()
            if not isinstance(value, str):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError("the credential is async: that needs an AsyncA2AClient")
            self._value = value
        return _checked(self._value)

    async def get_async(self, *, refresh: bool) -> str:
        """Return the value; the callable may be async."""
        if isinstance(self._credential, str):
            return self._credential
        if self._value is None or refresh:
            value = self._credential()
            self._value = value if isinstance(value, str) else await value
        return _checked(self._value)


def _checked(value: str) -> str:
    # The value itself is never part of the message.
    if not value or any(c in value for c in "\r\n\0"):
        raise ArgumentError("auth", "must be text in one line, and not empty")
    return value


@dataclass(frozen=True, slots=True)
class Credentials:
    """What goes into every request; its repr shows none of it."""

    sources: Sequence[tuple[_Source, Place]] = ()

    def __repr__(self) -> str:
        return f"Credentials({len(self.sources)})"

    @property
    def refreshes(self) -> bool:
        """Whether asking again may give something else."""
        return any(source.refreshes for source, _ in self.sources)

    def redact(self, text: str, headers: Mapping[str, str]) -> str:
        """Return a text without the credentials and without the secrets among the headers."""
        known = (source.last for source, _ in self.sources)
        return redact(text, (*known, *header_secrets(headers)))

    def apply(self, request: Request, *, refresh: bool = False) -> Request:
        """Return the request with the credentials, unless it left its origin."""
        if request.bare:
            return request
        for source, place in self.sources:
            request = place(request, source.get(refresh=refresh))
        return request

    async def apply_async(self, request: Request, *, refresh: bool = False) -> Request:
        """Return the request with the credentials, unless it left its origin."""
        if request.bare:
            return request
        for source, place in self.sources:
            request = place(request, await source.get_async(refresh=refresh))
        return request


def credentials(auth: Auth | None, card: AgentCard | None = None) -> Credentials:
    """Decide where credentials go.

    Raises:
        ValueError: the card asks for schemes that were not given, or a value cannot be sent.
        TypeError: what was given is no credential.
    """
    if auth is None:
        return Credentials()
    if isinstance(auth, str):
        _checked(auth)
    wanted = [] if card is None else [list(r.schemes) for r in card.security_requirements]
    schemes = {} if card is None else card.security_schemes
    if isinstance(auth, Mapping):
        return Credentials(_named(auth, wanted, schemes))
    for names in wanted:
        places = [_place_of(schemes[name]) for name in names if name in schemes]
        if len(names) == len(places) == 1 and places[0] is not None:
            return Credentials([(_Source(auth), places[0])])
    only = [place for s in schemes.values() if (place := _place_of(s)) is not None]
    return Credentials([(_Source(auth), only[0] if len(only) == 1 else bearer)])


def _named(
    auth: Mapping[str, Credential],
    wanted: Sequence[Sequence[str]],
    schemes: Mapping[str, SecurityScheme],
) -> list[tuple[_Source, Place]]:
    for names in [*wanted, list(auth)]:
        if names and all(name in auth and name in schemes for name in names):
            pairs = [(auth[name], _place_of(schemes[name])) for name in names]
            return [(_Source(given), place) for given, place in pairs if place is not None]
    asked: Any = [" and ".join(names) for names in wanted] or sorted(schemes)
    rule = f"must be for schemes that the card asks for, {asked}; it is for {sorted(auth)}"
    raise ArgumentError("auth", rule)


# The card's own credential


@dataclass(frozen=True, slots=True)
class ChallengedRequest(Request):
    """A request for a card that was refused; `challenge` is the answer's `WWW-Authenticate`."""

    challenge: str = ""


class CardCredential:
    """The credential for a card that needs one: the one that was given, if there is just one.

    Raises:
        TypeError: what was given is no credential.
    """

    def __init__(self, auth: Auth | None) -> None:
        if isinstance(auth, Mapping):
            auth = next(iter(auth.values())) if len(auth) == 1 else None
        self._source = None if auth is None else _Source(auth)

    def __bool__(self) -> bool:
        return self._source is not None

    def for_request(self, request: Request) -> Credentials:
        """Return what goes into a request: nothing, unless it was refused before."""
        if self._source is None or not isinstance(request, ChallengedRequest):
            return Credentials()
        scheme = request.challenge.partition(" ")[0].lower()
        return Credentials([(self._source, basic if scheme == "basic" else bearer)])

    def hide(self, error: A2AError) -> None:
        """Redact the credential in an error, and in those that it came from."""
        known = None if self._source is None else self._source.last
        redact_chain(error, lambda text: redact(text, (known,)))


# Shells


class _Redacting:
    """What both shells do with secrets: an agent may repeat them."""

    _given: Credentials
    _sent: Mapping[str, str] = MappingProxyType({})  # the headers of the last request

    def _remember(self, request: Request) -> Request:
        if not request.bare:
            self._sent = request.headers
        return request

    def redact(self, text: str) -> str:
        """Return a text without the secrets that were sent."""
        return self._given.redact(text, self._sent)

    def hide(self, error: A2AError) -> None:
        """Redact the words of an error, and of those that it came from."""
        redact_chain(error, self.redact)


class SyncCardSender:
    """A sender of requests for cards; the sync one of a pair."""

    def __init__(self, sender: SyncOpener, given: CardCredential) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    def open(self, request: Request) -> Any:
        """Send the request, with the credential if it was refused without."""
        return self._sender.open(self._given.for_request(request).apply(request))


class AsyncCardSender:
    """A sender of requests for cards; the async one of a pair."""

    def __init__(self, sender: AsyncOpener, given: CardCredential) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, with the credential if it was refused without."""
        given = self._given.for_request(request)
        return await self._sender.open(await given.apply_async(request))


class SyncAuthSender(_Redacting):
    """A sender whose requests carry credentials; the sync one of a pair."""

    def __init__(self, sender: SyncOpener, given: Credentials) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        response = self._sender.open(self._remember(self._given.apply(request)))
        if response.head.status != 401 or request.bare or not self._given.refreshes:
            return response
        response.close()
        return self._sender.open(self._remember(self._given.apply(request, refresh=True)))


class AsyncAuthSender(_Redacting):
    """A sender whose requests carry credentials; the async one of a pair."""

    def __init__(self, sender: AsyncOpener, given: Credentials) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        response = await self._sender.open(self._remember(await self._given.apply_async(request)))
        if response.head.status != 401 or request.bare or not self._given.refreshes:
            return response
        await response.aclose()
        again = await self._given.apply_async(request, refresh=True)
        return await self._sender.open(self._remember(again))
