"""A task read from the log, up to a position and further."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._reading import Position, parse_position
from coreason_client.server.a2a._turns import turns_of

from ..aio import aio
from .serving import ANN, in_state, message, served


@given(st.integers(1, 10**8), st.integers(0, 10**8))
def test_a_position_is_read_as_it_was_written(turn: int, seq: int) -> None:
    assert parse_position(str(Position(turn, seq))) == Position(turn, seq)


@pytest.mark.parametrize(
    "text", [None, "", "1", ":", "1:", ":1", "0:1", "-1:2", "1:2:3", "1:x", "¹:2", "1" * 30 + ":1"]
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
        for position in (Position(1, 0), Position(1, 2), Position(2, 0), Position(2, 7)):
            reading = app.service.states.reading(record)
            assert await reading.skip_to(position)
            assert reading.position == position
            await reading.catch_up()
            assert reading.at_end
            assert reading.fold.state == "TASK_STATE_COMPLETED"
            reading.close()
        reading = app.service.states.reading(record)
        assert not await reading.skip_to(Position(2, 99))
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
