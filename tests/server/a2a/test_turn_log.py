"""The log on which some streams are turns of tasks."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server import AgentStream, LogUnavailable, MemoryStreamLog, ServiceRequest
from coreason_client.server.a2a._fold import TaskFold
from coreason_client.server.a2a._turn_log import TurnLog
from coreason_client.server.a2a._turn_starter import Sent
from coreason_client.server.a2a._turns import TurnQuestion
from coreason_client.server.engine._packets import CANCELLED, Frames
from coreason_client.server.errors import Fenced
from coreason_client.server.log import Conversation, DurableLog, NewStream
from coreason_client.server.log.base import Claim
from coreason_manifest.definitions.presentation import StreamOpCode

from ..aio import aio
from .serving import ANN, in_state, message, served

SESSION = Conversation("one", "c")
NOW = {"configuration": {"returnImmediately": True}}


def question(started: bool = False) -> bytes:
    return TurnQuestion(uuid4(), "agent", started).dump(b'{"principal":"one"}')


async def opened(log: MemoryStreamLog, asked: bytes) -> UUID:
    """Open a stream whose lease has run out."""
    lease, log.lease = log.lease, -1.0
    stream_id = uuid4()
    await log.open(NewStream(stream_id, "one", uuid4(), "print", asked), "dead")
    log.lease = lease
    return stream_id


@aio
async def test_it_is_the_log_itself_for_other_streams() -> None:
    log = MemoryStreamLog()
    turns = TurnLog(log).as_log
    assert isinstance(turns, DurableLog)
    assert (turns.shared, turns.lease) == (log.shared, log.lease)
    new = NewStream(uuid4(), "one", uuid4(), "print")
    await turns.open(new, "me")
    await turns.add_turn(SESSION, new.stream_id, b"turn")
    await turns.close(new.stream_id, 1, 1, [b"end"], "complete")
    assert (await log.meta(new.stream_id)).outcome == "complete"
    assert list(await log.turns(SESSION, 10)) == [b"turn"]


@aio
async def test_what_can_be_started_is_not_returned_as_lost() -> None:
    log = MemoryStreamLog()
    turns = TurnLog(log)
    begun: list[UUID] = []

    async def begin(claim: Claim) -> bool:
        if claim.question == question_of_new:
            begun.append(claim.stream_id)
            return True
        return False

    question_of_new = question()
    turns.begin_claimed = begin
    new = [await opened(log, question_of_new) for _ in range(3)]
    lost = [await opened(log, asked) for asked in (question(started=True), b"", b"other")]
    claims = await turns.claim_lost("me", 2)  # the first ones are begun, and it looks further
    claims = [*claims, *await turns.claim_lost("me", 10)]
    assert sorted(begun) == sorted(new)
    assert sorted(claim.stream_id for claim in claims) == sorted(lost)
    assert list(turns._turns) == [lost[0]]  # its end will store the state of its task


@aio
async def test_a_turn_of_a_task_that_is_gone_ends_like_any_other_stream() -> None:
    log = MemoryStreamLog()
    async with served(log) as app:
        stream_id = await opened(log, question(started=True))
        [claim] = await app.runtime.log.claim_lost("me", 10)
        await app.runtime.log.add_turn(SESSION, stream_id, b"turn", claim.epoch)
        assert not await log.turns(SESSION, 10)  # it is stored with the end
        with pytest.raises(Fenced):
            await app.runtime.log.close(stream_id, 1, 1, [b"end"], "complete")
        await app.runtime.log.close(stream_id, claim.epoch, 1, [b"end"], "complete")
        assert (await log.meta(stream_id)).outcome == "complete"


@aio
async def test_the_end_of_a_turn_waits_for_nothing_and_leaves_nothing_behind() -> None:
    log = MemoryStreamLog()
    async with served(log) as app:
        assert isinstance(app.runtime.log, TurnLog)
        sent = await app.service.send(ANN, message("hello"))
        [stored] = [await log.tasks.get(UUID(sent["task"]["id"]))]
        assert stored is not None
        assert stored.state == "TASK_STATE_COMPLETED"
        assert not app.runtime.log._turns


@aio
async def test_a_call_whose_turn_is_taken_by_another_process_waits_for_that_one() -> None:
    """This process does not store the end, so the call reads the turn from the log."""
    log = MemoryStreamLog()
    begun = asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        begun.set()
        await asyncio.sleep(0.05)  # until the stream was claimed
        await stream.write("of the first process")

    async with served(log, agent) as app:
        call = asyncio.create_task(app.service.send(ANN, message("hello")))
        await begun.wait()
        assert isinstance(app.runtime.log, TurnLog)
        [(stream_id, turn)] = app.runtime.log._turns.items()
        claim = await log.claim_held(stream_id, 1, "other")
        await asyncio.wait({call}, timeout=0.3)
        assert not call.done()
        assert turn.ended is not None
        assert turn.ended.result() is None
        frames = Frames(stream_id, epoch=claim.epoch, first_seq=1)
        entry, _ = frames.packet(1, StreamOpCode.ERROR, CANCELLED)
        await log.close(stream_id, claim.epoch, 1, [entry], CANCELLED.code)
        async with asyncio.timeout(20):
            answer = await call
    assert answer["task"]["status"]["state"] == "TASK_STATE_CANCELED"


@aio
async def test_a_call_is_told_the_end_once_and_without_reading_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(MemoryStreamLog()) as app:
        monkeypatch.setattr(app.service, "_read_turn", None)
        answer = await app.service.send(ANN, message("hello"))
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answer["task"]["artifacts"]


@aio
async def test_a_call_on_a_shared_log_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers may have to wait for replicas."""
    log = MemoryStreamLog()
    async with served(log) as app:
        read: list[Sent] = []
        read_turn = app.service._read_turn

        async def note(sent: Sent) -> TaskFold:
            read.append(sent)
            return await read_turn(sent)

        monkeypatch.setattr(app.service, "_read_turn", note)
        monkeypatch.setattr(log, "shared", True)
        answer = await app.service.send(ANN, message("hello"))
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(read) == 1


