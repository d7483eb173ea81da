"""The cache of answers: what is found, what is stored, and how much."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from coreason_client.errors import ArgumentError
from coreason_client.llm import Budget, ResponseCache
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import Plan
from coreason_client.llm._route import Target
from coreason_client.llm.router.cache import request_key
from tests.llm.play import KEY, MESSAGES, refusal, reply
from tests.llm.router.routed import MODEL, Site, answer, host


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"seconds": 0}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        ({"max_entries": 0}, "max_entries"),
        ({"max_bytes": 1.5}, "max_bytes"),
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


def test_the_same_request_is_sent_once() -> None:
    site = Site({"fast": ["a", "b"]}, cache=ResponseCache(), budgets=(budget := Budget(1.0)))
    first = site.generate()
    site.routing._random = iter([0.9, 0.1] * 10).__next__  # the other deployment first
    second = site.generate()
    assert site.hosts == ["a"]
    assert "cached" not in first
    assert second["cached"] is True
    assert second["usage"] == {**first["usage"], "cost_estimate": 0.0}
    assert second["data"] == first["data"]
    assert site.totals(budget) == pytest.approx((first["usage"]["cost_estimate"], 0))
    site.generate(max_tokens=99)
    assert len(site.hosts) == 2


class City(BaseModel):
    name: str


def test_a_structured_answer_is_parsed_again() -> None:
    body = {"choices": [{"message": {"content": '{"name": "Rome"}'}, "finish_reason": "stop"}]}
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes={"a": reply(200, body)})
    answers = [site.generate(response_format=City)["data"]["parsed"] for _ in range(2)]
    assert answers == [City(name="Rome")] * 2
    assert answers[0] is not answers[1]
    assert len(site.hosts) == 1


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": "Hi"}, "finish_reason": "length"},
        {"message": {"content": "Hi"}, "finish_reason": "content_filter"},
    ],
)
def test_a_truncated_or_filtered_answer_is_not_stored(choice: Any) -> None:
    outcomes = {"a": reply(200, {"choices": [choice]})}
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes=outcomes)
    site.generate()
    site.generate()
    assert len(site.hosts) == 2


def test_an_error_is_not_stored() -> None:
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes={"a": [refusal(400), answer()]})
    site.fails()
    assert "cached" not in site.generate()


def test_the_answer_of_a_fallback_is_not_stored() -> None:
    site = Site(
        {"fast": ["a"], "big": ["b"]},
        cache=ResponseCache(),
        fallbacks={"fast": ["big"]},
        outcomes={"a": [refusal(400), answer()]},
    )
    site.generate()
    assert "cached" not in site.generate()
    assert site.hosts == ["a", "b", "a"]


def test_what_cannot_be_read_is_asked_for_again() -> None:
    cache = ResponseCache()
    site = Site({"fast": ["a"]}, cache=cache)
    site.generate()
    [key] = cache._entries
    for wrong in (b"{", b"[]", json.dumps({"data": {}}).encode()):
        cache.put(key, wrong)
        assert "cached" not in site.generate()


def key_of(base: str = "a", name: str = "", **options: Any) -> str:
    call = check_call(MESSAGES, options.pop("model", MODEL), None, 0.7, 100, **options)
    return request_key(Plan(call, Target(host(base), KEY).route(call.model)), name)


def test_the_key_depends_on_the_whole_request() -> None:
    keys = [
        key_of(),
        key_of("b"),
        key_of(name="fast"),
        key_of(model="other"),
        key_of(stop="."),
        key_of(extra={"seed": 7}),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of() == keys[0]
