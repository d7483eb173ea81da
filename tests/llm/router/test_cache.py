"""The cache of answers: how much it stores, and which calls wait for each other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.llm import ResponseCache


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"seconds": 0}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        ({"max_entries": 0}, "max_entries"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"scope": ""}, "scope"),
        ({"scope": 7}, "scope"),
    ],
)
def test_a_wrong_argument(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ResponseCache(**arguments)
    assert caught.value.argument == name


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get", "put", "pass"]),
            st.sampled_from("abcdef"),
            st.integers(0, 40),
        ),
        max_size=60,
    )
)
def test_the_cache_stays_within_its_limits(operations: list[tuple[str, str, int]]) -> None:
    clock, expected = Clock(), dict[str, tuple[float, bytes]]()
    cache = ResponseCache(5.0, 3, 50, clock=clock)
    for name, key, number in operations:
        if name == "pass":
            clock.now += number / 10
        elif name == "put":
            value = key.encode() * number
            cache.put(key, value)
            expected[key] = clock.now + 5.0, value
        else:
            found = cache.get(key)
            if found is not None:
                until, value = expected[key]
                assert (found, clock.now < until) == (value, True)
        assert len(cache) <= 3
        assert cache._bytes == sum(len(value) for _, value in cache._entries.values()) <= 50


def test_the_answer_that_was_not_used_for_longest_is_dropped() -> None:
    cache = ResponseCache(max_entries=2)
    cache.put("a", b"1")
    cache.put("b", b"2")
    assert cache.get("a") == b"1"
    cache.put("c", b"3")
    assert [cache.get(key) for key in "abc"] == [b"1", None, b"3"]
    cache.clear()
    assert len(cache) == 0


def test_a_flight_is_begun_once_and_nobody_who_waits_can_cancel_it() -> None:
    cache = ResponseCache()
    flight, leads = cache.join("a")
    assert leads
    assert cache.join("a") == (flight, False)
    assert cache.join("b")[1]
    assert not flight.landed.cancel()
    cache.land("a", flight, b"1")
    assert flight.landed.result(0) == b"1"
    assert cache.join("a")[1]


def test_a_forked_child_waits_for_no_call_of_its_parent() -> None:
    cache = ResponseCache()
    cache.join("a")
    cache.after_fork()
    assert cache.join("a")[1]
