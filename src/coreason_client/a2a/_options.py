"""The options of clients and transports, and how they become hooks, settings and a route. Pure.

Hooks (interceptors) run around a call of the protocol:

* `on_request` runs before the first request of a call and may change `call.headers` and
  `call.metadata`. If it raises, the call is not made and the caller gets the exception.
* `on_event` runs for each event of a stream before the caller gets it. If it raises, the exception
  is logged, so no event is lost.
* `on_response` runs once when the call is over: with its result, with its error, or when the
  stream was read to its end or closed. If it raises, the exception is logged, so no result is lost.
* Retries, resubscriptions and fetches are part of a call; the hooks do not run for them.
* The hooks are plain functions, also for the async client.
"""

import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias, TypedDict

from .._http._types import TimeoutLike, timeouts_from
from .._retry import Backoff
from ..errors import ArgumentError, MissingExtraError
from ._auth import Auth
from ._bindings import JsonRpcChannel, RestChannel
from ._call import Settings, checked_url
from ._card import CardKeys, fetched_from, read_card
from ._card_signatures import trusted_keys, verify_card
from ._dialects import V03, V10, Dialect, dialect_of
from ._grpc._address import grpc_url, is_installed
from ._route import AgentRoute, Interface, Origins
from ._v03._rest import V03_REST
from .errors import A2ANoSupportedInterfaceError, ExtensionSupportRequiredError
from .types import AgentCard, AgentInterface, Event

logger = logging.getLogger("coreason_client.a2a")


@dataclass
class CallInfo:
    """One call of the protocol; all its hooks get the same object.

    Attributes:
        operation: the name of the client's method, such as "send_message".
        params: the parameters in the form of 1.0; changing them has no effect.
        headers: headers to send with every request of this call; `on_request` may add to them.
        metadata: the metadata of the request, which `on_request` may change; sent with messages
            and when cancelling, because the other requests of the protocol have no metadata.
        state: empty; hooks may store data here between request and response.
        duration: the seconds that the call took; None before it is over.
        error: the exception of the call, None if it succeeded or a stream was closed early.
        result: the result of a unary call, None for streams.
    """

    operation: str
    params: Mapping[str, Any] = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    metadata: dict[str, Any] = field(default_factory=dict, repr=False)
    state: dict[str, Any] = field(default_factory=dict, repr=False)
    duration: float | None = None
    error: BaseException | None = None
    result: Any = field(default=None, repr=False)


