"""The steps of an agent: functions whose outcome is journaled if the agent is durable."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from pydantic_core import from_json, to_json

from ...errors import ArgumentError
from ..durable._journal import BODY
from ..durable._notes import Done, Policy
from ..durable._paths import Paths, derived_uuid
from ..durable._replay import Finished, ReplayError, Resume
from ..durable._results import ResultType, arguments_digest, function_name
from ..errors import LogError, StepFailed, StreamCancelled, StreamEnded
from ..log.base import MAX_TURNS
from ._conversation import latest_turns
from ._durable_writer import DurableWriter
from ._end_errors import replay_diverged
from ._step_context import OpenStep, caller, current_step, in_step
from ._threads import run_in_thread

__all__ = ["JournaledSteps", "Resumed", "Steps", "call_function"]

_POLICIES: Final = ("rerun", "fail", "resume")
_MAX_MESSAGE = 2000  # characters of an error's message that the journal keeps
# Not outcomes of a step: the stream cannot be written any more.
_FAILURES_OF_THE_STREAM = (LogError, StreamEnded, StreamCancelled)


LoadTurns: TypeAlias = Callable[[int], Awaitable[Sequence[bytes]]]


class _Outcome(NamedTuple):
    """The end of a step: its result as JSON, or the type and message of an error."""

    kind: Literal["result", "error", "cancelled"]
    value: Any = None

    def stored(self) -> Any:
        """Return the value as the journal keeps it."""
        return from_json(self.value) if self.kind == "result" else self.value


@dataclass(frozen=True, slots=True)
class Resumed:
    """What an earlier run of a step has written.

    `text` is the text of its packets, `packets` are their ops and payloads, and `checkpoint` is the
    last one that it stored, None if it stored none.
    """

    text: str
    packets: tuple[tuple[str, Any], ...]
    checkpoint: Any


class Steps:
    """Runs the steps of a stream that is not durable: each function is just called."""

    attempt = 1

    def __init__(self, stream_id: UUID) -> None:
        self._stream_id = stream_id
        self._paths = Paths()
        self._uuids = 0  # asked for outside steps

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        *,
        policy: Policy = "rerun",
        key: str | None = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a step; its number is taken now.

        Raises:
            ArgumentError: an argument cannot be used.
            RuntimeError: several tasks of a durable agent call the step without a key.
        """
        if policy not in _POLICIES:
            raise ArgumentError("on_restart", 'must be "rerun", "fail" or "resume"', policy)
        if timeout is not None and not timeout > 0:
            raise ArgumentError("timeout", "must be greater than 0", timeout)
        outer = self.current
        self._check_open(outer)
        path = self._paths.take(BODY if outer is None else outer.path, name, key, self._caller())
        names = function_name(function), arguments_digest(function, arguments)
        step = OpenStep(self._stream_id, path, policy, *names)
        return self._run(step, function, arguments, timeout)

    @property
    def current(self) -> OpenStep | None:
        """The step that the caller belongs to, None outside steps."""
        return current_step(self._stream_id)

    def uuid(self) -> UUID:
        """Return the next id of the current step, or of the body."""
        step = self.current
        if step is None:
            self._uuids += 1
            return derived_uuid(self._stream_id, "uuid", BODY, self._uuids)
        step.uuids += 1
        return derived_uuid(self._stream_id, "uuid", step.path, step.uuids)

    @property
    def resumed(self) -> Resumed | None:
        """What an earlier run of the current step has written, None if it continues none."""
        step = self.current
        if step is None or step.resumed is None:
            return None
        packets = step.resumed.packets
        text = "".join(packet.content for packet in packets if packet.op == "DELTA")
        shown = tuple((packet.op, packet.content) for packet in packets)
        return Resumed(text, shown, step.resumed.checkpoint)

    def key(self) -> str:
        """Return a key for the current step that is the same in every run.

        Raises:
            RuntimeError: the caller is not in a step.
        """
        step = self.current
        if step is None:
            raise RuntimeError("step_key() is the key of a step, so it can only be called in one")
        return str(derived_uuid(self._stream_id, "step", step.path))

    def start_over(self) -> None:
        """Compare the current step with its earlier run, as one that is run again.

        Raises:
            RuntimeError: it does not continue an earlier run, or has already done something.
        """
        raise RuntimeError(
            "start_over() can only be called while `resumed` is set, and before the step writes or "
            "calls a step"
        )

    async def turns(self, load: LoadTurns, limit: int, max_bytes: int) -> Sequence[bytes]:
        """Return the latest turns of the conversation."""
        return latest_turns(await load(limit), max_bytes)

    def _check_open(self, outer: OpenStep | None) -> None:
        """Check that a step may be called inside another one."""

    def _caller(self) -> Hashable:
        return None  # the order of the calls does not matter: nothing is replayed

    async def _run(
        self,
        step: OpenStep,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        timeout: float | None,
    ) -> Any:
        type_ = ResultType(step.path, function)
        earlier = await self._begin(step)
        if earlier is not None:
            return await _replayed(earlier, type_)
        try:
            with in_step(step):
                result = await call_function(function, arguments, step.path, timeout)
            data = type_.dump(result)
            value = type_.parse(data)
        except asyncio.CancelledError:
            await self._end(step, _Outcome("cancelled"))
            raise
        except _FAILURES_OF_THE_STREAM:
            raise
        except Exception as error:
            failure = {"type": type(error).__name__, "message": str(error)[:_MAX_MESSAGE]}
            await self._end(step, _Outcome("error", failure))
            raise StepFailed(step.path, **failure) from error
        await self._end(step, _Outcome("result", data))
        return value

    async def _begin(self, step: OpenStep) -> Done | None:
        """Return the outcome of an earlier run, None if the function must be called."""
        return None

    async def _end(self, step: OpenStep, outcome: _Outcome) -> None:
        """Record the outcome of a step."""


