"""What can be set on a client or a transport, and how it becomes settings and a route. Pure."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, TypedDict

from .._http._types import TimeoutLike, timeouts_from
from .._retry import Backoff
from ._auth import Auth
from ._call import Settings, check_url
from ._dialects import V03, V10, Dialect, dialect_of
from ._jsonrpc import JsonRpcChannel
from ._rest import RestChannel
from ._rest_v03 import V03_REST
from ._route import Place, Route
from .errors import A2ANoSupportedInterfaceError
from .types import AgentCard

__all__ = ["Options", "card_route", "jsonrpc_route", "rest_route"]


class Options(TypedDict, total=False):
    """The options of clients and transports.

    Attributes:
        auth: a credential, or a callable that returns it, or a mapping of them by scheme name.
            Where it goes is what the card says; without a card it is a bearer token.
        timeout: the limit of a unary call in seconds (180), or an `httpx2.Timeout`.
        stream_timeout: the longest silence of a stream in seconds (60), or an `httpx2.Timeout`.
        max_retries: losses in a row before a call or a stream gives up (3).
        max_retry_delay: the longest wait that a server may ask for, in seconds (60).
        headers: extra headers for every request.
        extensions: the URIs of the protocol's extensions to ask for.
        http_client: an `httpx2` or `httpx` client of your own, which stays open.
        max_event_bytes: the largest event of a stream that is accepted (10 MB).
        max_body_bytes: the largest answer that is accepted (10 MB).
    """

    auth: Auth | None
    timeout: float | TimeoutLike
    stream_timeout: float | TimeoutLike
    max_retries: int
    max_retry_delay: float
    headers: Mapping[str, str]
    extensions: Sequence[str]
    http_client: Any
    max_event_bytes: int
    max_body_bytes: int


def _settings(options: Options) -> Settings:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    delay = options.get("max_retry_delay", 60.0)
    if not delay >= 0:
        raise ValueError(f"max_retry_delay must be 0 or more, not {delay}")
    sizes: Any = {
        name: options[name]
        for name in ("max_retries", "max_event_bytes", "max_body_bytes")
        if name in options
    }
    return Settings(
        unary=timeouts_from(options.get("timeout", 180.0)),
        stream=timeouts_from(options.get("stream_timeout", 60.0)),
        headers=dict(options.get("headers") or {}),
        extensions=tuple(options.get("extensions") or ()),
        backoff=Backoff(longest_wish=delay),
        **sizes,
    )


def _jsonrpc_place(
    url: str, version: str | None, settings: Settings, tenant: str | None = None
) -> Place:
    ids = count(1)  # one count for both dialects; `next` on it is safe between threads
    dialects = (V10, V03) if not version else (dialect_of(version),)
    channels = [
        JsonRpcChannel(url, dialect, settings, ids, tenant) for dialect in dialects if dialect
    ]
    if not channels:
        raise ValueError(f"version {version!r} of the protocol is not known; use 1.0 or 0.3")
    return Place(*channels)


def jsonrpc_route(url: str, version: str | None, tenant: str | None, options: Options) -> Route:
    """Return the route to one address that speaks JSON-RPC; no version: 1.0, else 0.3."""
    settings = _settings(options)
    return Route([_jsonrpc_place(check_url(url), version, settings, tenant)], settings)


def _rest_dialect(version: str | None) -> Dialect | None:
    dialect = dialect_of(version) if version else V10
    return V03_REST if dialect is V03 else dialect


def rest_route(url: str, version: str, tenant: str | None, options: Options) -> Route:
    """Return the route to one address that speaks HTTP+JSON."""
    settings = _settings(options)
    dialect = _rest_dialect(version)
    if dialect is None:
        raise ValueError(f"version must be 1.0 or 0.3, got {version!r}")
    return Route([Place(RestChannel(check_url(url), settings, tenant, dialect))], settings)


def _can_be_called(url: str) -> bool:
    try:
        check_url(url)
    except ValueError:
        return False
    return True


def card_route(card: AgentCard, options: Options) -> Route:
    """Return the route through the interfaces of a card, in its order.

    Raises:
        A2ANoSupportedInterfaceError: none of them is one that we speak.
    """
    settings = _settings(options)
    places = []
    for interface in card.supported_interfaces:
        version, tenant = interface.protocol_version, interface.tenant
        dialect = dialect_of(version) if version else V10
        binding = interface.protocol_binding.upper()
        if dialect is None or not _can_be_called(interface.url):
            continue
        if binding == "JSONRPC":
            places.append(_jsonrpc_place(interface.url, version, settings, tenant))
        elif binding == "HTTP+JSON":
            rest = _rest_dialect(version) or V10
            places.append(Place(RestChannel(interface.url, settings, tenant, rest)))
    if places:
        return Route(places, settings)
    offered = ", ".join(
        f"{interface.protocol_binding or '?'} {interface.protocol_version or '?'}"
        for interface in card.supported_interfaces
    )
    raise A2ANoSupportedInterfaceError(
        f"the card of {card.name!r} offers {offered or 'no interface'}; this client speaks"
        " JSONRPC and HTTP+JSON, each in 1.0 and 0.3"
    )
