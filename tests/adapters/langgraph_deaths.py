"""A durable graph whose process dies at each append of its log, one after the other.

    python -m tests.adapters.langgraph_deaths NAME QUESTIONS FOLDER QUESTIONS…

The processes die in the last of the questions, which have a `|` between them. It prints for all
such questions, and for each death, what differs from the run without one.
"""

# mypy: disable-error-code="import-not-found, misc"

import asyncio
import json
import logging
import sys
from collections import Counter
from itertools import groupby
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from coreason_client.adapters.langgraph import as_agent
from tests.agents.durable import CountingLog, request, rewinds, run, shown
from tests.server.durable.simulated import Answer

from .langgraph_graphs import FOLDER, GRAPHS


class Surviving(InMemorySaver):
    """A checkpointer that survives, because only the log knows that a process dies."""


def packets(answer: Answer) -> list[Any]:
    """Return the valid packets; text in a row counts as one."""
    found: list[Any] = []
    for op, group in groupby(shown(answer), lambda packet: packet[0]):
        contents = [content for _, content in group]
        found += ["".join(contents)] if op == "DELTA" else contents
    return found


def noted() -> Counter[str]:
    path = FOLDER / "notes"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return Counter(found)


async def turns(
    name: str, questions: list[str], death: tuple[int, bool] | None
) -> tuple[Answer, int, Counter[str]]:
    """Return the last answer, the number of its appends, and what was noted meanwhile."""
    make, options = GRAPHS[name]
    agent = as_agent(make()(checkpointer=Surviving()), **options)
    log = CountingLog()
    for question in questions[:-1]:
        await run(agent, request(question, rewinds=True), [], log)
    noted()
    log.appends = 0
    if death is not None:
        log._deaths, log._until_death = [death], death[0]
    answer = await run(agent, request(questions[-1], rewinds=True), [], log)
    return answer, log.appends, noted()


async def every_death(name: str, questions: list[str]) -> dict[str, Any]:
    expected, appends, done = await turns(name, questions, None)
    deaths = {}
    for at in range(appends):
        for stored in (False, True):
            answer, _, notes = await turns(name, questions, (at, stored))
            deaths[f"{at} {'after' if stored else 'before'}"] = {
                "equal": packets(answer) == packets(expected),
                "restarts": answer.restarts,
                "rewinds": rewinds(answer),
                "again": sorted((notes - done).elements()),
                "not": sorted((done - notes).elements()),
            }
    return deaths


async def main(name: str, conversations: list[str]) -> dict[str, Any]:
    return {text: await every_death(name, text.split("|")) for text in conversations}


if __name__ == "__main__":
    logging.disable()
    print(json.dumps(asyncio.run(main(sys.argv[1], [sys.argv[2], *sys.argv[4:]]))))