Hook: TypeAlias = Callable[[CallInfo], None]
EventHook: TypeAlias = Callable[[CallInfo, Event], None]
Prepare: TypeAlias = Callable[[CallInfo], None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a client.

    Raises:
        TypeError: one of them cannot be called, or is async.
    """

    on_request: Hook | None = None
    on_response: Hook | None = None
    on_event: EventHook | None = None

    def __post_init__(self) -> None:
        for name in ("on_request", "on_response", "on_event"):
            hook = getattr(self, name)
            if hook is None:
                continue
            if not callable(hook) or inspect.iscoroutinefunction(hook):
                kind = "an async function" if callable(hook) else type(hook).__name__
                raise TypeError(f"{name} must be a function that is not async, got {kind}")

    def __bool__(self) -> bool:
        return (self.on_request, self.on_response, self.on_event) != (None, None, None)

    @contextmanager
    def around(self, call: CallInfo, prepare: Prepare) -> Iterator[None]:
        """Run the hooks before and after the body of the `with` statement.

        `prepare` gets the call after `on_request`.
        """
        if self.on_request is not None:
            self.on_request(call)
        prepare(call)
        start = time.monotonic()
        try:
            yield
        except GeneratorExit:
            raise  # the stream was closed early
        except BaseException as error:
            call.error = error
            raise
        finally:
            call.duration = time.monotonic() - start
            self._after(call)

    def event(self, call: CallInfo, event: Event) -> None:
        """Run the hook for an event of a stream."""
        if self.on_event is None:
            return
        try:
            self.on_event(call, event)
        except Exception:
            logger.exception("on_event failed for %s", call.operation)

    def _after(self, call: CallInfo) -> None:
        if self.on_response is None:
            return
        try:
            self.on_response(call)
        except Exception:
            logger.exception("on_response failed for %s", call.operation)


class Options(TypedDict, total=False):
    """The options of clients and transports.

    Attributes:
        auth: a credential, a callable that returns it, `ClientCredentials`, or a mapping of these
            by scheme name.
            The card defines where it is sent; without a card it is a bearer token.
        timeout: the limit of a unary call in seconds (180), or an `httpx2.Timeout`.
        stream_timeout: the longest silence of a stream in seconds (60), or an `httpx2.Timeout`.
        max_retries: how often in a row a call is retried or a stream reconnects (3).
        max_retry_delay: the longest wait that a server may ask for, in seconds (60).
        headers: extra headers for every request.
        extensions: the URIs of protocol extensions to activate; they must include those that the
            card requires.
        interface_origins: origins, such as "https://api.example", to which credentials and headers
            may be sent, besides the origin of the address given to `connect`.
        card_keys: public keys (JWK, JWK set, PEM, or a list); a card without a valid signature of
            one of them is refused. Needs the extra `signatures`.
        on_request: a function that gets a `CallInfo` before each call and may change its headers
            and metadata.
        on_response: a function that gets the same `CallInfo` when the call is over.
        on_event: a function that gets the same `CallInfo` and each event of a stream.
        http_client: your own `httpx2` or `httpx` client, which stays open.
        max_event_bytes: the largest event of a stream that is accepted (10 MB).
        max_body_bytes: the largest response body that is accepted (10 MB).
    """

    auth: Auth | None
    timeout: float | TimeoutLike
    stream_timeout: float | TimeoutLike
    max_retries: int
    max_retry_delay: float
    headers: Mapping[str, str]
    extensions: Sequence[str]
    interface_origins: Sequence[str]
    card_keys: CardKeys | None
    on_request: Hook | None
    on_response: Hook | None
    on_event: EventHook | None
    http_client: Any
    max_event_bytes: int
    max_body_bytes: int


class CallOptions(TypedDict, total=False):
    """The options of a single call.

    Attributes:
        timeout: the limit of a unary call in seconds, or the longest silence of a stream, or an
            `httpx2.Timeout`; replaces the option of the client.
        headers: headers for the requests of this call; they replace those of the client.
    """

    timeout: float | TimeoutLike | None
    headers: Mapping[str, str] | None


class ResolverOptions(TypedDict):
    """The options of a client that a card resolver also has."""

    auth: Auth | None
    timeout: float | TimeoutLike
    max_retries: int
    max_retry_delay: float
    headers: Mapping[str, str]
    http_client: Any


def resolver_options(options: Options) -> ResolverOptions:
    """Return the options of a client that a card resolver needs.

    Raises:
        ValueError, TypeError: an option is not valid; checked here, before anything is sent.
    """
    settings = _settings(options)
    hooks_of(options)
    _origins("http://localhost", options)
    _check_card_keys(options)
    return ResolverOptions(
        auth=options.get("auth"),
        timeout=options.get("timeout", 30.0),
        max_retries=settings.max_retries,
        max_retry_delay=options.get("max_retry_delay", 60.0),
        headers=settings.headers,
        http_client=options.get("http_client"),
    )


def hooks_of(options: Options) -> Hooks:
    """Return the hooks of a client; raises as `Hooks`."""
    return Hooks(options.get("on_request"), options.get("on_response"), options.get("on_event"))


def _origins(named: str, options: Options) -> Origins:
    has_secrets = options.get("auth") is not None or bool(options.get("headers"))
    allowed = options.get("interface_origins") or ()
    return Origins.from_options(named, allowed, has_secrets=has_secrets)


def _settings(options: Options) -> Settings:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
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


def _jsonrpc_interface(
    url: str, version: str | None, settings: Settings, tenant: str | None = None
) -> Interface:
    ids = count(1)  # shared by both dialects; `next` on it is thread-safe
    dialects = (V10, V03) if not version else (dialect_of(version),)
    channels = [
        JsonRpcChannel(url, dialect, settings, ids, tenant) for dialect in dialects if dialect
    ]
    if not channels:
        raise ArgumentError("version", "must be 1.0 or 0.3", version)
    return Interface(*channels)


def jsonrpc_route(
    url: str, version: str | None, tenant: str | None, options: Options
) -> AgentRoute:
    """Return the route to one URL over JSON-RPC; without a version, 1.0 and then 0.3 is tried."""
    settings = _settings(options)
    _refuse_card_keys(options)
    return AgentRoute([_jsonrpc_interface(checked_url(url), version, settings, tenant)], settings)


def _rest_dialect(version: str | None) -> Dialect | None:
    dialect = dialect_of(version) if version else V10
    return V03_REST if dialect is V03 else dialect


def rest_route(url: str, version: str, tenant: str | None, options: Options) -> AgentRoute:
    """Return the route to one URL over HTTP+JSON."""
    settings = _settings(options)
    dialect = _rest_dialect(version)
    if dialect is None:
        raise ArgumentError("version", "must be 1.0 or 0.3", version)
    _refuse_card_keys(options)
    return AgentRoute(
        [Interface(RestChannel(checked_url(url), settings, tenant, dialect))], settings
    )


def _check_card_keys(options: Options) -> None:
    keys = options.get("card_keys")
    if keys is not None:
        trusted_keys(keys)


def _refuse_card_keys(options: Options) -> None:
    if options.get("card_keys") is not None:
        rule = "must be used with a card: create the client with connect or from_agent_card"
        raise ArgumentError("card_keys", rule)


def trusted_card(card: AgentCard | Mapping[str, Any], options: Options) -> AgentCard:
    """Return the card; with `card_keys`, only the signed content of a card with a valid signature.

    Raises:
        A2ACardSignatureError: it has no valid signature of one of the keys.
    """
    card = card if isinstance(card, AgentCard) else read_card(card)
    keys = options.get("card_keys")
    return card if keys is None else verify_card(card, keys)


def _grpc_interface(
    url: str, version: str | None, settings: Settings, tenant: str | None
) -> Interface:
    from ._grpc._channel import GrpcChannel  # needs the extra `grpc`
    from ._v03._rest import V03_GRPC

    dialects = (V10, V03) if not version else (dialect_of(version),)
    channels = [
        GrpcChannel(url, settings, tenant, V03_GRPC if dialect is V03 else dialect)
        for dialect in dialects
        if dialect
    ]
    if not channels:
        raise ArgumentError("version", "must be 1.0 or 0.3", version)
    return Interface(*channels, over_grpc=True)


def grpc_route(url: str, version: str, tenant: str | None, options: Options) -> AgentRoute:
    """Return the route to one address over gRPC.

    Raises:
        MissingExtraError: the extra `grpc` is not installed.
    """
    settings = _settings(options)
    _refuse_card_keys(options)
    url = grpc_url(url)
    if not is_installed():
        raise MissingExtraError("gRPC for A2A", "grpc")
    return AgentRoute([_grpc_interface(url, version, settings, tenant)], settings)


def _is_grpc(entry: AgentInterface) -> bool:
    return entry.protocol_binding.upper() == "GRPC"


def _callable_url(entry: AgentInterface, card: AgentCard) -> str | None:
    """Return the URL of an interface; None if it cannot be called."""
    try:
        if _is_grpc(entry):
            return grpc_url(entry.url, fetched_from(card))
        return checked_url(entry.url)
    except ValueError:
        return None


def card_route(card: AgentCard, options: Options) -> AgentRoute:
    """Return the route over the interfaces of a card, in the order of the card.

    Raises:
        A2ANoSupportedInterfaceError: this client supports none of them.
        A2AOriginError: none of the supported ones is at an origin that may be called.
        ExtensionSupportRequiredError: the card requires an extension that was not declared.
    """
    settings = _settings(options)
    supported = [
        entry.model_copy(update={"url": url})
        for entry in card.supported_interfaces
        if _is_supported(entry) and (url := _callable_url(entry, card)) is not None
    ]
    if not supported:
        raise _no_supported_interface(card)
    _check_extensions(card, settings.extensions)
    origins = _origins(fetched_from(card) or supported[0].url, options)
    interfaces = [
        _card_interface(entry, settings, trusted=origins.is_trusted(entry.url))
        for entry in supported
        if origins.may_call(entry.url)
    ]
    if not interfaces:
        raise origins.error(card.name, [entry.url for entry in supported])
    return AgentRoute(interfaces, settings)


def _is_supported(entry: AgentInterface) -> bool:
    version = entry.protocol_version
    is_known = not version or dialect_of(version) is not None
    if _is_grpc(entry):
        return is_known and is_installed()
    return is_known and entry.protocol_binding.upper() in ("JSONRPC", "HTTP+JSON")


def _card_interface(entry: AgentInterface, settings: Settings, *, trusted: bool) -> Interface:
    url, version, tenant = entry.url, entry.protocol_version, entry.tenant
    if entry.protocol_binding.upper() == "JSONRPC":
        interface = _jsonrpc_interface(url, version, settings, tenant)
    elif _is_grpc(entry):
        interface = _grpc_interface(url, version, settings, tenant)
    else:
        interface = Interface(RestChannel(url, settings, tenant, _rest_dialect(version) or V10))
    interface.trusted = trusted
    return interface


def _no_supported_interface(card: AgentCard) -> A2ANoSupportedInterfaceError:
    offered = ", ".join(
        f"{entry.protocol_binding or '?'} {entry.protocol_version or '?'}"
        for entry in card.supported_interfaces
    )
    missing = not is_installed() and any(map(_is_grpc, card.supported_interfaces))
    install = "; GRPC needs the extra 'grpc': pip install 'coreason-client[grpc]'"
    return A2ANoSupportedInterfaceError(
        f"the card of {card.name!r} offers {offered or 'no interface'}; this client supports"
        f" JSONRPC, HTTP+JSON and GRPC, each in 1.0 and 0.3{install if missing else ''}"
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
