"""A durable agent: kill its process in the middle of an answer, and the answer goes on.

1. Start the agent. It logs the number of its process.

       python examples/durable_agent.py

2. Ask it in a second terminal. The answer takes about 20 seconds.

       coreason chat --url http://127.0.0.1:8000 "Plan a journey."

3. Kill the agent in a third terminal, while it writes, with the number that it has logged.

       kill -9 NUMBER

4. Start it again as in step 1, within 30 seconds. The second terminal shows the rest of the answer.

The cities are chosen at random, and still the answer goes on with the same ones: `choose` is a
step, so its result is in the log, and it is not called again. The restarted agent writes the same
text from the start; packets that are in the log already are skipped.
"""

import argparse
import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable

from coreason_client.server import (
    AgentApp,
    AgentStream,
    ServiceRequest,
    SQLiteStreamLog,
    serve,
    step,
)

logger = logging.getLogger("durable_agent")

CITIES = ("Bergen", "Kyoto", "Lima", "Nairobi", "Porto", "Quebec", "Riga", "Seoul")


@step
async def choose(count: int) -> list[str]:
    """Return some cities. A real agent would ask a model, or search."""
    chosen = random.sample(CITIES, count)
    logger.info("chose %s", ", ".join(chosen))
    return chosen


def make_agent(pause: float) -> Callable[[ServiceRequest, AgentStream], Awaitable[None]]:
    """Return an agent that pauses after each word."""

    async def journey(request: ServiceRequest, stream: AgentStream) -> None:
        logger.info("run %d of the agent", stream.attempt)
        cities = await choose(4)
        await stream.write(f"From {cities[0]} to {cities[-1]}.\n")
        for day, city in enumerate(cities, 1):
            for word in f"On day {day} we walk through {city} and look at everything.".split():
                await stream.write(f"{word} ")
                await asyncio.sleep(pause)
            await stream.write("\n")

    return journey


def main() -> None:
    """Serve the agent until a signal."""
    parser = argparse.ArgumentParser(description="Serve a durable agent.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log", default="journey.db", help="the file of the log")
    parser.add_argument("--pause", type=float, default=0.4, help="seconds after each word")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    logger.info("process %d, http://127.0.0.1:%d", os.getpid(), options.port)
    log = SQLiteStreamLog(options.log)
    serve(AgentApp(make_agent(options.pause), log=log, durable=True), port=options.port)


if __name__ == "__main__":
    main()
