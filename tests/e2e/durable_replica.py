"""A process that serves durable agents and stops in the middle of a question's first run.

The question is the name of an agent. With the word `undisturbed` after it, the first run does not
stop. Arguments: port, options as JSON, file of notes.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from coreason_client.server import (
    AgentApp,
    AgentStream,
    DurableLog,
    LogError,
    SQLiteStreamLog,
    StreamEnded,
    ValkeyStreamLog,
    serve,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..soak.options import ReplicaOptions
from ..soak.replica import leave_with_parent

PROGRAM = "tests.e2e.durable_replica"
WORDS = 10
HELD_AT = 4  # the word after which the first run stops
SLOW_WORDS = 6 * WORDS
FROZEN = 0.5  # seconds: an event loop that did not run for so long was frozen
UNDISTURBED = "undisturbed"

Hold = Callable[[int], Awaitable[None]]


class Agents:
    """Durable agents by their names."""

    def __init__(self, log: DurableLog, notes: Path) -> None:
        self._log = log
        self._notes = notes
        self._late: asyncio.Task[None] | None = None

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        name, _, manner = stream.question.partition(" ")

        async def hold(number: int) -> None:
            if number == HELD_AT and stream.attempt == 1 and manner != UNDISTURBED:
                await asyncio.Event().wait()

        await getattr(self, name)(stream, hold)

    def _note(self, *words: object) -> None:
        with self._notes.open("a") as file:
            file.write(f"{' '.join(map(str, words))}\n")

    async def body(self, stream: AgentStream, hold: Hold) -> None:
        """Writes outside steps."""
        await _write_words(stream, hold, "A")

    async def table(self, stream: AgentStream, hold: Hold) -> None:
        """Two steps that write the same text in every run."""

        async def write(letter: str) -> int:
            self._note("called", stream.stream_id, letter)
            await _write_words(stream, hold if letter == "B" else _go_on, letter)
            return WORDS

        count = await stream.step("first", write, "A")
        count += await stream.step("second", write, "B")
        await stream.progress(f"{count} words")

    async def resume(self, stream: AgentStream, hold: Hold) -> None:
        """A step that continues after its packets."""

        async def write() -> str:
            resumed = stream.resumed
            first = 0 if resumed is None else resumed.checkpoint + 1
            self._note("called", stream.stream_id, first)
            for number in range(first, WORDS):
                await stream.write(f"A{number} ", checkpoint=number)
                await hold(number)
            return "done"

        await stream.write(await stream.step("write", write, on_restart="resume"))

    async def fail(self, stream: AgentStream, hold: Hold) -> None:
        """A step that must not run twice."""

        async def pay() -> None:
            self._note("called", stream.stream_id, "pay")
            await _write_words(stream, hold, "A")

        await stream.step("pay", pay, on_restart="fail")

    async def differ(self, stream: AgentStream, hold: Hold) -> None:
        """A step whose text differs from its third word on in every run."""

        async def write() -> int:
            for number in range(WORDS):
                run = stream.attempt if number > 1 else ""
                await stream.write(f"A{number}{'' if not run else f'/{run}'} ")
                await hold(number)
            return stream.attempt

        await stream.write("Words: ")
        await stream.write(f"run {await stream.step('write', write)}")

    async def thaw(self, stream: AgentStream, hold: Hold) -> None:
        """Tries to write more as soon as its process has been frozen and thawed."""
        await _write_words(stream, _go_on, "A", HELD_AT + 1)
        if stream.attempt == 1:
            await self._write_late(stream)
        await _write_words(stream, _go_on, "A", WORDS, HELD_AT + 1)

    async def _write_late(self, stream: AgentStream) -> None:
        before = time.monotonic()
        while time.monotonic() - before < FROZEN:
            before = time.monotonic()
            await asyncio.sleep(0.01)
        await self._try(stream, stream.progress("late"))
        append = self._log.append(stream.stream_id, 1, HELD_AT + 2, [b"late"])
        # In a separate task: the server cancels the agent as soon as it has noticed.
        self._late = asyncio.create_task(self._try(stream, append))
        await asyncio.wait({self._late})

    async def _try(self, stream: AgentStream, write: Coroutine[Any, Any, object]) -> None:
        try:
            await write
        except (LogError, StreamEnded, asyncio.CancelledError) as error:
            self._note("late", stream.stream_id, type(error).__name__)
        else:
            self._note("late", stream.stream_id, "written")

    async def slow(self, stream: AgentStream, hold: Hold) -> None:
        """Writes for about three seconds, in the body and in steps."""

        async def write(first: int) -> int:
            await _write_slowly(stream, first)
            return first + WORDS

        await _write_slowly(stream, 0)
        number = WORDS
        while number < SLOW_WORDS:
            number = await stream.step("write", write, number)

    async def poison(self, stream: AgentStream, hold: Hold) -> None:
        """Kills its process."""
        self._note("poison", stream.stream_id, stream.attempt)
        await stream.progress("dying")
        os._exit(9)


async def _go_on(number: int) -> None:
    pass


async def _write_words(
    stream: AgentStream, hold: Hold, letter: str, end: int = WORDS, start: int = 0
) -> None:
    for number in range(start, end):
        await stream.write(f"{letter}{number} ")
        await hold(number)


async def _write_slowly(stream: AgentStream, first: int) -> None:
    for number in range(first, first + WORDS):
        await stream.write(f"A{number} ")
        await asyncio.sleep(0.05)


def make_log(options: ReplicaOptions) -> DurableLog:
    kind, _, path = options.url.partition(":")
    if kind == "sqlite":
        return SQLiteStreamLog(path)
    return ValkeyStreamLog(options.url, prefix=options.prefix, lease=options.lease)


def main(port: str, options_json: str, notes: str) -> None:
    options = ReplicaOptions.parse(options_json)
    leave_with_parent()
    log = make_log(options)
    app = AgentApp(
        Agents(log, Path(notes)),
        log=log,
        agent_id="durable",
        durable=True,
        max_restarts=options.max_restarts,
        drain_timeout=options.drain_timeout,
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