@pytest.mark.parametrize("point", ["begin", "start"])
@aio
async def test_a_client_that_leaves_does_not_interrupt_the_beginning(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryStreamLog()
    async with served(log) as app:
        reached, go_on = asyncio.Event(), asyncio.Event()
        method = getattr(log.tasks, point)

        async def slow(*args: Any) -> Any:
            done = await method(*args)
            reached.set()
            await go_on.wait()
            return done

        monkeypatch.setattr(log.tasks, point, slow)
        call = asyncio.create_task(app.service.send(ANN, {**message("hello"), **NOW}))
        await reached.wait()
        call.cancel()
        await asyncio.wait({call})
        go_on.set()
        [task] = (await app.service.list(ANN, {}))["tasks"]
        await in_state(app.service, task["id"], "COMPLETED")


@aio
async def test_a_turn_begins_although_the_log_did_not_answer_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has recorded that the agent starts, so nobody else would start it."""
    log = MemoryStreamLog()
    async with served(log) as app:
        start, lost = log.tasks.start, list[UUID]()

        async def lose(stream_id: UUID, epoch: int, question: bytes) -> None:
            await start(stream_id, epoch, question)
            if not lost:
                lost.append(stream_id)
                raise LogUnavailable("not now")

        monkeypatch.setattr(log.tasks, "start", lose)
        answer = await app.service.send(ANN, message("hello"))
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert lost


@aio
async def test_a_turn_that_another_process_has_taken_is_not_started() -> None:
    log = MemoryStreamLog()
    async with served(log) as app:
        start = log.tasks.start

        async def late(stream_id: UUID, epoch: int, question: bytes) -> None:
            await log.claim_held(stream_id, epoch, "other")  # its lease had run out
            await start(stream_id, epoch, question)

        log.tasks.start = late  # type: ignore[method-assign]
        sent = await app.service.send(ANN, {**message("hello"), **NOW})
        assert sent["task"]["status"]["state"] == "TASK_STATE_WORKING"
        assert not len(app.runtime.producers)
