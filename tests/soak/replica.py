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
from coreason_manifest.definitions.service import ServiceRequest

from .content import Order, ends_burst, text_of
from .options import AGENT_ID, ReplicaOptions

HEARTBEAT = 1.0


class NotingLog(ValkeyStreamLog):
    """The Valkey log; writes a line to a file for each acknowledgement of the store.

    A line is written with one call, so it is complete or absent if the process is killed.
    """

    def __init__(self, options: ReplicaOptions, notes: str) -> None:
        super().__init__(
            options.url, prefix=options.prefix, lease=options.lease, patience=options.patience
        )
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *words: object) -> None:
        os.write(self._notes, f"{' '.join(map(str, words))}\n".encode())

    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        try:
            cancel = await super().append(stream_id, epoch, first_seq, entries)
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        self.note("ack", stream_id, epoch, first_seq, len(entries))
        return cancel

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        try:
            await super().close(stream_id, epoch, first_seq, entries, outcome)
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        self.note("ack", stream_id, epoch, first_seq, len(entries))
        if epoch > 1:
            self.note("takeover", stream_id, epoch)


class Agent:
    """Writes the requested packets in bursts; if it loses its stream, it tries one late append."""

    def __init__(self, log: NotingLog) -> None:
        self._log = log
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self._log.note("begin", stream.stream_id, request.request_id)
        order = _order(request)
        if order is None:
            await stream.write("read")
            return
        written = 0
        try:
            for written in range(1, order.packets + 1):
                await self._write(stream, order, written)
                if order.block and written == 1:
                    block_the_event_loop(order.block)
        except asyncio.CancelledError:
            # No client cancels here, so another replica has taken over the stream. This append
            # acts like an agent that did not notice; the log must refuse it.
            task = asyncio.ensure_future(self._write_late(stream.stream_id, written + 1))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise

    async def _write(self, stream: AgentStream, order: Order, seq: int) -> None:
        text = text_of(order.name, seq)
        if ends_burst(seq):
            await stream.progress(text, 100 * seq / (order.packets + 1))
            await asyncio.sleep(order.pause)
        else:
            await stream.write(text)

    async def _write_late(self, stream_id: UUID, seq: int) -> None:
        try:
            await self._log.append(stream_id, 1, seq, [b"late"])
        except LogError:
            return
        self._log.note("unfenced", stream_id, seq)


def block_the_event_loop(seconds: float) -> None:
    """Block this process, like an agent that makes a synchronous call."""
    time.sleep(seconds)


def _order(request: ServiceRequest) -> Order | None:
    """Return the order in a request; None for a request of an attacker."""
    messages = request.payload.messages or []
    return Order.parse(messages[0].text) if len(messages) == 1 else None


def _leave_with_parent() -> None:
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
    _leave_with_parent()
    log = NotingLog(options, notes)
    app = AgentApp(
        Agent(log),
        log=log,
        api_keys=options.api_keys or None,
        agent_id=AGENT_ID,
        heartbeat=HEARTBEAT,
        retention=options.retention,
        drain_timeout=2,
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
