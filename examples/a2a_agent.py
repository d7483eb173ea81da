"""An agent for any A2A client: it asks back, reports its progress, and sends a file.

1. Start the agent.

       python examples/a2a_agent.py

2. Talk to it in a second terminal. It asks for the number of days; answer with a number.

       coreason a2a chat http://127.0.0.1:8000 --save out

The plan is text, and the folder `out` has it as a file for a calendar. Kill the agent with
`kill -9` after its question, start it again and answer: the question is in the log, so the task
goes on. Every other A2A client can do the same, with protocol 1.0 or 0.3.
"""

import argparse
import logging

from coreason_client.a2a import AgentCard, AgentSkill
from coreason_client.server import (
    AgentApp,
    AgentStream,
    File,
    ServiceRequest,
    SQLiteStreamLog,
    serve,
)

logger = logging.getLogger("a2a_agent")

CARD = AgentCard(
    name="Trip planner",
    description="Plans trips of a few days.",
    version="1.0.0",
    skills=[
        AgentSkill(
            id="plan",
            name="Plan a trip",
            description="Asks how long the trip is, and sends a plan and a calendar.",
            tags=["travel"],
            examples=["Plan a trip to Kyoto."],
        )
    ],
)
LONGEST = 14  # days


async def plan_trip(request: ServiceRequest, stream: AgentStream) -> None:
    """Plan a trip: the first message names it, the answer to the question has the days."""
    answer = stream.question.strip()
    if not answer.isdecimal():
        await stream.ask("How many days?")
        return
    days = int(answer)
    if not 1 <= days <= LONGEST:
        await stream.reject(f"A trip has 1 to {LONGEST} days.")
        return
    lines = ["day,plan"]
    for day in range(1, days + 1):
        await stream.progress(f"Planning day {day}", 100 * day / days)
        await stream.write(f"Day {day}: walk and look at everything.\n")
        lines.append(f"{day},walk")
    await stream.artifact("calendar", File("\n".join(lines).encode(), "calendar.csv"))


def main() -> None:
    """Serve the agent until a signal."""
    parser = argparse.ArgumentParser(description="Serve an agent over A2A.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log", default="trips.db", help="the file of the log")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    logger.info("card: http://127.0.0.1:%d/.well-known/agent-card.json", options.port)
    serve(AgentApp(plan_trip, log=SQLiteStreamLog(options.log), a2a=CARD), port=options.port)


if __name__ == "__main__":
    main()
