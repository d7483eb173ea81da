"""The writer of a durable stream: it keeps the journal, and compares a restart with the log.

The rules are in the package `durable`; this module applies them to packets, and `_steps` to steps.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from types import CoroutineType
from typing import Any, NoReturn, cast

from pydantic_core import from_json, to_json

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError, StreamOpCode
from coreason_manifest.definitions.rewind import REWIND
from coreason_manifest.definitions.service import ServiceRequest

from ...errors import ArgumentError
from ..durable._journal import BODY, Journal, Writers
from ..durable._notes import (
    Begun,
    Checkpoint,
    Failed,
    FirstPacket,
    Note,
    Released,
    Rewound,
    Traced,
    dump_note,
)
from ..durable._packets import ValidText, comparable, follow_text
from ..durable._replay import (
    SKIP,
    Logged,
    Replay,
    ReplayDiverged,
    ReplayError,
    Rewind,
    StepUncertain,
    is_transient,
)
from ..errors import StreamEnded
from ..log.base import DurableLog, StreamMeta
from ..observe._metrics import NOT_METERED, StreamMeter
from ._packets import Ending, replay_diverged, rewind_refused, step_uncertain
from ._step_context import OpenStep, caller, current_step, innermost_step
from ._writer import StreamWriter

# The turn of a writer: steps that write at the same time wait for each other.


class WriterTurn(Writers):
    """The order of writers, and those that wait for it to change."""

    __slots__ = ("_changed",)

    def __init__(self, writing: Iterable[str] = ()) -> None:
        super().__init__(writing)
        self._changed: asyncio.Future[None] | None = None

    def ended(self, path: str) -> bool:
        """Record the end of a step, and wake those that wait."""
        changed = super().ended(path)
        if changed:
            self.wake()
        return changed

    def wake(self) -> None:
        """Let all that wait look again."""
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    async def wait(self, timeout: float | None) -> bool:
        """Wait for a change; return False if there was none within the time."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({self._changed}, timeout=timeout)
        return bool(done)


# A replay gives way to other tasks of the event loop after this time.
_REPLAY_SLICE = 0.005
# How long a writer waits for a step of the journal that wrote and was not called again.
_MISSING_STEP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Origin:
    """The journal and the packets of a stream, with which a restarted agent is compared."""

    journal: Journal
    logged: tuple[Logged, ...]


