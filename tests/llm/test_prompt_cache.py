"""The ends of the cached beginnings of a prompt; the wire tables show what is sent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._adapter import Adapter
from coreason_client.llm._call import ModelCall, cache_key, cached_lists, check_prompt_cache
from coreason_client.llm._check_call import check_call
from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.profiles import COMPATIBLE

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


def call(*messages: Any, tools: Any = None, prompt_cache: Any = True) -> ModelCall:
    return check_call(
        list(messages), "anthropic.claude-x", tools, None, None, prompt_cache=prompt_cache
    )


@pytest.mark.parametrize(
    ("value", "lifetime"), [(False, None), (True, "5m"), ("5m", "5m"), ("1h", "1h")]
)
def test_the_lifetime_of_a_cache(value: Any, lifetime: str | None) -> None:
    assert check_prompt_cache(value) == lifetime


def test_only_full_lists_have_breakpoints_and_only_the_last_user_message() -> None:
    first, last, answer = ["a"], ["b"], ["c"]
    turns = [
        {"role": "user", "content": first},
        {"role": "user", "content": last},
        {"role": "assistant", "content": answer},
    ]
    found = cached_lists(["tool"], [], turns)
    assert found == [["tool"], ["b"]]
    assert found[1] is last
    assert cached_lists([], [], []) == []


def test_calls_with_the_same_beginning_have_the_same_key() -> None:
    key = cache_key(call(SYSTEM, USER, tools=[TOOL]))
    assert key is not None
    assert cache_key(call(SYSTEM, {**USER, "content": "Bye"}, tools=[TOOL])) == key
    others = [
        call(SYSTEM, USER),
        call(USER, tools=[TOOL]),
        call(SYSTEM, SYSTEM, USER, tools=[TOOL]),
    ]
    assert len({key, *map(cache_key, others)}) == 4


def test_without_a_beginning_or_the_switch_there_is_no_key() -> None:
    assert cache_key(call(USER)) is None
    assert cache_key(call(SYSTEM, USER, prompt_cache=False)) is None


def texts(value: Any) -> list[str]:
    """All texts that a model receives in a request, in order."""
    if isinstance(value, dict):
        kept = {
            key: item
            for key, item in value.items()
            if key not in {"cache_control", "cachePoint", "type"}
        }
        return [text for item in kept.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


_TEXT = st.text("ab ", min_size=1, max_size=4)
_MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "user", "assistant"]),
        _TEXT,
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS.keys())
@given(messages=_MESSAGES, tools=st.sampled_from([None, [TOOL]]))
def test_the_switch_never_changes_the_text(adapter: Adapter, messages: Any, tools: Any) -> None:
    plain = adapter.body(call(*messages, tools=tools, prompt_cache=False), COMPATIBLE)
    cached = adapter.body(call(*messages, tools=tools), COMPATIBLE)
    assert texts(cached) == texts(plain)


@given(messages=_MESSAGES)
def test_a_request_has_at_most_four_breakpoints(messages: Any) -> None:
    for wire, mark in (("anthropic", "cache_control"), ("bedrock", "cachePoint")):
        body = ADAPTERS[wire].body(call(*messages, tools=[TOOL]), COMPATIBLE)
        assert 1 <= str(body).count(mark) <= 4
