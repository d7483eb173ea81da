"""The steps of an agent: functions whose outcome is journaled if the agent is durable."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from pydantic_core import from_json, to_json

from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ...errors import ArgumentError
from ..durable._approvals import APPROVAL, Approvals, SilentReplay
from ..durable._journal import BODY, Paths, derived_uuid
from ..durable._notes import Done, Outcome, Policy, Released
from ..durable._replay import Finished, ReplayError, Resume
from ..durable._results import (
    ResultType,
    arguments_digest,
    failure_of,
    function_name,
    unwrapped,
)
from ..errors import LogError, StepFailed, StreamCancelled, StreamEnded
from ..log.base import MAX_TURNS
from ._conversation import AnsweredQuestion, latest_turns, parse_stored
from ._durable_writer import DurableWriter
from ._packets import replay_diverged
from ._step_context import OpenStep, caller, current_step, in_step
from ._threads import run_in_thread, too_long

logger = logging.getLogger("coreason_client.server")

_ANSWER: Final = "answer"
_POLICIES: Final = ("rerun", "fail", "resume")
_ASYNC_MARK = "_coreason_async"  # inspect has such a mark only from Python 3.12 on
# Not outcomes of a step if its own stream cannot be written any more. An agent may use others.
_ENDS_OF_A_STREAM = (LogError, StreamEnded, StreamCancelled, asyncio.CancelledError)
# Functions of this package that read the log of the stream. Its errors are no outcomes of them.
_READERS: Final = ("StreamTurns.answered_question", "JournaledSteps.turns.<locals>.choose")


LoadTurns: TypeAlias = Callable[[int], Awaitable[Sequence[bytes]]]


class _Outcome(NamedTuple):
    """The end of a step: its result as JSON, or the type and message of an error."""

    kind: Outcome
    value: Any = None

    def stored(self) -> Any:
        """Return the value as the journal keeps it."""
        return from_json(self.value) if self.kind == "result" else self.value


@dataclass(frozen=True, slots=True)
class Resumed:
    """The packets that an earlier run of a step has written.

    `text` is the text of its packets, `packets` are their ops and payloads, and `checkpoint` is the
    last one that it stored, None if it stored none.
    """

    text: str
    packets: tuple[tuple[str, Any], ...]
    checkpoint: Any


def check_step(function: object, policy: object, timeout: object) -> None:
    """Check the arguments of a step.

    Raises:
        ArgumentError: one of them cannot be used.
    """
    if not callable(function):
        rule = "must be a function that was not called yet, as in step(name, function, argument)"
        raise ArgumentError("function", rule, function)
    if policy not in _POLICIES:
        raise ArgumentError("on_restart", 'must be "rerun", "fail" or "resume"', policy)
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise ArgumentError("timeout", "must be a number greater than 0", timeout)


class Steps:
    """Runs the steps of a stream that is not durable: each function is just called."""

    attempt = 1
    durable = False

    def __init__(self, stream_id: UUID) -> None:
        self._stream_id = stream_id
        self._root = stream_id  # of derived ids: the stream in which the agent has begun
        self._paths = Paths()
        self._uuids = 0  # asked for outside steps
        self.forgotten: list[str] = []
        """Calls of the stream that were not awaited, see `watch_forgotten`."""

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
        check_step(function, policy, timeout)
        outer = self.current
        self._check_open(outer)
        path = self._paths.take(BODY if outer is None else outer.path, name, key, self._caller())
        names = function_name(function), arguments_digest(function, arguments)
        step = OpenStep(self._stream_id, path, policy, *names)
        run = self._run(step, function, arguments, timeout)
        run.__qualname__ = f"step {path}"  # type: ignore[attr-defined]  # a forgotten await shows it
        return run

    @property
    def current(self) -> OpenStep | None:
        """The step that the caller belongs to, None outside steps."""
        return current_step(self._stream_id)

    def uuid(self) -> UUID:
        """Return the next id of the current step, or of the body."""
        step = self.current
        if step is None:
            self._uuids += 1
            return derived_uuid(self._root, "uuid", BODY, self._uuids)
        step.uuids += 1
        return derived_uuid(self._root, "uuid", step.path, step.uuids)

    @property
    def resumed(self) -> Resumed | None:
        """The output of an earlier run of the current step, None if it continues none."""
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
        return str(derived_uuid(self._root, "step", step.path))

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

    def knows(self, name: str, key: str) -> bool | None:
        """Return True if a step has ended in an earlier run, None if it may not begin yet."""
        return False

    async def waits(self) -> None:
        """Record that the agent has not begun, so that a death of its process is not its fault."""

    def approved(self, shown: dict[str, Any]) -> AnsweredQuestion | dict[str, Any]:
        """Return the answer to the next approval, or the state of the question if there is none.

        Raises:
            RuntimeError: the agent is not durable, asks in a step, or a step has not ended.
        """
        raise RuntimeError(
            "approve() needs AgentApp(agent, durable=True): otherwise use ask() with a state"
        )

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
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, _ENDS_OF_A_STREAM) and self._is_over():
                raise
            if isinstance(error, LogError) and step.function in _READERS:
                raise
            if _is_cancelled(error):
                await self._end(step, _Outcome("cancelled"))
                raise
            failure = failure_of(error)
            await self._end(step, _Outcome("error", failure))
            raise StepFailed(step.path, **failure) from error
        await self._end(step, _Outcome("result", data))
        return value

    def _is_over(self) -> bool:
        """Return True if nothing more can be written."""
        return True

    async def _begin(self, step: OpenStep) -> Done | None:
        """Return the outcome of an earlier run, None if the function must be called."""
        return None

    async def _end(self, step: OpenStep, outcome: _Outcome) -> None:
        """Record the outcome of a step."""


@cache
def _warn_of_failover() -> None:
    logger.warning(
        'a step with on_restart="fail" may run a second time after a failover of the store that '
        "loses its note: give the log replicas=N, and use step_key() where the step takes effect"
    )


class JournaledSteps(Steps):
    """Runs the steps of a durable stream: their outcomes are journaled."""

    durable = True

    def __init__(self, writer: DurableWriter) -> None:
        super().__init__(writer.stream_id)
        self._writer = writer
        self._asked: ServiceRequest | None = None  # of the turn that asked for an approval
        self._approvals = Approvals()
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

    def knows(self, name: str, key: str) -> bool | None:
        """Return True if a step has ended in an earlier run, None if it may not begin yet.

        A new one may not begin before the agent has done everything again.
        """
        replay, outer = self._writer.replay, self.current
        if replay is None:
            return False
        path = f"{name}@{key}" if outer is None else f"{outer.path}/{name}@{key}"
        return True if replay.is_missing(path) else None

    async def waits(self) -> None:
        """Record that the next start is not a restart after a failure."""
        if not self._writer.journal.restarts.handed_over:
            self._writer.add_note(Released())
            await self._writer.flush()

    async def go_on(self) -> ServiceRequest:
        """Return the request of the agent: if it answers an approval, the one that led to it.

        Raises:
            LogError: the log does not answer.
        """
        writer, steps = self._writer, self._writer.journal.steps
        if not steps and not writer.last_seq:  # it has done nothing yet
            answers = await writer.turns.answers_approval()
        else:
            answers = f"{APPROVAL}@{_ANSWER}" in steps
        if answers:
            ask = writer.turns.answered_question
            answered: AnsweredQuestion | None = await self.run(APPROVAL, ask, (), key=_ANSWER)
            if answered is not None:
                state = answered.state[APPROVAL]
                self._approvals = Approvals(state, asdict(replace(answered, state=None)))
                self._root, self._asked = UUID(state["root"]), parse_stored(state["request"])
                writer.replay = SilentReplay(state["notes"], writer.replay)
        return self._asked or writer.request

    def approved(self, shown: dict[str, Any]) -> AnsweredQuestion | dict[str, Any]:
        """Return the answer to the next approval, or a state; raises like `Steps.approved`."""
        if self.current is not None:
            raise RuntimeError("approve() cannot be called in a step: call it before, or after it")
        writer = self._writer
        try:
            answer, is_last = self._approvals.next(shown)
            if is_last and isinstance(writer.replay, SilentReplay):
                writer.replay = writer.replay.close()
        except ReplayError as error:
            writer.stop_at(error)
        writer.leave_replay()
        if answer is not None:
            return AnsweredQuestion(**answer)
        asked = self._approvals.state(writer.journal, shown)
        request = self._asked or writer.request
        return {APPROVAL: {"root": self._root.hex, "request": request, **asked}}

    async def turns(self, load: LoadTurns, limit: int, max_bytes: int) -> Sequence[bytes]:
        """Return the latest turns of the conversation; a restarted agent gets the same ones."""

        async def choose(limit: int, max_bytes: int) -> list[str]:
            return list(map(_digest, latest_turns(await load(limit), max_bytes)))

        chosen: list[str] = await self.run("history", choose, [limit, max_bytes])
        kept = {_digest(turn): turn for turn in await load(MAX_TURNS)}
        if any(name not in kept for name in chosen):
            self._writer.stop(replay_diverged("a turn of the conversation is no longer there"))
        return [kept[name] for name in chosen]

    async def _run(
        self,
        step: OpenStep,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        timeout: float | None,
    ) -> Any:
        try:
            return await super()._run(step, function, arguments, timeout)
        finally:
            if self._is_over():  # so a step that waits for this one to end cannot write either
                self._writer.turn.wake()

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
                if action.error is not None:
                    writer.transient_error = StreamError.model_validate(action.error)
                writer.leave_replay()
                return action.done
            step.resumed = action if isinstance(action, Resume) else None
            step.begun = isinstance(action, Resume) or action.known
        if not step.begun and step.policy != "rerun":
            if step.policy == "fail" and writer.may_forget:
                _warn_of_failover()
            writer.begin(step)
            try:
                await writer.flush()
            except asyncio.CancelledError:
                await self._end(step, _Outcome("cancelled"))
                raise
        return None

    async def _end(self, step: OpenStep, outcome: _Outcome) -> None:
        writer = self._writer
        if self._is_over():  # not an outcome: another process will run the step again
            if outcome.kind != "cancelled":
                writer.ending.raise_error()
            return
        try:
            await self._store(step, outcome)
        except asyncio.CancelledError:
            if not self._is_over():  # its caller does not get the outcome that was stored
                await self._store(step, _Outcome("cancelled"))
            raise
        writer.leave_replay()
        if writer.boundary is not None:
            writer.boundary()

    async def _store(self, step: OpenStep, outcome: _Outcome) -> None:
        writer = self._writer
        if writer.replay is not None:
            try:
                rewind = writer.replay.end_step(step.path)
            except ReplayError as error:
                writer.stop_at(error)
            if rewind is not None:
                await writer.rewind(rewind)
        if not step.begun:
            writer.begin(step)
        last_seq = writer.journal.steps[step.path].last_seq  # an earlier end is replaced
        if writer.turn.is_writing(step.path):
            last_seq = writer.last_seq
        writer.add_note(Done(step.path, outcome.kind, outcome.stored(), last_seq))
        writer.turn.ended(step.path)
        await writer.flush()

    def _is_over(self) -> bool:
        """Return True if the stream is ended or handed over, or the log refuses its packets."""
        writer = self._writer
        ending = writer.ending
        return writer.cancelled or ending.sealed or ending.broken or ending.ended


def _digest(turn: bytes) -> str:
    return sha256(turn).hexdigest()[:32]


def _is_cancelled(error: BaseException) -> bool:
    """Return True if the caller of a step has cancelled it; its function may raise the same."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


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
        return await _within(timeout, function(*arguments))
    name = f"coreason-step-{path}"
    result = await run_in_thread(lambda: function(*arguments), name, timeout)
    return await _within(timeout, result) if inspect.isawaitable(result) else result


async def _within(timeout: float | None, work: Awaitable[Any]) -> Any:
    if timeout is None:
        return await work
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(too_long(timeout)) from None
        raise


def mark_async(function: Callable[..., Coroutine[Any, Any, Any]]) -> None:
    """Let a plain function that returns a coroutine be called on the event loop."""
    setattr(function, _ASYNC_MARK, True)


def _is_async(function: Callable[..., Any]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        or getattr(unwrapped(function), _ASYNC_MARK, False) is True
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
