"""One replica: an agent on the shared log, which records what the store acknowledged.

Arguments: port, options as JSON, file of notes.
"""

import asyncio
import os
import resource
import sys
import threading
import time
from uuid import UUID

from coreason_client.server import AgentApp, AgentStream, LogError, serve
from coreason_manifest.definitions.service import ServiceRequest

from .content import Order, ends_burst, text_of
from .logs import NotingLog, make_noting_log
from .options import AGENT_ID, ReplicaOptions

HEARTBEAT = 1.0
_LOOK_EVERY = 0.05


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
    log = make_noting_log(options, notes)
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
