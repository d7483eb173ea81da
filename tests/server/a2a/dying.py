"""A process that serves tasks and is killed at a given point.

Arguments: the kind of log, where it is, a file for the questions that the agent was called with,
the point, and the text of each message that is sent to one task.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from coreason_client.server import AgentStream, ServiceRequest
from coreason_client.server.a2a._protocol import TERMINAL
from coreason_client.server.log import PostgresStreamLog, SQLiteStreamLog, ValkeyStreamLog

from ..log.task_stores import TaskKeeper
from . import serving

LEASE = 1.0


def log_of(kind: str, where: str) -> TaskKeeper:
    if kind == "sqlite":
        return SQLiteStreamLog(where, lease=LEASE)
    url, _, prefix = where.partition(" ")
    if kind == "postgres":
        return PostgresStreamLog(url, schema=prefix, lease=LEASE)
    return ValkeyStreamLog(url, prefix=prefix, lease=LEASE, cluster=kind == "valkey_cluster")


def counting(runs: Path) -> Any:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        with runs.open("a") as file:
            file.write(f"{stream.question}\n")
        await serving.agent(request, stream)

    return agent


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not killed")


def dying(method: Any, when: Callable[..., bool]) -> Any:
    async def call(*args: Any) -> Any:
        if when(*args):
            die()
        return await method(*args)

    return call


def set_trap(log: TaskKeeper, point: str) -> None:
    """Let this process die at a point."""
    tasks: Any = log.tasks
    match point:
        case "opened":  # and the agent not started
            tasks.start = dying(tasks.start, lambda *_: True)
        case "opened again":
            starts = iter((False, True))
            tasks.start = dying(tasks.start, lambda *_: next(starts))
        case "before the turn is named":
            tasks.update = dying(tasks.update, lambda change: True)
        case "before the state is stored":
            tasks.update = dying(tasks.update, lambda change: change.new.state in TERMINAL)


async def main(kind: str, where: str, runs: str, point: str, *texts: str) -> None:
    log = log_of(kind, where)
    set_trap(log, point)
    ids: dict[str, str] = {}
    async with serving.served(log, counting(Path(runs))) as app:
        for number, text in enumerate(texts):
            body = serving.message(text, f"m{number}", **ids)
            if number + 1 < len(texts) or point == "ended":
                task = (await app.service.send(serving.ANN, body))["task"]
                ids = {"taskId": task["id"]}
                print(task["id"], flush=True)
            else:
                await app.service.send(serving.ANN, body)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
