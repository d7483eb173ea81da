"""A task read from the log, up to a position and further."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import MemoryStreamLog
from coreason_client.server.a2a._reading import EventPosition, parse_position
from coreason_client.server.a2a._turns import turns_of

from ..aio import aio
from .serving import ANN, in_state, message, served, written_anew


@given(st.integers(1, 10**8), st.integers(0, 10**8), st.integers(1, 2**53))
def test_a_position_is_read_as_it_was_written(turn: int, seq: int, epoch: int) -> None:
    for position in (EventPosition(turn, seq), EventPosition(turn, seq, epoch)):
        assert parse_position(str(position)) == position
    assert str(EventPosition(turn, seq)) == f"{turn}:{seq}"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "1",
        ":",
        "1:",
        ":1",
        "0:1",
        "-1:2",
        "1:2:0",
        "1:2:3:4",
        "1:x",
        "¹:2",
        "1" * 30 + ":1",
    ],
)
def test_other_text_is_no_position(text: str | None) -> None:
    assert parse_position(text) is None


@aio
async def test_a_reading_skips_to_any_position() -> None:
    async with served() as app:
        task_id = (await app.service.send(ANN, message("ask")))["task"]["id"]
        await app.service.send(ANN, message("many", "n", taskId=task_id))
        await in_state(app.service, task_id, "COMPLETED")
        record = await app.service.states.load(ANN, {"id": task_id})
        assert len(turns_of(record)) == 2
        for position in (
            EventPosition(1, 0),
            EventPosition(1, 2),
            EventPosition(2, 0),
            EventPosition(2, 7),
        ):
            reading = app.service.states.reading(record)
            assert await reading.skip_to(position)
            assert reading.position == position
            await reading.catch_up()
            assert reading.at_end
            assert reading.fold.state == "TASK_STATE_COMPLETED"
            reading.close()
        reading = app.service.states.reading(record)
        assert not await reading.skip_to(EventPosition(2, 99))
        reading.close()


@aio
async def test_packets_without_an_event_are_not_taken_for_the_end() -> None:
    async with served() as app:
        task_id = (await app.service.send(ANN, message("silent")))["task"]["id"]
        record = await app.service.states.load(ANN, {"id": task_id})
        reading = app.service.states.reading(record)
        await reading.catch_up()
        assert reading.at_end
        assert reading.fold.task()["artifacts"][0]["parts"] == [{"text": "Here."}]
        reading.close()


@aio
async def test_a_subscription_begins_again_when_the_store_has_lost_what_it_has_read() -> None:
    log = MemoryStreamLog()
    async with served(log, drain_timeout=0.0) as app:
        now = {"configuration": {"returnImmediately": True}}
        task_id = (await app.service.send(ANN, {**message("wait"), **now}))["task"]["id"]
        stream = await app.service.subscribe(ANN, {"id": task_id})
        events = await stream.next(0)
        while "artifactUpdate" not in events[-1].event and stream.position < 1:
            events = await stream.next(1.0)
        epoch = await written_anew(log, UUID(task_id), 0, "Other ", "text.")
        [again] = await stream.next(1.0)
        assert again.event["task"]["artifacts"][0]["parts"] == [{"text": "Other text."}]
        assert str(again.position) == f"1:2:{epoch}"
        stream.close()
        old, new = "1:1", f"1:1:{epoch}"  # the same number, another packet
        for position, text in ((old, "Other text."), (new, "Other "), ("1:2", "Other text.")):
            stream = await app.service.subscribe(ANN, {"id": task_id}, position)
            [first] = await stream.next(0)
            assert first.event["task"]["artifacts"][0]["parts"] == [{"text": text}]
            stream.close()
