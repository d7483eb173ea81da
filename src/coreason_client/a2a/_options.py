"""What can be set on a client or a transport, and how it becomes settings and a route. Pure."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, TypedDict

from .._http._types import TimeoutLike, timeouts_from
from .._retry import Backoff
from ..errors import ArgumentError
from ._auth import Auth
from ._call import Settings, checked_url
from ._card import fetched_from
from ._dialects import V03, V10, Dialect, dialect_of
from ._hooks import Hook, Hooks
from ._jsonrpc import JsonRpcChannel
from ._origins import Origins
from ._rest import RestChannel
from ._rest_v03 import V03_REST
from ._route import Place, Route
from .errors import A2ANoSupportedInterfaceError, ExtensionSupportRequiredError
from .types import AgentCard, AgentInterface

__all__ = [
    "CallOptions",
    "Options",
    "ResolverOptions",
    "card_route",
    "hooks_of",
    "jsonrpc_route",
    "resolver_options",
    "rest_route",
]


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
        extensions: the URIs of the protocol's extensions to ask for; those that the card requires
            must be among them.
        interface_origins: origins, such as "https://api.example", where interfaces of the card may
            be called with credentials and headers, besides the origin that was named.
        on_request: a function that gets a `CallInfo` before each call, and may add headers to it.
        on_response: a function that gets the same `CallInfo` when the call is over.
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
    interface_origins: Sequence[str]
    on_request: Hook | None
    on_response: Hook | None
    http_client: Any
    max_event_bytes: int
    max_body_bytes: int


class CallOptions(TypedDict, total=False):
    """The options of a single call.

    Attributes:
        timeout: the limit of a unary call in seconds, or the longest silence of a stream, or an
            `httpx2.Timeout`; instead of what the client was given.
        headers: headers for the requests of this call; they replace those of the client.
    """

    timeout: float | TimeoutLike | None
    headers: Mapping[str, str] | None


class ResolverOptions(TypedDict):
    """The options of a client that are also those of a resolver of cards."""

    auth: Auth | None
    timeout: float | TimeoutLike
    max_retries: int
    max_retry_delay: float
    headers: Mapping[str, str]
    http_client: Any


def resolver_options(options: Options) -> ResolverOptions:
    """Return what a resolver needs of the options of a client.

    Raises:
        ValueError, TypeError: an option cannot work, so nothing needs to be sent.
    """
    settings = _settings(options)
    hooks_of(options)
    _origins("http://localhost", options)
    return ResolverOptions(
        auth=options.get("auth"),
        timeout=options.get("timeout", 30.0),
        max_retries=settings.max_retries,
        max_retry_delay=options.get("max_retry_delay", 60.0),
        headers=settings.headers,
        http_client=options.get("http_client"),
    )


def hooks_of(options: Options) -> Hooks:
    """Return the hooks of a client; raises what `Hooks` says."""
    return Hooks(options.get("on_request"), options.get("on_response"))


def _origins(named: str, options: Options) -> Origins:
    has_secrets = options.get("auth") is not None or bool(options.get("headers"))
    allowed = options.get("interface_origins") or ()
    return Origins.given(named, allowed, has_secrets=has_secrets)


def _settings(options: Options) -> Settings:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    delay = options.get("max_retry_delay", 60.0)
    if not delay >= 0:
        raise ArgumentError("max_retry_delay", "must be 0 or more", delay)
    sizes: Any = {
        name: options[name]
        for name in ("max_retries", "max_event_bytes", "max_body_bytes")
        if name in options
    }
    return Settings(
        unary=timeouts_from(options.get("timeout", 180.0)),
        stream=timeouts_from(options.get("stream_timeout", 60.0), "stream_timeout"),
        headers=dict(options.get("headers") or {}),
        extensions=tuple(options.get("extensions") or ()),
        backoff=Backoff(max_server_delay=delay),
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
        raise ArgumentError("version", "must be 1.0 or 0.3", version)
    return Place(*channels)


def jsonrpc_route(url: str, version: str | None, tenant: str | None, options: Options) -> Route:
    """Return the route to one address that speaks JSON-RPC; no version: 1.0, else 0.3."""
    settings = _settings(options)
    return Route([_jsonrpc_place(checked_url(url), version, settings, tenant)], settings)


def _rest_dialect(version: str | None) -> Dialect | None:
    dialect = dialect_of(version) if version else V10
    return V03_REST if dialect is V03 else dialect


def rest_route(url: str, version: str, tenant: str | None, options: Options) -> Route:
    """Return the route to one address that speaks HTTP+JSON."""
    settings = _settings(options)
    dialect = _rest_dialect(version)
    if dialect is None:
        raise ArgumentError("version", "must be 1.0 or 0.3", version)
    return Route([Place(RestChannel(checked_url(url), settings, tenant, dialect))], settings)


def _can_be_called(url: str) -> bool:
    try:
        checked_url(url)
    except ValueError:
        return False
    return True


def card_route(card: AgentCard, options: Options) -> Route:
    """Return the route through the interfaces of a card, in its order.

    Raises:
        A2ANoSupportedInterfaceError: none of them is one that we speak.
        A2AOriginError: none of those is at an origin that may be called.
        ExtensionSupportRequiredError: the card requires an extension that was not declared.
    """
    settings = _settings(options)
    spoken = [
        interface
        for interface in card.supported_interfaces
        if _is_spoken(interface) and _can_be_called(interface.url)
    ]
    if not spoken:
        raise _nothing_spoken(card)
    _check_extensions(card, settings.extensions)
    origins = _origins(fetched_from(card) or spoken[0].url, options)
    places = [
        _place(interface, settings, trusted=origins.is_trusted(interface.url))
        for interface in spoken
        if origins.may_call(interface.url)
    ]
    if not places:
        raise origins.error(card.name, [interface.url for interface in spoken])
    return Route(places, settings)


def _is_spoken(interface: AgentInterface) -> bool:
    version = interface.protocol_version
    is_known = not version or dialect_of(version) is not None
    return is_known and interface.protocol_binding.upper() in ("JSONRPC", "HTTP+JSON")


def _place(interface: AgentInterface, settings: Settings, *, trusted: bool) -> Place:
    url, version, tenant = interface.url, interface.protocol_version, interface.tenant
    if interface.protocol_binding.upper() == "JSONRPC":
        place = _jsonrpc_place(url, version, settings, tenant)
    else:
        place = Place(RestChannel(url, settings, tenant, _rest_dialect(version) or V10))
    place.trusted = trusted
    return place


def _nothing_spoken(card: AgentCard) -> A2ANoSupportedInterfaceError:
    offered = ", ".join(
        f"{interface.protocol_binding or '?'} {interface.protocol_version or '?'}"
        for interface in card.supported_interfaces
    )
    return A2ANoSupportedInterfaceError(
        f"the card of {card.name!r} offers {offered or 'no interface'}; this client speaks"
        " JSONRPC and HTTP+JSON, each in 1.0 and 0.3"
    )


def _check_extensions(card: AgentCard, declared: Sequence[str]) -> None:
    required = [found.uri for found in card.capabilities.extensions if found.required]
    missing = [uri for uri in required if uri not in declared]
    if missing:
        raise ExtensionSupportRequiredError(
            f"the card of {card.name!r} requires extensions that were not declared:"
            f" {', '.join(missing)}; if your program supports them, pass extensions={missing!r}",
            data={"extensions": missing},
        )
