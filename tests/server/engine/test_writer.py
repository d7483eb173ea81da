"""The writer of a stream: what the server can do with it, and that an agent cannot."""

from uuid import uuid4

import pytest

from coreason_client.server import AgentStream, MemoryStreamLog, SyncAgentStream
from coreason_client.server.engine._writer import StreamWriter
from coreason_client.server.errors import Fenced, StreamEnded
from coreason_client.server.log import NewStream
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio
from ..peer import envelope

FOR_AGENTS = {
    "answered_question",
    "approve",
    "has_inbox",
    "inbox",
    "principal",
    "artifact",
    "ask",
    "attempt",
    "cancelled",
    "durable",
    "checkpoint",
    "cite",
    "ended",
    "fail",
    "history",
    "markdown",
    "media",
    "message",
    "now",
    "progress",
    "question",
    "reject",
    "request",
    "resumed",
    "start_over",
    "step",
    "step_key",
    "stream_id",
    "thought",
    "tool_call",
    "tool_result",
    "usage",
    "uuid",
    "warn",
    "write",
    "write_packet",
}


@pytest.mark.parametrize("kind", [AgentStream, SyncAgentStream])
def test_an_agent_gets_nothing_that_is_for_the_server(kind: type) -> None:
    assert {name for name in dir(kind) if not name.startswith("_")} == FOR_AGENTS


async def begin() -> tuple[MemoryStreamLog, StreamWriter]:
    log, request = MemoryStreamLog(), ServiceRequest.model_validate(envelope())
    opened = await log.open(NewStream(uuid4(), "p", request.request_id, "f"), "me")
    return log, StreamWriter(request, opened.meta, log)


@aio
async def test_a_completed_stream_has_its_outcome_and_takes_no_more() -> None:
    log, writer = await begin()
    await writer.write("a")
    assert (writer.packets, writer.ending.ended, writer.ending.outcome) == (1, False, None)
    await writer.complete()
    assert (writer.packets, writer.ending.ended, writer.ending.outcome) == (2, True, "complete")
    assert (await log.meta(writer.stream_id)).outcome == "complete"
    with pytest.raises(StreamEnded):
        await writer.write("b")
    error = StreamError(code="too_late", message="m", severity=ErrorSeverity.FATAL)
    await writer.end_with(error)  # it waits for the end that there is
    assert writer.packets == 2


@aio
async def test_a_stream_that_was_given_up_is_neither_written_nor_ended() -> None:
    log, writer = await begin()
    await writer.write("a")
    writer.give_up()
    with pytest.raises(Fenced):
        await writer.write("b")
    with pytest.raises(Fenced):
        await writer.complete()
    assert writer.ending.ended
    assert writer.ending.outcome is None
    meta = await log.meta(writer.stream_id)
    assert (meta.last_seq, meta.outcome) == (1, None)
