"""Hooks (interceptors) around a call of the protocol. Pure.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .types import Event

__all__ = ["CallInfo", "EventHook", "Hook", "Hooks"]

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
