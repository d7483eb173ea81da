"""Which interface is asked, in which dialect, and how often: every rule of a unary call. Pure.

* Interfaces are asked in the card's order; the next one when one cannot be reached, that is when
  nothing was sent. The one that was reached is remembered.
* Where no version is known, 1.0 is tried. On -32601 or -32009, before which nothing was executed,
  0.3 is tried once; the first answer that says neither settles the dialect for good.
* A call whose answer was lost is sent again within the budget if that does no harm; a message
  never is. Some statuses count as a lost answer. The delay is at least what the server asks for.
* A cancel that was sent again may find that the first one did its work: an agent that then says
  that the task cannot be cancelled is asked for it, and a cancelled task is the answer.
* 307 and 308 are followed; credentials stay at their origin.
"""

import random
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from .._drive import BodyTooLarge, Flow, Reply, Wait
from .._http._checks import shown
from .._http._redirect import follow_redirects, without_credentials
from .._http._types import FINAL_FAILURES, TransportFailure
from .._retry import RETRIED_STATUSES
from ._call import (
    Call,
    Channel,
    Settings,
    connection_error,
    unreached,
)
from ._dialects import OPERATIONS
from ._origins import headers_refused
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AJSONRPCError,
    A2AResponseTooLargeError,
    MethodNotFoundError,
    TaskNotCancelableError,
    VersionNotSupportedError,
)
from .types import Task, TaskState

__all__ = ["Place", "Route"]

_SPEAKS_OTHERWISE = (MethodNotFoundError, VersionNotSupportedError)


class Place:
    """One interface: a channel, or two when its dialect is not known.

    Requests to one that is not `trusted` carry nothing that says who sends them.
    """

    def __init__(self, *channels: Channel, trusted: bool = True) -> None:
        self.channels = channels
        self.trusted = trusted
        self.at = 0
        self.settled = len(channels) == 1

    @property
    def channel(self) -> Channel:
        """The channel to use now."""
        return self.channels[self.at]


class _Choice:
    """The index of the interface in use."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0


class Route:
    """The route to an agent. All calls share what it learns; `settings` may be one call's own."""

    def __init__(self, places: Sequence[Place], settings: Settings) -> None:
        self.places = places
        self.settings = settings
        self._choice = _Choice()

    def with_settings(self, settings: Settings) -> "Route":
        """Return the same route for a call that has settings of its own."""
        route = copy(self)
        route.settings = settings
        return route

    @property
    def channel(self) -> Channel:
        """The channel that the next call goes through."""
        return self.places[self._choice.at].channel

    def call(self, name: str, params: dict[str, Any], last_event_id: str | None = None) -> Call:
        """Make a call on the channel of the moment.

        Raises:
            A2AOriginError: the call has headers of its own, and the interface is elsewhere.
        """
        place = self.places[self._choice.at]
        call = place.channel.call(OPERATIONS[name], params, last_event_id, self.settings)
        if not place.trusted:
            if self.settings.headers:
                raise headers_refused(call.request.url)
            call.request = without_credentials(call.request)
        return call

    def skip(self, call: Call, skipped: int) -> bool:
        """Turn to the next interface, this call's being out of reach; False when all are."""
        index = self._index(call)
        if self._choice.at == index:
            self._choice.at = (index + 1) % len(self.places)
        return skipped < len(self.places) - 1

    def answered(self, call: Call, error: A2AError | None = None) -> bool:
        """Take note of an answer; True when the call should be made again in another dialect."""
        place = self.places[self._index(call)]
        tried = place.channels.index(call.channel)
        if isinstance(error, _SPEAKS_OTHERWISE):
            return self._speaks_otherwise(place, tried, call)
        conclusive = error is None or isinstance(error, A2AJSONRPCError)
        if conclusive and not place.settled:
            place.at, place.settled = tried, True
        return False

    def _speaks_otherwise(self, place: Place, tried: int, call: Call) -> bool:
        if tried > 0:
            if not place.settled:
                place.at = 0  # neither dialect knows it: that settles nothing
            return False
        known = place.channels[-1].dialect.methods
        if (place.settled and place.at == 0) or call.operation.name not in known:
            return False
        place.at = len(place.channels) - 1
        return place.at > 0

    def _index(self, call: Call) -> int:
        return next(i for i, place in enumerate(self.places) if call.channel in place.channels)

    # Unary calls

    def ask(
        self,
        name: str,
        params: dict[str, Any],
        *,
        jitter: Callable[[], float] = random.random,
    ) -> Flow[Any]:
        """Make a call and return its value; raises what `Call.answer` and `Call.refusal` say."""
        failures = skipped = 0
        while True:
            call = self.call(name, params)
            result = yield from follow_redirects(call.request)
            if isinstance(result, TransportFailure):
                if unreached(result) and self.skip(call, skipped):
                    skipped += 1
                    continue
                error: A2AError = _no_answer(call, result, failures + 1)
            else:
                try:
                    return self._value(call, result)
                except A2AError as raised:
                    if self.answered(call, raised):
                        continue
                    error = raised
            if failures and name == "cancel_task" and isinstance(error, TaskNotCancelableError):
                return (yield from self._cancelled_before(params, error, jitter))
            failures += 1
            delay = self._delay(call, result, error, failures, jitter)
            if delay is None:
                raise error
            yield Wait(delay)

    def _cancelled_before(
        self, params: dict[str, Any], error: A2AError, jitter: Callable[[], float]
    ) -> Flow[Task]:
        """Return the task if it is cancelled, else raise the agent's answer to the cancel."""
        try:
            task: Task = yield from self.ask("get_task", {"id": params["id"]}, jitter=jitter)
        except A2AError:
            raise error from None
        if task.status.state == TaskState.CANCELED:
            return task
        raise error

    def _value(self, call: Call, reply: Reply) -> Any:
        if not 200 <= reply.head.status < 300:
            raise call.refusal(reply.head, reply.body)
        value = call.answer(reply.body)
        self.answered(call)
        return value

    def _delay(
        self,
        call: Call,
        result: Reply | TransportFailure,
        error: A2AError,
        failures: int,
        jitter: Callable[[], float],
    ) -> float | None:
        """Return the seconds before the call is made again, None when it is not."""
        if not call.operation.again or failures > self.settings.max_retries:
            return None
        if isinstance(result, TransportFailure):
            if result.kind in FINAL_FAILURES:
                return None
        elif type(error) is not A2AHTTPError or error.status not in RETRIED_STATUSES:
            return None
        return self.settings.backoff.retry_delay(failures, error.retry_after, jitter)


def _no_answer(call: Call, failure: TransportFailure, attempts: int) -> A2AError:
    if isinstance(failure, BodyTooLarge):
        words = f"{call.request.method} {shown(call.request.url)}: {failure}"
        return A2AResponseTooLargeError(
            words, status=failure.head.status, headers=failure.head.headers
        )
    return connection_error(call.request, failure, attempts)