class JournaledSteps(Steps):
    """Runs the steps of a durable stream: their outcomes are journaled."""

    def __init__(self, writer: DurableWriter) -> None:
        super().__init__(writer.stream_id)
        self._writer = writer
        self.attempt = writer.journal.attempt

    def _check_open(self, outer: OpenStep | None) -> None:
        if outer is not None:
            outer.check_open()

    def _caller(self) -> Hashable:
        return caller()

    def start_over(self) -> None:
        """Compare the current step with its earlier run; raises like `Steps.start_over`."""
        step, replay = self.current, self._writer.replay
        if step is None or replay is None or not replay.start_over(step.path):
            super().start_over()
            return
        step.resumed = None

    async def turns(self, load: LoadTurns, limit: int, max_bytes: int) -> Sequence[bytes]:
        """Return the latest turns of the conversation; a restarted agent gets the same ones."""

        async def choose(limit: int, max_bytes: int) -> list[str]:
            return list(map(_digest, latest_turns(await load(limit), max_bytes)))

        chosen: list[str] = await self.run("history", choose, [limit, max_bytes])
        kept = {_digest(turn): turn for turn in await load(MAX_TURNS)}
        if any(name not in kept for name in chosen):
            self._writer.stop(replay_diverged("a turn of the conversation is no longer there"))
        return [kept[name] for name in chosen]

    async def _begin(self, step: OpenStep) -> Done | None:
        writer = self._writer
        writer.ending.check_open()
        if writer.boundary is not None:
            writer.boundary()
        if writer.replay is not None:
            try:
                action = writer.replay.begin_step(
                    step.path, step.policy, step.function, step.arguments
                )
            except ReplayError as error:
                writer.stop_at(error)
            await writer.give_way()
            if isinstance(action, Finished):
                writer.leave_replay()
                return action.done
            step.resumed = action if isinstance(action, Resume) else None
            step.begun = isinstance(action, Resume) or action.known
        if not step.begun and step.policy != "rerun":
            writer.begin(step)
            await writer.flush()
        return None

    async def _end(self, step: OpenStep, outcome: _Outcome) -> None:
        writer = self._writer
        if self._stopping():  # not an outcome: another process will run the step again
            return
        writer.ending.check_open()
        if writer.replay is not None:
            try:
                rewind = writer.replay.end_step(step.path)
            except ReplayError as error:
                writer.stop_at(error)
            if rewind is not None:
                await writer.rewind(rewind)
        if not step.begun:
            writer.begin(step)
        last_seq = writer.last_seq if writer.turn.current == step.path else None
        writer.add_note(Done(step.path, outcome.kind, outcome.stored(), last_seq))
        writer.turn.ended(step.path)
        try:
            await writer.flush()
        except asyncio.CancelledError:
            if not self._stopping():  # its caller does not get the outcome that was stored
                writer.add_note(Done(step.path, "cancelled", last_seq=last_seq))
                await writer.flush()
            raise
        writer.leave_replay()
        if writer.boundary is not None:
            writer.boundary()

    def _stopping(self) -> bool:
        """Return True if the producer stops the agent, or the log refuses its packets."""
        writer = self._writer
        return writer.cancelled or writer.ending.sealed or writer.ending.broken


def _digest(turn: bytes) -> str:
    return sha256(turn).hexdigest()[:32]


async def call_function(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    path: str,
    timeout: float | None = None,
) -> Any:
    """Call an async function, or a plain one in a thread.

    Raises:
        TimeoutError: it took longer than `timeout` seconds; the thread of a plain one goes on.
    """
    if _is_async(function):
        async with asyncio.timeout(timeout):
            return await function(*arguments)
    name = f"coreason-step-{path}"
    result = await run_in_thread(lambda: function(*arguments), name, timeout)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


async def _replayed(done: Done, type_: ResultType) -> Any:
    """Return or raise the outcome of an earlier run."""
    if done.outcome == "result":
        return type_.parse(to_json(done.value))
    if done.outcome == "error":
        raise StepFailed(done.path, done.value["type"], done.value["message"])
    # The caller cancelled it, and will do so again.
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")  # pragma: no cover
