"""Items in the order of their times."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log._memory_store import TimeQueue


@given(st.lists(st.integers(0, 20)), st.integers(0, 20), st.integers(1, 5))
def test_due_items_come_by_their_time(times: list[int], until: int, limit: int) -> None:
    due: TimeQueue[int] = TimeQueue()
    for number, at in enumerate(times):
        due.add(at, number)
    got: list[tuple[float, int]] = []
    while taken := due.take(until, limit):
        assert len(taken) <= limit
        got += taken
    assert got == sorted((at, number) for number, at in enumerate(times) if at <= until)
    assert len(due) == len(times) - len(got)
