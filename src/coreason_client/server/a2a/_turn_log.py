"""The log as the engine sees it while tasks are served.

It does the same as the log itself, with two exceptions for the streams of turns. The end of a turn
stores the state of its task too, in one step. And a claimed stream whose agent was never started is
given to `begin_claimed`, which starts it, instead of being ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, cast
from uuid import UUID

from ..errors import Fenced, LogError
from ..log.base import AgentVersion, Claim, Conversation, DurableLog, StreamLog
from ..log.quotas import quotas_of
from ..log.tasks import StreamEnd, TaskRecord, TurnText
from ._fold import JSON, TaskFold
from ._task_states import TaskStates
from ._turns import parse_turn_question

# Seconds after which the record of a turn is read again before its end is stored: readers that
# have waited for so long change it.
_RECENT: Final = 0.4
# The sessions in which streams keep questions, their order and messages, not turns.
_LISTS: Final = ("question:", "order:", "inbox:")


@dataclass(slots=True)
class _Turn:
    """A running turn of this process, and what is known of its task."""

    task_id: UUID
    record: TaskRecord | None = None
    messages: Mapping[int, JSON] | None = None
    begun: float = 0.0
    text: TurnText | None = None  # stored with the end
    ended: "asyncio.Future[TaskFold | None] | None" = None  # None if its end was not stored here

    def end(self, fold: TaskFold | None = None) -> None:
        """Tell who waits for the end of the turn."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(fold)


class TurnLog:
    """A log on which some streams are turns of tasks; everything else is that of `log`."""

    def __init__(self, log: StreamLog) -> None:
        self.states: TaskStates | None = None
        """Stores the states of tasks; set when tasks are served."""
        self.begin_claimed: Callable[[Claim], Awaitable[bool]] | None = None
        """Starts a turn that was never started; returns False for any other stream."""
        self._log = cast("DurableLog", log)  # an application with a durable agent checks it
        self._turns: dict[UUID, _Turn] = {}
        if (quotas := quotas_of(log)) is not None:
            self.quotas = quotas

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def as_log(self) -> DurableLog:
        """The same, as the engine uses it."""
        return cast("DurableLog", self)

    def add(
        self, stream_id: UUID, record: TaskRecord, messages: Mapping[int, JSON]
    ) -> "asyncio.Future[TaskFold | None]":
        """Remember that a stream is the last turn of a task.

        The result is the fold of the task when the end of the turn was stored, or None if the turn
        is forgotten before.
        """
        ended = asyncio.get_running_loop().create_future()
        turn = _Turn(record.task_id, record, messages, monotonic(), ended=ended)
        self._turns[stream_id] = turn
        return ended

    def forget(self, stream_id: UUID, *, unwritten: bool = False) -> None:
        """Forget a stream that this process does not write any more, unless its end is unwritten.

        Who waits for the end of the turn waits no longer.
        """
        turn = self._turns.get(stream_id) if unwritten else self._turns.pop(stream_id, None)
        if turn is not None:
            turn.end()

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream; store the state of its task with that."""
        try:
            if not await self._end_turn(stream_id, epoch, first_seq, entries, outcome):
                await self._log.close(stream_id, epoch, first_seq, entries, outcome)
        except Fenced:
            self.forget(stream_id)
            raise
        self.forget(stream_id)

    async def _end_turn(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> bool:
        turn = self._turns.get(stream_id)
        if turn is None or self.states is None:
            return False
        record = turn.record if monotonic() - turn.begun < _RECENT else None
        end = StreamEnd(stream_id, epoch, first_seq, entries, outcome, turn.text)
        if (fold := await self.states.end(end, turn.task_id, record, turn.messages)) is not None:
            turn.end(fold)
            return True
        if turn.text is not None:
            await self._log.add_turn(turn.text.conversation, stream_id, turn.text.turn, epoch)
        return False

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation, if possible together with its end.

        What a stream adds elsewhere, such as its question, is added at once.
        """
        known = None if self._log.shared else self._turns.get(stream_id)
        if known is None or conversation.session_id.startswith(_LISTS):
            await self._log.add_turn(conversation, stream_id, turn, epoch)
        else:
            known.text = TurnText(conversation, turn)

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out, but not those that can be started."""
        while claims := await self._log.claim_lost(owner, limit):
            if left := await self._left(claims):
                return left
        return []

    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""
        while claims := await self._log.claim_durable(owner, agent, limit):
            if left := await self._left(claims):
                return left
        return []

    async def _left(self, claims: Sequence[Claim]) -> list[Claim]:
        """Return the claims that are not those of turns that were begun here."""
        begun = await asyncio.gather(*map(self._begin, claims), return_exceptions=True)
        for error in begun:  # the others have been begun all the same
            if isinstance(error, BaseException) and not isinstance(error, LogError):
                raise error
        left = [claim for claim, done in zip(claims, begun, strict=True) if done is False]
        for claim in left:
            if (found := parse_turn_question(claim.question)) is not None:
                self._turns[claim.stream_id] = _Turn(found[0].task_id)
        return left

    async def _begin(self, claim: Claim) -> bool:
        return self.begin_claimed is not None and await self.begin_claimed(claim)

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that another process can claim it at once."""
        self.forget(stream_id)
        await self._log.release(stream_id, epoch)


DurableLog.register(TurnLog)
