"""The route of a call: choice of interface and dialect, and every rule of a unary call. Pure.

* Interfaces are tried in the order of the card; the next one is tried only if the request could not
  be sent. The interface that was reached is used from then on.
* If the version is unknown, 1.0 is tried. On -32601 or -32009, which mean that nothing was
  executed, 0.3 is tried once. The first response with another outcome fixes the dialect.
* An idempotent call without a response is retried within the budget; a message is never sent
  twice. Retryable statuses count as no response. The delay is at least what the server asks for.
* A repeated cancel may find that the first one worked: if the agent then says that the task cannot
  be cancelled, the task is fetched, and returned if it is cancelled.
* 307 and 308 are followed; credentials stay at their origin.
"""

import random
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

from .._drive import BodyTooLarge, Flow, Reply, Wait
from .._host_port import bracketed, host_port
from .._http._checks import shown
from .._http._redirect import follow_redirects, without_credentials
from .._http._types import DEFAULT_PORTS, FINAL_FAILURES, TransportFailure, origin
from .._retry import RETRIED_STATUSES
from ._call import Channel, ChannelCall, Settings, checked_url, connection_error, was_never_sent
from ._dialects import OPERATIONS
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AJSONRPCError,
    A2AOriginError,
    A2AResponseTooLargeError,
    MethodNotFoundError,
    TaskNotCancelableError,
    VersionNotSupportedError,
)
from .types import Task, TaskState

_WRONG_DIALECT_ERRORS = (MethodNotFoundError, VersionNotSupportedError)


class Interface:
    """One interface of an agent: one channel, or one for each dialect if the version is unknown.

    Requests to an interface that is not `trusted` contain nothing that identifies the caller.
    `over_grpc` means that they need the sender over gRPC.
    """

    def __init__(self, *channels: Channel, trusted: bool = True, over_grpc: bool = False) -> None:
        self.channels = channels
        self.trusted = trusted
        self.over_grpc = over_grpc
        self.index = 0
        self.dialect_is_known = len(channels) == 1

    @property
    def channel(self) -> Channel:
        """The channel of the current dialect."""
        return self.channels[self.index]


