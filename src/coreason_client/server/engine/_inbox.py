"""Messages to a running stream: sent by its clients, read by its agent once, in order.

The log keeps them as turns of a conversation of their own, so their order is the same for all
processes. The last entry is a seal, which the end of the stream adds: what comes after it was
refused. So a message is either accepted or refused, whatever happens at the same time; an accepted
one that the agent did not take is named in the last packet. A seal is void once another process
owns the stream: one that was frozen adds its seal although the agent goes on elsewhere.

An agent looks into its inbox; each look has a number. In a durable agent, a look that finds
something is a step, stored before the agent goes on. A restarted agent finds at the same looks what
it found before, and nothing at the others until it has done everything again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from ..durable._journal import BODY, Journal
from ..log.base import MAX_TURNS, Conversation, StreamLog, StreamMeta
from ._conversation import dump_mark, marks_in
from ._steps import Steps

MAX_MESSAGES: Final = 100
MAX_TEXT: Final = 65_536  # characters
MAX_BYTES: Final = 900_000  # of all as JSON: one look may find all, and is the result of a step
FULL: Final = f"A stream takes at most {MAX_MESSAGES} messages, of {MAX_BYTES:,} bytes together."
_POLL_SECONDS: Final = 1.0  # a message that arrives in this process is noticed at once
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:coreason:inbox-message")
_REPLAY_POLL_SECONDS: Final = 0.05
_MESSAGE, _SEAL, _STEP = "message", "seal", "inbox"
_LOOK: Final = (
    "Inbox._look.<locals>.look"  # the function of a look: an agent may name a step so too
)

PutResult: TypeAlias = Literal["stored", "ended", "full", "conflict"]


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message to a running agent; `id` was chosen by its sender."""

    id: str
    text: str


def _accepted(stored: Sequence[bytes], epoch: int) -> list[InboxMessage]:
    """Return the messages before the seal of a producer, up to the limits.

    The seal of one with an earlier epoch is void: it has lost the stream. Several processes may add
    the last message at the same time: all find the same one beyond the limits.
    """
    messages: list[InboxMessage] = []
    size = 0
    for found, added in zip(map(marks_in, stored), map(len, stored), strict=True):
        size += added
        if found.get(_SEAL, 0) >= epoch or size > MAX_BYTES:
            break
        if _MESSAGE in found:
            messages.append(InboxMessage(**found[_MESSAGE]))
    return messages[:MAX_MESSAGES]


class InboxStore:
    """The inbox of one stream in the log."""

    def __init__(self, log: StreamLog, meta: StreamMeta) -> None:
        self._log = log
        self._stream_id = meta.stream_id
        self._epoch = meta.epoch
        self._place = Conversation(meta.principal, f"inbox:{meta.stream_id.hex}")

    async def _stored(self) -> Sequence[bytes]:
        return await self._log.turns(self._place, MAX_TURNS)

    async def messages(self) -> list[InboxMessage]:
        """Return what was accepted."""
        return _accepted(await self._stored(), self._epoch)

    async def has(self, message_id: str) -> bool:
        """Return True if a message with this id was accepted."""
        return message_id in [message.id for message in await self.messages()]

    async def put(self, message: InboxMessage) -> PutResult:
        """Accept a message, unless the stream has ended; the same id again has the same result.

        Raises:
            LogError: the log does not answer.
        """
        name = uuid5(_NAMESPACE, f"{self._stream_id}:{message.id}")
        stored = dump_mark(_MESSAGE, {"id": message.id, "text": message.text})
        is_added = False
        while True:
            meta, there = await self._log.meta(self._stream_id), await self._stored()
            self._epoch = meta.epoch
            known = {one.id: one for one in _accepted(there, self._epoch)}
            if message.id in known:
                return "stored" if message == known[message.id] else "conflict"
            if meta.outcome is not None:
                return "ended"
            size = sum(map(len, there if is_added else [*there, stored]))
            if len(known) >= MAX_MESSAGES or size > MAX_BYTES:
                return "full"
            if is_added:  # after a seal: the end follows, or another process that goes on
                await asyncio.sleep(_REPLAY_POLL_SECONDS)
            await self._log.add_turn(self._place, name, stored)  # a second time it does nothing
            is_added = True

    async def seal(self, epoch: int = 0) -> list[InboxMessage]:
        """Accept no more messages; return those that were accepted.

        `epoch` is that of the owner of the stream, if it has another one than before.
        """
        self._epoch = epoch or self._epoch
        name = uuid5(_NAMESPACE, f"{self._stream_id}:seal:{self._epoch}")
        await self._log.add_turn(self._place, name, dump_mark(_SEAL, self._epoch))
        return await self.messages()


