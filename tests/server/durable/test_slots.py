"""The order of restarts."""

import pytest

from coreason_client.server.durable._slots import SLOTS, RestartSlots


def test_a_few_streams_are_started_at_a_time() -> None:
    slots: RestartSlots[str] = RestartSlots(3)
    for number in range(SLOTS):
        assert slots.free(0.0) == SLOTS - number
        slots.started(f"stream {number}", 0.0)
    assert slots.free(0.1) == 0
    slots.settled("stream 0")
    assert slots.free(0.1) == 1
    assert slots.free(2.0) == SLOTS  # a slow agent does not block the others for ever


@pytest.mark.parametrize(("max_restarts", "first"), [(1, 0), (2, 1), (3, 2), (4, 2), (20, 2)])
def test_a_stream_is_a_suspect_after_two_failed_restarts_and_before_its_last(
    max_restarts: int, first: int
) -> None:
    slots: RestartSlots[str] = RestartSlots(max_restarts)
    assert [slots.is_suspect(failed) for failed in range(4)] == [n >= first for n in range(4)]


def test_suspects_wait_for_the_others_and_start_alone() -> None:
    slots: RestartSlots[str] = RestartSlots(3)
    slots.suspect("a", 2, 0.0)
    slots.suspect("b", 3, 0.0)
    assert slots.next_suspect(0.9) is None  # the delay
    slots.started("normal", 1.0)
    assert slots.next_suspect(1.5) is None
    slots.settled("normal")
    assert slots.next_suspect(1.5) == "a"
    slots.started("a", 1.5, suspect=True)
    assert slots.free(1.5) == SLOTS  # suspects take no slot of the others
    assert slots.next_suspect(9.0) is None
    slots.settled("a")
    assert slots.next_suspect(9.0) == "b"
    assert slots.next_suspect(50.0) is None


def test_a_suspect_does_not_wait_for_others_without_end() -> None:
    slots: RestartSlots[str] = RestartSlots(3)
    slots.suspect("a", 2, 0.0)
    for second in range(6):
        slots.started(f"another {second}", float(second))
        assert slots.next_suspect(second + 0.5) is None
    slots.started("one more", 6.0)
    assert slots.next_suspect(6.0) == "a"


def test_the_delay_grows_and_has_a_limit() -> None:
    slots: RestartSlots[int] = RestartSlots(3)
    for failed, delay in ((2, 1.0), (3, 2.0), (4, 4.0), (30, 30.0)):
        slots.suspect(failed, failed, 0.0)
        assert slots.next_suspect(delay - 0.01) is None
        assert slots.next_suspect(delay) == failed


def test_a_suspect_that_does_not_settle_is_waited_for_longer() -> None:
    slots: RestartSlots[str] = RestartSlots(3)
    slots.started("a", 0.0, suspect=True)
    slots.suspect("b", 2, 0.0)
    assert slots.next_suspect(9.0) is None
    assert slots.next_suspect(10.0) == "b"


def test_it_is_known_what_is_not_settled() -> None:
    slots: RestartSlots[str] = RestartSlots(3)
    assert not slots.busy
    slots.started("a", 0.0)
    slots.started("b", 0.0, suspect=True)
    assert slots.unsettled == ["a", "b"]
    assert slots.busy
    slots.settled("a")
    slots.settled("b")
    slots.suspect("c", 2, 0.0)
    assert slots.busy
