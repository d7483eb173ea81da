"""One replica for failovers of its store: the words of its agent name the run that wrote them.

Arguments: port, options as JSON, file of notes.
"""

import asyncio
import secrets
import sys

from coreason_client.server import AgentApp, AgentStream, serve
from coreason_client.server.log import DurableLog
from coreason_manifest.definitions.service import ServiceRequest

from .content import Order
from .failover_tally import SAME, word
from .logs import make_log
from .options import AGENT_ID, ReplicaOptions
from .replica import HEARTBEAT, leave_with_parent

PROGRAM = "tests.soak.failover_replica"


class Agent:
    """Writes words; each run has its own, except for durable answers that do not differ."""

    def __init__(self, log: DurableLog, *, durable: bool) -> None:
        self._log = log
        self._durable = durable

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        order, own = Order.parse(stream.question), secrets.token_hex(4)
        if not self._durable:
            await self._write(stream, order, range(1, order.packets + 1), own)
            return
        # Most of the answer is in the step, so that it is interrupted.
        first, end = order.packets // 10, order.packets * 9 // 10

        async def rerun() -> str:
            run = own if order.differs else SAME
            await self._write(stream, order, range(first, end), run)
            return run

        await self._write(stream, order, range(1, first), SAME)
        run = await stream.step("rerun", rerun)
        await self._write(stream, order, range(end, order.packets + 1), run)

    async def _write(self, stream: AgentStream, order: Order, words: range, run: str) -> None:
        # The pauses for what is in the log already would only add to the silence of its readers.
        skips = (await self._log.meta(stream.stream_id)).last_seq if stream.attempt > 1 else 0
        for index in words:
            await stream.write(word(index, run))
            await asyncio.sleep(order.pause if index > skips else 0)


def main(port: str, options_json: str, _: str) -> None:
    options = ReplicaOptions.parse(options_json)
    leave_with_parent()
    log = make_log(options)
    app = AgentApp(
        Agent(log, durable=options.durable),
        log=log,
        agent_id=AGENT_ID,
        heartbeat=HEARTBEAT,
        drain_timeout=options.drain_timeout,
        durable=options.durable,
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