class DurableWriter(StreamWriter):
    """Writes the packets and the journal of one durable stream.

    `replay` is None when the log and the journal have nothing left that the agent must do again.
    `on_stop` is called with the error that must end the stream; the agent is cancelled then.
    """

    __slots__ = (
        "_on_stop",
        "_replay_until",
        "_valid_text",
        "boundary",
        "journal",
        "may_forget",
        "replay",
        "transient_errors",
        "turn",
    )

    def __init__(
        self,
        request: ServiceRequest,
        meta: StreamMeta,
        log: DurableLog,
        origin: Origin,
        *,
        on_stop: Callable[[StreamError], None],
        on_cancel: Callable[[], None] = lambda: None,
        meter: StreamMeter = NOT_METERED,
        span: str | None = None,
    ) -> None:
        journal = origin.journal
        super().__init__(request, meta, log, on_cancel=on_cancel, meter=meter, notes=journal.count)
        self.journal = journal
        self.may_forget = log.may_forget
        began = journal.count or origin.logged
        self.replay: Replay | None = Replay(journal, origin.logged) if began else None
        self.turn = WriterTurn(journal.writers())
        self._on_stop = on_stop
        self._replay_until = 0.0
        self._valid_text = ValidText()
        for packet in origin.logged:
            follow_text(self._valid_text, packet)
        self.transient_errors = 0
        """The TRANSIENT errors among the packets that this run has written."""
        self.boundary: Callable[[], None] | None = None
        """Called between two steps; set when the stream is to be handed over."""
        if span is not None:  # stored with the first packet or step
            self.add_note(Traced(span))
        self.leave_replay()

    # Packets.

    async def write(self, text: str, checkpoint: Any = None, *, held: bool = False) -> None:
        """Write a DELTA packet; in a step that resumes, optionally with a checkpoint."""
        self.ending.check_open()
        step = self._open_step()
        # Checks come first: the journal must not have a refused packet as the first of a step.
        if checkpoint is not None:
            checkpoint = _checkpoint(step, checkpoint).value
        if self.replay is not None:
            self._frames.check_delta(text)
            if await self._is_logged(step, "DELTA", text):
                return
        owner = BODY if step is None else step.path
        if owner != self.turn.current:  # most packets are written where the one before was
            await self._wait_for_turn(step)
        appender = self._appender
        seq = appender.last_seq + 1
        frame = self._frames.delta(seq, text)
        if step is not None:
            self._note_first_packet(step, seq)
        if checkpoint is not None and step is not None:
            self.add_note(Checkpoint(step.path, checkpoint, seq))
        self._valid_text.by_seq[seq] = text
        if held:
            appender.enqueue(frame)
        else:
            await appender.add_delta(frame)

    async def write_packet(self, op: StreamOpCode | str, p: Any) -> None:
        """Write any packet; raises like `StreamWriter.write_packet`."""
        op = StreamOpCode(op)
        if op is StreamOpCode.DELTA:
            await self.write(p)
            return
        self.ending.check_open()
        step = self._open_step()
        _, packet = self._checked_packet(op, p)
        if packet.is_last:
            if (error := self.missing()) is not None:
                self.stop(error)
        elif self.replay is not None:
            content = comparable(op, from_json(packet.to_json())["p"])
            if is_transient(op, content):
                self.transient_error = packet.p
            if await self._is_logged(step, op, content):
                return
        await self._wait_for_turn(step)
        if step is not None:
            self._note_first_packet(step, self._appender.last_seq + 1)
        if op is StreamOpCode.ERROR and packet.p.severity is ErrorSeverity.TRANSIENT:
            self.transient_errors += 1
        await super().write_packet(op, packet.p)

    async def _is_logged(self, step: OpenStep | None, op: str, content: Any) -> bool:
        """Return True if the log already has a packet."""
        assert self.replay is not None  # noqa: S101 - the caller has checked it
        try:
            verdict = self.replay.write(BODY if step is None else step.path, op, content)
        except ReplayError as error:
            self.stop_at(error)
        if isinstance(verdict, Rewind):
            await self.rewind(verdict)
        await self.give_way()
        _check_still_open(self.ending, step)
        self.leave_replay()
        return verdict is SKIP

    def _open_step(self) -> OpenStep | None:
        """Return the step that writes now, None for the body.

        Raises:
            RuntimeError: another task than the agent's writes outside a step, or a task of a step
                that has ended.
        """
        if innermost_step() is not None:
            step = current_step(self._meta.stream_id)
            if step is not None:
                step.check_open()
                return step
        if not _runs_now(self.agent):
            _check_caller(self.agent)
        return None

    async def _wait_for_turn(self, step: OpenStep | None) -> None:
        """Wait until the step may write."""
        turn, path = self.turn, BODY if step is None else step.path
        while not turn.may_write(path):
            blocker = turn.blocker(path)
            missing = _is_missing(self.replay, blocker)
            changed = await turn.wait(_MISSING_STEP_SECONDS if missing else None)
            _check_still_open(self.ending, step)
            if not changed and self.replay is not None and self.replay.is_missing(blocker):
                try:
                    rewind = self.replay.write_instead(path, blocker)
                except ReplayError as error:
                    self.stop_at(error)
                await self.rewind(rewind)

    # The journal.

    def add_note(self, note: Note) -> None:
        """Add a note to the journal; it is stored with the next append."""
        stored = dump_note(note)
        self.journal.add(note)
        self._appender.add_note(stored)

    def begin(self, step: OpenStep, first_seq: int | None = None) -> None:
        """Journal the beginning of a step."""
        step.begun = True
        self.add_note(Begun(step.path, step.policy, step.function, step.arguments, first_seq))

    def _note_first_packet(self, step: OpenStep, seq: int) -> None:
        if not self.turn.wrote(step.path):
            return
        if step.begun:
            self.add_note(FirstPacket(step.path, seq))
        else:
            self.begin(step, seq)

    async def checkpoint(self, value: Any) -> None:
        """Store a checkpoint of the current step without a packet."""
        self.ending.check_open()
        self.add_note(_checkpoint(self._open_step(), value))
        await self._appender.flush()

    # Replay.

    async def rewind(self, rewind: Rewind) -> None:
        """Write a REWIND packet, or end the stream if the client does not understand it."""
        capabilities = self.request.payload.capabilities
        if capabilities is None or REWIND not in capabilities.supported_events:
            self.stop(rewind_refused(rewind.step))
        seq = self._appender.last_seq + 1
        name = rewind.step.rpartition("/")[2].partition("#")[0].partition("@")[0]
        data = {"to_seq": rewind.to_seq, "step": name, "attempt": self.journal.attempt}
        frame, _ = self._frames.packet(seq, StreamOpCode.EVENT, {"type": REWIND, "data": data})
        self.add_note(Rewound(rewind.step, rewind.to_seq, seq))
        self._valid_text.rewind(rewind.to_seq)
        self.turn.rewound(rewind.step)
        await self._appender.add(frame)

    async def give_way(self) -> None:
        """Let other tasks run, if the replay has run for a while."""
        if monotonic() >= self._replay_until:
            await asyncio.sleep(0)
            self._replay_until = monotonic() + _REPLAY_SLICE

    def leave_replay(self) -> None:
        """Stop comparing once everything was done again."""
        if self.replay is not None and self.replay.complete:
            self.replay = None

    def stop_at(self, error: ReplayError) -> NoReturn:
        """End the stream because the replay cannot go on; raises like `stop`."""
        uncertain = isinstance(error, StepUncertain)
        self.stop(step_uncertain(error) if uncertain else replay_diverged(error))

    # The end of the stream.

    def missing(self) -> StreamError | None:
        """Return the error for an agent that ended before it had done everything again."""
        if self.replay is not None and not self.ending.ended:
            try:
                self.replay.end()
            except ReplayDiverged as difference:
                return replay_diverged(difference)
        return None

    def _answer(self) -> str:
        return "".join(self._valid_text.values)

    def seal(self) -> None:
        """Accept no more packets and steps, because the stream is ended or handed over."""
        self.ending.sealed = True
        self.turn.wake()

    def stop(self, error: StreamError) -> NoReturn:
        """Seal the stream and let the producer end it.

        Raises:
            StreamEnded: always.
        """
        self.seal()
        self._on_stop(error)
        raise StreamEnded(self.stream_id)

    async def release(self, *, failed: bool = False, broken: bool = False) -> None:
        """Give the stream to the next process that claims it.

        If the agent has `failed`, its next start is a restart after a failure. If the stream is
        `broken`, because the store has lost its latest packets, nothing is written before.

        Raises:
            LogError: the log did not accept it; the stream can be claimed when its lease ends.
        """
        assert isinstance(self._log, DurableLog)  # noqa: S101
        if not broken:
            self.add_note(Failed(self.packets, self.transient_errors) if failed else Released())
            await self._appender.flush()
        await self._log.release(self.stream_id, self._meta.epoch)
        self.ending.given_up = not broken


