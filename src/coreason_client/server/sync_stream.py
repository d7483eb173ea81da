"""The stream of an agent that is a plain function and runs in a thread."""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from coreason_manifest.definitions.service import ServiceRequest

from .durable._notes import Policy
from .errors import StreamCancelled, StreamEnded
from .stream import AgentStream, InboxMessage, Principal, Resumed

__all__ = ["Bridge", "SyncAgentStream"]

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Bridge:
    """Runs coroutines of a stream on its event loop, called from the thread of an agent."""

    def __init__(self, stream: AgentStream) -> None:
        self.stream = stream
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and return its result.

        Raises:
            StreamCancelled: the stream was cancelled.
        """
        try:
            self._check()
            result = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        try:
            return result.result()
        except CancelledError:  # the event loop is shutting down
            raise StreamCancelled(self.stream.stream_id) from None

    def _check(self) -> None:
        if threading.get_ident() == self._loop_thread:
            raise RuntimeError(
                "a SyncAgentStream waits for the event loop, so it cannot be used there: use it in "
                "the thread of the agent"
            )
        if self.stream.cancelled:
            raise StreamCancelled(self.stream.stream_id)
        if self._loop.is_closed():
            raise StreamEnded(self.stream.stream_id)


def _sync(
    method: Callable[Concatenate[AgentStream, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncAgentStream", P], T]:
    """Return a blocking version of a coroutine method of `AgentStream`."""

    @functools.wraps(method)
    def call(self: "SyncAgentStream", /, *args: P.args, **kwargs: P.kwargs) -> T:
        bridge = self._bridge
        return bridge.wait(method(bridge.stream, *args, **kwargs))

    return call


class SyncInbox:
    """The messages that are sent to a running agent; a loop over it waits for each of them."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._inbox = bridge.stream.inbox

    def waiting(self) -> list[InboxMessage]:
        """Return the messages that have arrived, without waiting for more."""
        return self._bridge.wait(self._inbox.waiting())

    def __iter__(self) -> "SyncInbox":
        return self

    def __next__(self) -> InboxMessage:
        return self._bridge.wait(self._inbox.__anext__())


class SyncAgentStream:
    """The stream of one answer, for an agent that is a plain function.

    It has the methods of `AgentStream`, but they block instead of being awaited. They may be called
    in any thread except that of the event loop. After the stream was cancelled they raise
    `StreamCancelled`, and `cancelled` is True: the agent should then return.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    @property
    def request(self) -> ServiceRequest:
        """The request that this stream answers."""
        return self._bridge.stream.request

    @property
    def question(self) -> str:
        """The text of the last user message in the request, an empty string if there is none."""
        return self._bridge.stream.question

    @property
    def principal(self) -> Principal:
        """The caller: the name of its key, or the subject of its ticket."""
        return self._bridge.stream.principal

    @property
    def durable(self) -> bool:
        """True if another process continues the agent when its own dies."""
        return self._bridge.stream.durable

    @property
    def stream_id(self) -> UUID:
        """The id of this stream."""
        return self._bridge.stream.stream_id

    @property
    def has_inbox(self) -> bool:
        """True if clients may send messages to this stream, as with `AgentApp(inbox=True)`."""
        return self._bridge.stream.has_inbox

    @property
    def inbox(self) -> "SyncInbox":
        """The messages that clients send to this stream while it runs."""
        return SyncInbox(self._bridge)

    @property
    def cancelled(self) -> bool:
        """True if the stream was cancelled; the agent should then return."""
        return self._bridge.stream.cancelled

    @property
    def ended(self) -> bool:
        """True if the last packet has been written."""
        return self._bridge.stream.ended

    @property
    def attempt(self) -> int:
        """The number of this run of the agent: 1, and one more after each restart."""
        return self._bridge.stream.attempt

    @property
    def resumed(self) -> Resumed | None:
        """The output of an earlier run of the current step, if it continues one."""
        return self._bridge.stream.resumed

    def start_over(self) -> None:
        """Run the current step from its beginning, because it cannot continue after `resumed`."""
        self._bridge.stream.start_over()

    def uuid(self) -> UUID:
        """Return a new id; a restarted agent gets the same ids in the same order."""
        return self._bridge.stream.uuid()

    def step_key(self) -> str:
        """Return a key of the current step that is the same after a restart."""
        return self._bridge.stream.step_key()

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], Awaitable[T]],
        *args: *Ts,
        on_restart: Policy = ...,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> T: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], T],
        *args: *Ts,
        on_restart: Policy = ...,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> T: ...

    def step(  # type: ignore[misc]  # mypy cannot compare *args with *Ts
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        on_restart: Policy = "rerun",
        key: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Call a function and return its result; a durable agent calls it once.

        See `AgentStream.step`. A plain function runs in its own thread, an async one on the event
        loop of the server.
        """
        stream = self._bridge.stream
        return self._bridge.wait(
            stream.step(name, function, *args, on_restart=on_restart, key=key, timeout=timeout)
        )

    now = _sync(AgentStream.now)
    checkpoint = _sync(AgentStream.checkpoint)
    history = _sync(AgentStream.history)
    answered_question = _sync(AgentStream.answered_question)
    write = _sync(AgentStream.write)
    write_packet = _sync(AgentStream.write_packet)
    thought = _sync(AgentStream.thought)
    progress = _sync(AgentStream.progress)
    cite = _sync(AgentStream.cite)
    media = _sync(AgentStream.media)
    markdown = _sync(AgentStream.markdown)
    artifact = _sync(AgentStream.artifact)
    tool_call = _sync(AgentStream.tool_call)
    tool_result = _sync(AgentStream.tool_result)
    usage = _sync(AgentStream.usage)
    ask = _sync(AgentStream.ask)
    approve = _sync(AgentStream.approve)
    reject = _sync(AgentStream.reject)
    message = _sync(AgentStream.message)
    warn = _sync(AgentStream.warn)
    fail = _sync(AgentStream.fail)
