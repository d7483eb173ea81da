"""What a reader gets from the log: slow connections, later epochs, answers that were taken back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from starlette.types import Message

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog
from coreason_client.server.answer._writer import Writer
from coreason_client.server.engine._packets import Frames
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.http._answers import AnswerStream, resumed, write_all
from coreason_client.server.http._problems import Problem
from coreason_client.server.log.base import AgentVersion, NewStream, StreamMeta
from coreason_client.server.openai._chat import ChatWriter
from coreason_client.server.openai._responses import ResponseWriter
from coreason_client.server.openai._routes import _check_no_rewind
from coreason_manifest.definitions.presentation import StreamOpCode

from ..aio import aio
from .asking import MODEL, serving

Packet = tuple[str, Any]
END: Packet = ("CLOSE", {"reason": "complete"})


class Forgetful(MemoryStreamLog):
    """A log whose store may lose what it has acknowledged."""

    may_forget = True


async def _nothing(_: Any, stream: AgentStream) -> None:
    """Answer nothing."""


class Answer:
    """A stream that a test writes, epoch by epoch, and the runtime that reads it."""

    def __init__(self, log: MemoryStreamLog, runtime: Runtime) -> None:
        self.log = log
        self.runtime = runtime
        self.stream_id = uuid4()
        self._epoch = 1
        self._first = 1
        self._seq = 0

    @classmethod
    async def begin(cls, log: MemoryStreamLog) -> "Answer":
        app = AgentApp(_nothing, log=log)
        answer = cls(log, await app._ready())
        await log.open(NewStream(answer.stream_id, "p", uuid4(), "f"), "other")
        return answer

    async def write(self, *packets: Packet) -> None:
        frames = Frames(self.stream_id, epoch=self._epoch, first_seq=self._first)
        entries = []
        for op, p in packets:
            self._seq += 1
            entries.append(frames.packet(self._seq, StreamOpCode(op), p)[0])
        first = self._seq - len(packets) + 1
        if packets[-1][0] == "CLOSE":
            await self.log.close(self.stream_id, self._epoch, first, entries, "complete")
        else:
            await self.log.append(self.stream_id, self._epoch, first, entries)

    async def next_epoch(self) -> None:
        claim = await self.log.claim_held(self.stream_id, self._epoch, "another")
        self._epoch, self._first = claim.epoch, claim.last_seq + 1

    async def meta(self) -> StreamMeta:
        return await self.log.meta(self.stream_id)

    async def resume(self, after: int) -> bytes:
        meta = await self.meta()
        writer = ResponseWriter(meta, "m", 100, after=after)
        response = await resumed(self.runtime, meta, writer, after)
        if response is None:
            raise LookupError(after)
        return await received(response)

    async def stop(self) -> None:
        await self.runtime.stop()


async def received(response: AnswerStream, takes: Sequence[bool] = ()) -> bytes:
    """Return the body; `takes` says which of the direct writes the connection accepts."""
    body, answers = b"", iter(takes)

    async def send(message: Message) -> None:
        nonlocal body
        body += message.get("body", b"")

    def write(chunk: bytes) -> bool:
        nonlocal body
        if not next(answers, False):
            return False
        body += chunk
        return True

    if takes:
        response._write = write
    await response._send_all(send)
    response._close()
    return body


def written(writer: Writer, stream_id: UUID, packets: list[Packet]) -> bytes:
    frames = Frames(stream_id)
    entries = [frames.packet(seq, StreamOpCode(op), p)[0] for seq, (op, p) in enumerate(packets, 1)]
    return writer.start() + writer.feed(entries)


@pytest.mark.parametrize("takes", [[True, False, True], [False, False], [True, True, True]])
@aio
async def test_a_slow_connection_gets_every_chunk_once(takes: list[bool]) -> None:
    answer = await Answer.begin(MemoryStreamLog())
    meta = await answer.meta()
    writer = ChatWriter(meta, "m")
    response = AnswerStream(answer.runtime, meta, writer, pending=writer.start())
    reading = asyncio.create_task(received(response, takes))
    packets: list[Packet] = [("DELTA", "one "), ("DELTA", "two "), ("DELTA", "three "), END]
    for packet in packets:
        for _ in range(10):
            await asyncio.sleep(0)
        await answer.write(packet)
    body = await reading
    assert body == written(ChatWriter(meta, "m"), answer.stream_id, packets)
    await answer.stop()


@aio
async def test_a_resume_crosses_epochs_on_a_log_that_forgets_nothing() -> None:
    answer = await Answer.begin(MemoryStreamLog())
    await answer.write(("DELTA", "one "))
    await answer.next_epoch()
    await answer.write(("DELTA", "two"), END)
    whole = (await answer.resume(-1)).split(b"\n\n")
    for after in range(len(whole) - 1):
        assert (await answer.resume(after)).split(b"\n\n") == whole[after + 1 :]
    with pytest.raises(LookupError):
        await answer.resume(len(whole) - 1)
    await answer.stop()


@aio
async def test_a_number_may_be_that_of_another_packet_after_a_store_has_forgotten_one() -> None:
    answer = await Answer.begin(Forgetful())
    await answer.write(("DELTA", "one "))
    before = ResponseWriter(await answer.meta(), "m", 100)
    events = written(before, answer.stream_id, [("DELTA", "one ")]).count(b"event: ")
    await answer.next_epoch()
    await answer.write(("DELTA", "two"), END)
    for after in range(-1, events):
        assert b'"two"' in await answer.resume(after)
    for after in range(events, events + 4):
        with pytest.raises(LookupError):
            await answer.resume(after)
    await answer.stop()


@aio
async def test_an_answer_that_was_taken_back_is_read_whole_but_not_streamed() -> None:
    answer = await Answer.begin(MemoryStreamLog())
    await answer.write(("DELTA", "one "), ("DELTA", "wrong"))
    await answer.next_epoch()
    await _check_no_rewind(answer.runtime, await answer.meta())  # it may not come to that
    rewind = ("EVENT", {"type": "REWIND", "data": {"to_seq": 1}})
    await answer.write(rewind, ("DELTA", "right"), END)
    meta = await answer.meta()
    with pytest.raises(Problem) as caught:
        await _check_no_rewind(answer.runtime, meta)
    assert (caught.value.status, caught.value.slug) == (409, "rewound")
    body = await answer.resume(-1)
    assert b'"problem":"rewound"' in body
    assert b'"delta":"right"' not in body
    await answer.stop()


@aio
async def test_a_durable_answer_is_whole_without_what_was_taken_back() -> None:
    answer = await Answer.begin(MemoryStreamLog())
    await answer.write(("DELTA", "one "), ("DELTA", "wrong"))
    await answer.next_epoch()
    rewind = ("EVENT", {"type": "REWIND", "data": {"to_seq": 1}})
    await answer.write(rewind, ("DELTA", "right"), END)
    meta = replace(await answer.meta(), agent=AgentVersion("a", "1"))
    made = await write_all(answer.runtime, meta, lambda: ResponseWriter(meta, "m", 100), waits=True)
    [item] = made.response()["output"]
    assert (item["content"][0]["text"], made.response()["status"]) == ("one right", "completed")
    await answer.stop()


@pytest.mark.parametrize(
    ("body", "rewinds"),
    [
        ({"stream": True}, False),
        ({"background": True}, False),
        ({"background": True, "stream": True}, False),
        ({}, True),
    ],
)
def test_only_an_answer_that_nobody_has_seen_may_be_taken_back(
    body: dict[str, bool], rewinds: bool
) -> None:
    seen: list[Any] = []

    async def agent(request: Any, _: AgentStream) -> None:
        seen.extend(request.payload.capabilities.supported_events)

    with serving(agent) as client:
        made: Any = client.responses.create(model=MODEL, input="?", **body)
        for _ in made if body.get("stream") else ():
            pass
        if body.get("background") and not body.get("stream"):
            list(client.responses.retrieve(made.id, stream=True))
    assert ("REWIND" in seen) is rewinds