def _runs_now(agent: "asyncio.Task[None] | None") -> bool:
    """Return True if this is code of the agent's own task, not of another task or thread."""
    # That is cheaper than to ask for the current task, and is done for each packet.
    return agent is not None and cast("CoroutineType[Any, Any, None]", agent.get_coro()).cr_running


def _check_still_open(ending: Ending, step: OpenStep | None) -> None:
    """Check that neither the stream nor the step has ended while its packet waited.

    A step inside one that has ended would block the restarted agent, which does not call it.
    """
    ending.check_open()
    if step is not None:
        step.check_open()


def _check_caller(agent: object) -> None:
    """Check that the agent itself writes outside steps.

    Raises:
        RuntimeError: another task does.
    """
    # An agent in a thread is no task, and without a producer there is no agent.
    if agent is not None and isinstance(caller(), asyncio.Task):
        raise RuntimeError(
            "only the task of a durable agent itself may write outside a step: write in a "
            "step, so that a restarted agent knows whose packet it is"
        )


def _checkpoint(step: OpenStep | None, value: Any) -> Checkpoint:
    """Return the note for a checkpoint.

    Raises:
        ArgumentError: it is not JSON.
        RuntimeError: the step is not one that resumes.
    """
    if step is None or step.policy != "resume":
        where = "outside steps" if step is None else f"in the step {step.path}"
        raise RuntimeError(
            f'a checkpoint needs a step with on_restart="resume", but this one is stored {where}'
        )
    try:
        copy = from_json(to_json(value))  # the caller may change its own one while this one waits
    except (ValueError, RecursionError):
        raise ArgumentError("checkpoint", "must be JSON", value) from None
    return Checkpoint(step.path, copy)


def _is_missing(replay: Replay | None, path: str) -> bool:
    """Return True if a step of the journal was not called in this run."""
    return replay is not None and replay.is_missing(path)
