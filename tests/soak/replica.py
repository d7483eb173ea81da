"""One replica: an agent on the shared log, which records what the store acknowledged.

Arguments: port, options as JSON, file of notes.
"""

import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence
from uuid import UUID

from coreason_client.server import AgentApp, AgentStream, Fenced, LogError, ValkeyStreamLog, serve
from coreason_client.server.log import Notes
from coreason_manifest.definitions.service import ServiceRequest

from .content import Order, ends_burst, text_of
from .options import AGENT_ID, ReplicaOptions

HEARTBEAT = 1.0
_LOOK_EVERY = 0.05


class NotingLog(ValkeyStreamLog):
    """The Valkey log; writes a line to a file for each acknowledgement of the store.

    A line is written with one call, so it is complete or absent if the process is killed.
    """

    def __init__(self, options: ReplicaOptions, notes: str) -> None:
        super().__init__(
            options.url, prefix=options.prefix, lease=options.lease, patience=options.patience
        )
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._taken_over: set[tuple[UUID, int]] = set()
        self._continued: set[tuple[UUID, int]] = set()

    def note(self, *words: object) -> None:
        os.write(self._notes, f"{' '.join(map(str, words))}\n".encode())

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        try:
            cancel = await super().append(stream_id, epoch, first_seq, entries, notes)
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        if entries:
            self._note_entries(stream_id, epoch, first_seq, len(entries))
        elif epoch > 1:  # the note of a restart
            self._note_takeover(stream_id, epoch)
        return cancel

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        try:
            await super().close(stream_id, epoch, first_seq, entries, outcome)
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        self._note_entries(stream_id, epoch, first_seq, len(entries))
        if epoch > 1:
            self._note_takeover(stream_id, epoch)

    async def release(self, stream_id: UUID, epoch: int) -> None:
        self.note("released", stream_id, epoch, time.monotonic())
        await super().release(stream_id, epoch)

    def _note_takeover(self, stream_id: UUID, epoch: int) -> None:
        if (stream_id, epoch) not in self._taken_over:
            self._taken_over.add((stream_id, epoch))
            self.note("takeover", stream_id, epoch, time.monotonic())

    def _note_entries(self, stream_id: UUID, epoch: int, first_seq: int, number: int) -> None:
        self.note("ack", stream_id, epoch, first_seq, number)
        if epoch > 1 and (stream_id, epoch) not in self._continued:
            self._continued.add((stream_id, epoch))
            self.note("continued", stream_id, epoch, time.monotonic())


class Agent:
    """Writes the requested packets in bursts; if it loses its stream, it tries one late append."""

    def __init__(self, log: NotingLog) -> None:
        self._log = log
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self._log.note(
            "begin" if stream.attempt == 1 else "restart", stream.stream_id, request.request_id
        )
        order = _order(request)
        if order is None:
            await stream.write("read")
            return
        try:
            await self._write_all(stream, order)
        except asyncio.CancelledError:
            # No client cancels here, so another replica takes over the stream. This append acts
            # like an agent that did not notice; the log must refuse it.
            task = asyncio.ensure_future(self._write_late(stream.stream_id))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise

    async def _write_all(self, stream: AgentStream, order: Order) -> None:
        for seq in range(1, order.packets + 1):
            await self._write(stream, order, seq)
            if order.block and seq == 1:
                block_the_event_loop(order.block)

    async def _write(self, stream: AgentStream, order: Order, seq: int) -> None:
        text = text_of(order.name, seq)
        if ends_burst(seq):
            await stream.progress(text, 100 * seq / (order.packets + 1))
            await asyncio.sleep(order.pause)
        else:
            await stream.write(text)

    async def _write_late(self, stream_id: UUID) -> None:
        """Append after the end of the first epoch; a hand-over ends it after the agent."""
        try:
            while True:
                meta = await self._log.meta(stream_id)
                if meta.epoch > 1 or meta.outcome is not None:
                    break
                await asyncio.sleep(_LOOK_EVERY)
            await self._log.append(stream_id, 1, meta.last_seq + 1, [b"late"])
        except LogError:
            return
        self._log.note("unfenced", stream_id, meta.last_seq + 1)


class DurableAgent(Agent):
    """Writes the same in its body, in a step that runs again and in one that resumes.

    The step that runs again writes other text in each run if the order says so.
    """

    async def _write_all(self, stream: AgentStream, order: Order) -> None:
        parts = order.parts
        # The pauses for what is in the log already would only add to the silence of its readers.
        skips = (await self._log.meta(stream.stream_id)).last_seq if stream.attempt > 1 else 0

        async def write(index: int, run: int | None = None, checkpoint: int | None = None) -> None:
            text = order.text_of(index, run)
            if ends_burst(index):
                await stream.progress(text, 100 * index / (order.packets + 1))
                await asyncio.sleep(order.pause if index > skips else 0)
            else:
                await stream.write(text, checkpoint=checkpoint)

        async def rerun() -> int:
            for index in parts.rerun:
                await write(index, stream.attempt)
            return stream.attempt

        async def resume() -> int:
            written = 0 if stream.resumed is None else len(stream.resumed.packets)
            for index in parts.resume[written:]:
                await write(index, checkpoint=index)
            return written

        for index in parts.before:
            await write(index)
        run = await stream.step("rerun", rerun)
        await stream.step("resume", resume, on_restart="resume")
        for index in parts.after:
            await write(index, run)


def block_the_event_loop(seconds: float) -> None:
    """Block this process, like an agent that makes a synchronous call."""
    time.sleep(seconds)


def _order(request: ServiceRequest) -> Order | None:
    """Return the order in a request; None for a request of an attacker."""
    messages = request.payload.messages or []
    return Order.parse(messages[0].text) if len(messages) == 1 else None


def leave_with_parent() -> None:
    """Exit when the parent process has exited, which closes its end of the pipe."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):  # not sys.stdin.read: its lock outlives the thread
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def set_descriptor_limit(most: int | None = None) -> int:
    """Set the limit for open files, by default to the hard limit; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = hard if most is None else most
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def main(port: str, options_json: str, notes: str) -> None:
    options = ReplicaOptions.parse(options_json)
    set_descriptor_limit(options.descriptors)
    leave_with_parent()
    log = NotingLog(options, notes)
    app = AgentApp(
        DurableAgent(log) if options.durable else Agent(log),
        log=log,
        api_keys=options.api_keys or None,
        agent_id=AGENT_ID,
        heartbeat=HEARTBEAT,
        retention=options.retention,
        drain_timeout=options.drain_timeout,
        durable=options.durable,
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