class _CurrentInterface:
    """The index of the current interface; a shared object, because routes are copied."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index = 0


class AgentRoute:
    """The route to an agent. All calls share what it learns; `settings` may belong to one call."""

    def __init__(self, interfaces: Sequence[Interface], settings: Settings) -> None:
        self.interfaces = interfaces
        self.settings = settings
        self._current = _CurrentInterface()

    def with_settings(self, settings: Settings) -> "AgentRoute":
        """Return the same route for a call that has its own settings."""
        route = copy(self)
        route.settings = settings
        return route

    @property
    def channel(self) -> Channel:
        """The channel that the next call goes through."""
        return self.interfaces[self._current.index].channel

    @property
    def needs_grpc(self) -> bool:
        """True if a call may go over gRPC."""
        return any(interface.over_grpc for interface in self.interfaces)

    def call(
        self, name: str, params: dict[str, Any], last_event_id: str | None = None
    ) -> ChannelCall:
        """Build a call on the current channel.

        Raises:
            A2AOriginError: the call has its own headers, and the interface is at another origin.
        """
        interface = self.interfaces[self._current.index]
        call = interface.channel.call(OPERATIONS[name], params, last_event_id, self.settings)
        if not interface.trusted:
            if self.settings.headers:
                raise headers_refused(call.request.url)
            call.request = without_credentials(call.request)
        return call

    def skip(self, call: ChannelCall, skipped: int) -> bool:
        """Select the next interface, since this call was not sent; return False if none is left."""
        index = self._index(call)
        if self._current.index == index:
            self._current.index = (index + 1) % len(self.interfaces)
        return skipped < len(self.interfaces) - 1

    def record_response(self, call: ChannelCall, error: A2AError | None = None) -> bool:
        """Record a response; return True if the call should be repeated in the other dialect."""
        interface = self.interfaces[self._index(call)]
        tried = interface.channels.index(call.channel)
        if isinstance(error, _WRONG_DIALECT_ERRORS):
            return self._try_other_dialect(interface, tried, call)
        conclusive = error is None or isinstance(error, A2AJSONRPCError)
        if conclusive and not interface.dialect_is_known:
            interface.index, interface.dialect_is_known = tried, True
        return False

    def _try_other_dialect(self, interface: Interface, tried: int, call: ChannelCall) -> bool:
        if tried > 0:
            if not interface.dialect_is_known:
                interface.index = 0  # unknown in both dialects, so the dialect stays open
            return False
        is_v10 = interface.dialect_is_known and interface.index == 0
        if is_v10 or call.operation.name not in interface.channels[-1].dialect.methods:
            return False
        interface.index = len(interface.channels) - 1
        return interface.index > 0

    def _index(self, call: ChannelCall) -> int:
        return next(
            i for i, interface in enumerate(self.interfaces) if call.channel in interface.channels
        )

    # Unary calls

    def call_unary(
        self, name: str, params: dict[str, Any], *, jitter: Callable[[], float] = random.random
    ) -> Flow[Any]:
        """Make a unary call and return its result.

        Raises:
            A2AError: there was no response, it is an error, or it cannot be parsed.
        """
        failures = skipped = 0
        while True:
            call = self.call(name, params)
            result = yield from follow_redirects(call.request)
            if isinstance(result, TransportFailure):
                if was_never_sent(result) and self.skip(call, skipped):
                    skipped += 1
                    continue
                error: A2AError = _no_answer_error(call, result, failures + 1)
            else:
                try:
                    return self._value(call, result)
                except A2AError as raised:
                    if self.record_response(call, raised):
                        continue
                    error = raised
            if failures and name == "cancel_task" and isinstance(error, TaskNotCancelableError):
                return (yield from self._cancelled_task(params, error, jitter))
            failures += 1
            delay = self._delay(call, result, error, failures, jitter)
            if delay is None:
                raise error
            yield Wait(delay)

    def _cancelled_task(
        self, params: dict[str, Any], error: A2AError, jitter: Callable[[], float]
    ) -> Flow[Task]:
        """Return the task if it is cancelled, else raise `error`, the response to the cancel."""
        try:
            task: Task = yield from self.call_unary("get_task", {"id": params["id"]}, jitter=jitter)
        except A2AError:
            raise error from None
        if task.status.state == TaskState.CANCELED:
            return task
        raise error

    def _value(self, call: ChannelCall, reply: Reply) -> Any:
        if not 200 <= reply.head.status < 300:
            raise call.response_error(reply.head, reply.body)
        value = call.parse_response(reply.body)
        self.record_response(call)
        return value

    def _delay(
        self,
        call: ChannelCall,
        result: Reply | TransportFailure,
        error: A2AError,
        failures: int,
        jitter: Callable[[], float],
    ) -> float | None:
        """Return the seconds before the call is retried, None if it is not."""
        if not call.operation.idempotent or failures > self.settings.max_retries:
            return None
        if isinstance(result, TransportFailure):
            if result.kind in FINAL_FAILURES:
                return None
        elif type(error) is not A2AHTTPError or error.status not in RETRIED_STATUSES:
            return None
        return self.settings.backoff.retry_delay(failures, error.retry_after, jitter)


def _no_answer_error(call: ChannelCall, failure: TransportFailure, attempts: int) -> A2AError:
    if isinstance(failure, BodyTooLarge):
        message = f"{call.request.method} {shown(call.request.url)}: {failure}"
        return A2AResponseTooLargeError(
            message, status=failure.head.status, headers=failure.head.headers
        )
    return connection_error(call.request, failure, attempts)


# Origin rules: which interfaces of a card may be called, and which get credentials.
#
# The named origin is that of the URL given to `connect` or to a resolver; for a card that no
# resolver fetched, it is that of the first interface that this client supports.
#
# * Interfaces at the named origin, or at one listed in `interface_origins`, get credentials and
#   headers.
# * Other origins get neither. If the caller gave credentials or headers, such an interface is left
#   out, because the call would fail without them. Otherwise it is used, without anything that the
#   HTTP client adds by itself.
# * If the named origin is https, http interfaces are left out, unless they are listed.
# * If no interface is left, an error is raised before anything is sent.
#
# Two origins are the same if scheme, host and port are equal. Two exceptions: http on port 80 may
# be replaced by https on port 443 at the same host, and all names of this machine are the same
# host.

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
