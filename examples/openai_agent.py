r"""An agent as a model for every OpenAI client; its answer goes on after `kill -9`.

1. Start the agent. It logs the number of its process.

       python examples/openai_agent.py

2. Ask it in a second terminal. The answer takes about 20 seconds. Chat programs such as Open WebUI
   and the package openai ask it too: the base URL is http://127.0.0.1:8000/v1.

       curl -N http://127.0.0.1:8000/v1/responses -H "Content-Type: application/json" \
         -d '{"model": "trips", "input": "Plan a trip to Kyoto.", "stream": true}'

3. Kill the agent while it writes, and start it again as in step 1.

       kill -9 NUMBER

4. Read the rest: the events have the id of the response, and a `sequence_number`.

       curl -N "http://127.0.0.1:8000/v1/responses/ID?stream=true&starting_after=NUMBER"

The number of days is not in the question, so the agent looks it up and reports the call of a tool,
which is an item of type `mcp_call` for clients. It is a step too: after the kill the number is not
looked up again.
"""

import argparse
import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from coreason_client.server import (
    AgentApp,
    AgentStream,
    OpenAIAPI,
    ServiceRequest,
    SQLiteStreamLog,
    serve,
    step,
)

logger = logging.getLogger("openai_agent")


@step
async def look_up_days(place: str) -> int:
    """Return how many days to stay. A real agent would ask a model, or search."""
    logger.info("looked up %s", place)
    return 3 + len(place) % 3


def make_agent(pause: float) -> Callable[[ServiceRequest, AgentStream], Awaitable[None]]:
    """Return an agent that pauses after each word."""

    async def trips(request: ServiceRequest, stream: AgentStream) -> None:
        history = await stream.history()
        place = stream.question.rstrip(".?!").split()[-1]
        await stream.thought(f"I look up how many days to stay in {place}.")
        call_id = await stream.tool_call("look_up_days", {"place": place})
        days = await look_up_days(place)
        await stream.tool_result(call_id, days)
        await stream.cite(f"https://trips.example/{place}", title=f"A guide to {place}")
        if history:
            await stream.write("After that: ")
        await stream.write(f"{days} days in {place}.\n\n")
        for day in range(1, days + 1):
            for word in f"* **Day {day}:** walk and look at everything.".split():
                await stream.write(f"{word} ")
                await asyncio.sleep(pause)
            await stream.write("\n")

    return trips


def main() -> None:
    """Serve the agent until a signal."""
    parser = argparse.ArgumentParser(description="Serve an agent over the OpenAI-compatible API.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log", default="trips-openai.db", help="the file of the log")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds after each word")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    logger.info("process %d, base URL http://127.0.0.1:%d/v1", os.getpid(), options.port)
    app = AgentApp(
        make_agent(options.pause),
        agent_id="trips",
        log=SQLiteStreamLog(options.log),
        durable=True,
        openai=OpenAIAPI(tools="ignore"),  # chat programs send tools, which this agent cannot call
    )
    serve(app, port=options.port)


if __name__ == "__main__":
    main()
