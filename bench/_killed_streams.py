"""The packets of streams whose process is killed, on Postgres: how many are missing or duplicated.

As a program: a durable agent that writes numbers. Argument: the URL of the database.
"""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from uuid import UUID

import asyncpg  # type: ignore[import-untyped]

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.log.postgres import PostgresStreamLog
from coreason_manifest.definitions.service import ServiceRequest

from ._child import answer, child
from ._counting_reader import CountingReader, assist_request

__all__ = ["after_kill_of_dbos", "after_kill_of_ours"]

_PACKETS = 2_000
_PACKETS_PER_STEP = 100
_PAUSE = 0.001
_LEASE = 2.0
_LONGEST_WAIT = 60.0
_DATA = re.compile(rb"^data: (.*)$", re.MULTILINE)
_NUMBER = re.compile(r"number (\d+)")


async def _search(number: int) -> int:
    return number


async def _agent(_: ServiceRequest, stream: AgentStream) -> None:
    for number in range(_PACKETS):
        if number % _PACKETS_PER_STEP == 0:
            await stream.step("search", _search, number)
        await stream.write(f"number {number}")
        await asyncio.sleep(_PAUSE)


def after_kill_of_ours(url: str) -> tuple[int, int]:
    """Kill a server in the middle of a stream; return what a reader misses and has twice."""
    with child("_killed_streams", url) as server:
        reader = CountingReader(server.port, assist_request("How are you?", 0))
        reader.ask()
        _wait_until(lambda: _received(reader) >= _PACKETS // 2)
        os.kill(server.pid, signal.SIGKILL)
    with child("_killed_streams", url):
        return _judge(asyncio.run(_read_numbers(url)), _PACKETS)


def after_kill_of_dbos(url: str) -> tuple[int, int]:
    """Kill a process in the middle of a workflow; return what its stream misses and has twice."""
    from ._dbos_stream import KILLED

    def written() -> list[str]:
        return [str(value) for (value,) in _rows(url, "SELECT value FROM dbos.streams")]

    with child("_dbos_stream", url) as process:
        _wait_until(lambda: len(written()) >= KILLED // 2)
        os.kill(process.pid, signal.SIGKILL)
    ended = "SELECT status FROM dbos.workflow_status WHERE status = 'SUCCESS'"
    with child("_dbos_stream", url):
        _wait_until(lambda: bool(_rows(url, ended)))
    values = written()
    return KILLED - len(set(values)), len(values) - len(set(values))


def _judge(numbers: list[int], count: int) -> tuple[int, int]:
    return count - len(set(numbers)), len(numbers) - len(set(numbers))


def _received(reader: CountingReader) -> int:
    try:
        reader.read()
    except BlockingIOError:
        time.sleep(0.005)
    return reader.count


def _wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    while not is_done():
        if time.monotonic() > deadline:
            raise AssertionError("the stream did not go on")


def _rows(url: str, statement: str) -> list[tuple[object, ...]]:
    async def fetch() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


async def _read_numbers(url: str) -> list[int]:
    """Return the numbers of the only stream, which another process writes to its end."""
    connection = await asyncpg.connect(url)
    stream_id: UUID = await connection.fetchval("SELECT stream_id FROM coreason.streams")
    await connection.close()
    log = PostgresStreamLog(url)
    await log.start("reader")
    try:
        data: list[bytes] = []
        epoch = 1
        async with asyncio.timeout(_LONGEST_WAIT):
            while True:
                page = await log.read(stream_id, len(data), 1_000, 1.0, after_epoch=epoch)
                data += page.entries
                epoch = page.epoch
                if page.ended:
                    break
    finally:
        await log.stop("reader")
    texts = (json.loads(found)["p"] for entry in data for found in _DATA.findall(entry))
    matches = (_NUMBER.fullmatch(text) for text in texts if isinstance(text, str))
    return [int(match[1]) for match in matches if match is not None]


def _main(url: str) -> None:
    log = PostgresStreamLog(url, lease=_LEASE)
    with running(AgentApp(_agent, log=log, durable=True), access_log=False) as server:
        answer(server.port)


if __name__ == "__main__":
    _main(*sys.argv[1:])
