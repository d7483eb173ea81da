"""The parts of the soak's pressure that need no fleet: rows, bodies, settings and roles."""

import logging
from pathlib import Path
from uuid import uuid4

import pytest

from coreason_client._valkey_address import parse_address
from coreason_client.server import AgentApp
from coreason_client.server.log.remote._command_queue import PatienceExceeded
from coreason_client.server.log.valkey._errors import reply_error, unreachable
from coreason_manifest.definitions.service import ServiceRequest

from ..server.aio import aio
from ..server.faulty_log import Faulty, runtime_of, silent
from ..soak.attacks import MOST_BYTES, large_body
from ..soak.content import Order
from ..soak.options import ReplicaOptions
from ..soak.pressure import count_blaming, pressed_fleet
from ..soak.tally import MOST_SILENCE, Notes, Reading, bounded, count, some


def test_a_time_above_its_bound_is_wrong_and_the_name_states_the_bound() -> None:
    assert bounded("silence", 2.0, 2.0).right
    late = bounded("silence", 2.1, 2.0)
    assert (late.name, late.value, late.right) == ("silence (at most 2 s)", "2.1 s", False)


def test_a_row_that_must_not_be_zero_is_wrong_at_zero() -> None:
    assert [some("refusals", number).right for number in (0, 1)] == [False, True]


def test_a_reader_that_waits_too_long_makes_the_table_wrong() -> None:
    reading = Reading.of(Order("s", 5, 0.0))
    reading.begin(0.0)
    reading.progress(MOST_SILENCE + 1)
    wrong = [row.name for row in count([reading], Notes(), {}) if row.right is False]
    assert f"longest silence (at most {MOST_SILENCE:g} s)" in wrong


@pytest.mark.parametrize("messages", [None, 2_000])
def test_a_large_body_is_valid_and_fills_the_limit(messages: int | None) -> None:
    request_id = uuid4()
    body = large_body(request_id, messages)
    assert MOST_BYTES - 3_000 < len(body) <= MOST_BYTES
    request = ServiceRequest.model_validate_json(body)
    assert request.request_id == request_id
    number = len(request.payload.messages or [])
    assert number == messages if messages else number > 75_000


def test_an_order_survives_its_message() -> None:
    order = Order.lasting("name", 200, 8.0, block=1.5)
    (message,) = order.request().payload.messages or []
    assert Order.parse(message.text) == order


def test_the_settings_of_a_replica_survive_its_command_line() -> None:
    options = ReplicaOptions(
        url="valkey://127.0.0.1:1", prefix="p", lease=4.0, api_keys={"k": "n"}, descriptors=256
    )
    assert ReplicaOptions.parse(options.dump()) == options


def test_the_roles_follow_from_the_seed(tmp_path: Path) -> None:
    def roles(seed: int) -> tuple[int, int, int]:
        _, roles = pressed_fleet(tmp_path, "valkey://127.0.0.1:1", seed)
        return roles.crowded.number, roles.starved.number, roles.blocked.number

    drawn = [roles(seed) for seed in range(10)]
    assert drawn == [roles(seed) for seed in range(10)]
    assert len(set(drawn)) > 1
    assert all(len(set(numbers)) == 3 for numbers in drawn)


@pytest.mark.parametrize(("error", "blames"), [(None, 1), (reply_error("LOADING the dataset"), 0)])
@aio
async def test_a_log_line_about_a_silent_store_is_counted(
    caplog: pytest.LogCaptureFixture, error: Exception | None, blames: int
) -> None:
    exceeded = PatienceExceeded(sent=True, blocked=0.0, error=error)
    log = Faulty()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        log.fail("claim_lost", error=unreachable(parse_address("valkey://host"), 1.5, exceeded))
        with caplog.at_level(logging.WARNING, "coreason_client.server"):
            await runtime_of(app).upkeep.once()
        log.repair()
    assert "failed and will be retried: the store valkey://host" in caplog.text
    assert count_blaming(caplog.text) == blames