class Inbox:
    """The messages that are sent to a running agent; `async for` waits for each of them.

    Only one task reads at a time. A restarted durable agent gets the same messages at the same
    places. `taken` has the texts of those that it got in earlier runs, by their ids, and `check`
    raises an error if the agent should stop.
    """

    def __init__(
        self,
        store: InboxStore,
        steps: Steps,
        taken: dict[str, str],
        check: Callable[[], object] = bool,
    ) -> None:
        self._store = store
        self._steps = steps
        self._check = check
        self._looks: Counter[str] = Counter()
        self.taken = taken
        """The messages that the agent got."""
        self._unread: list[str] | None = None  # known once it is sealed
        self._is_read = False
        self._arrived = asyncio.Event()
        self.name_unread: Callable[[list[str]], Awaitable[dict[str, Any]]]
        """Returns what the last packet says of the messages with these ids; set at the start."""

    def wake(self) -> None:
        """Look at once: a message has arrived in this process."""
        self._arrived.set()

    async def seal(self, epoch: int = 0) -> dict[str, Any]:
        """Accept no more messages; return what is said of those that the agent did not get."""
        if self._unread is None or epoch:
            messages = await self._store.seal(epoch)
            self._unread = [one.id for one in messages if one.id not in self.taken]
        return await self.name_unread(self._unread)

    async def waiting(self) -> list[InboxMessage]:
        """Return the messages that have arrived, without waiting for more.

        Raises:
            RuntimeError: another task reads, or this is in a step with on_restart="resume".
            LogError: the log does not answer.
        """
        with self._reading() as key:
            return await self._look(key, MAX_MESSAGES) or []

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> InboxMessage:
        with self._reading() as key:
            while True:
                self._check()
                self._arrived.clear()
                found = await self._look(key, 1)
                if found:
                    return found[0]
                seconds = _REPLAY_POLL_SECONDS if found is None else _POLL_SECONDS
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), seconds)

    @contextmanager
    def _reading(self) -> Iterator[str]:
        """Yield the key of the next look."""
        step = self._steps.current
        if self._is_read:
            raise RuntimeError("another task reads the inbox: only one may read at a time")
        if step is not None and step.policy == "resume":
            raise RuntimeError(
                'the inbox cannot be read in a step with on_restart="resume": read it before'
            )
        owner = BODY if step is None else step.path
        self._looks[owner] += 1
        self._is_read = True
        try:
            yield str(self._looks[owner])
        finally:
            self._is_read = False

    async def _look(self, key: str, limit: int) -> list[InboxMessage] | None:
        """Return messages that were not taken yet, None if that is not known yet."""
        known = self._steps.knows(_STEP, key)
        if known is None:
            return None
        found: list[InboxMessage] = []
        if not known:
            messages = await self._store.messages()
            found = [one for one in messages if one.id not in self.taken][:limit]
            if not found:
                return []

        async def look() -> dict[str, Any]:
            return {"messages": [[one.id, one.text] for one in found]}

        taken = await self._steps.run(_STEP, look, (), key=key)
        if not known:  # those of before an approval were sent to another stream
            self.taken.update(taken["messages"])
        return [InboxMessage(*one) for one in taken["messages"]]


def taken_in(journal: Journal) -> dict[str, str]:
    """Return the messages that the agent has got in earlier runs."""
    taken: dict[str, str] = {}
    for step in journal.steps.values():
        if step.function == _LOOK and step.done and step.done.outcome == "result":
            taken.update(step.done.value["messages"])
    return taken
