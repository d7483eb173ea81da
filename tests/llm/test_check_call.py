"""All arguments of a call: any value gives a call that adapters can send, or an error."""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from coreason_client.llm import LLMError, LLMRequestError
from coreason_client.llm._call import ModelCall
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import fit_call
from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.profiles import COMPATIBLE

from .calls import CALLED, HALF, HUGE, PIXEL, RESULT, SCHEMA, USER, WEATHER, rejection, tool


class City(BaseModel):
    name: str
    people: int = 0


class Uncallable(BaseModel):
    function: Callable[[int], int]


def check(**arguments: Any) -> ModelCall:
    """Check a call that is valid except for the given arguments."""
    valid = {"messages": [USER], "model": "m", "tools": None, "temperature": 0.7}
    return check_call(**{**valid, "max_tokens": 2000, **arguments})


def each(*values: Any) -> tuple[Any, ...]:
    return values


WRONG_REST: list[tuple[dict[str, Any], str]] = [
    *(({"model": model}, "model must be the name") for model in (None, "", "  ", 5, b"m", ["m"])),
    *(
        ({"temperature": value}, "temperature must be a number from 0 to 1, up to 2 where")
        for value in (
            "0.7",
            True,
            -0.01,
            2.01,
            3,
            HUGE,
            -HUGE,
            float("nan"),
            float("inf"),
            1j,
        )
    ),
    *(
        ({"max_tokens": value}, "max_tokens must be a whole number from 1 to")
        for value in ("5", True, 0, -1, 1.0, 2.5, HUGE, -HUGE, 2**31, float("inf"))
    ),
    *(
        ({"stop": value}, "stop must be text, or a list of texts")
        for value in each("", 5, [""], ["a", ""], ["a", 5], {"a"}, {"a": 1}, b"x")
    ),
    *(({"extra": value}, "extra must be an object") for value in each("x", [], {5: 1}, {None: 1})),
    *(
        ({"prompt_cache": value}, 'prompt_cache must be True, False, "5m" or "1h", got')
        for value in each(None, 1, "", "2h", "true", ["5m"])
    ),
    *(({"raw": value}, "raw must be True or False") for value in each(None, 1, "yes")),
    ({"extra": {"stream": True}}, "extra must not have 'stream'; call stream()"),
    # One of each, to see that every check is called.
    ({"messages": []}, "messages must have at least one message"),
    ({"tools": "f"}, "tools must be a list of tools"),
    ({"tool_choice": "any", "tools": [WEATHER]}, "tool_choice must be"),
    ({"response_format": "json"}, "response_format must be"),
]


@pytest.mark.proves("AI-3-temperature")
@pytest.mark.parametrize(("arguments", "words"), WRONG_REST)
def test_the_error_for_a_wrong_argument_names_it(arguments: dict[str, Any], words: str) -> None:
    assert words in rejection(check, **arguments)


@pytest.mark.proves("AI-3-temperature")
@pytest.mark.parametrize("temperature", [0, 0.0, -0.0, 0.3, 1, 1.0, 1.01, 2, 2.0])
def test_a_temperature_from_0_to_2_is_taken(temperature: float) -> None:
    assert check(temperature=temperature).temperature == temperature


@pytest.mark.proves("R37b")
def test_none_leaves_temperature_and_max_tokens_to_the_provider() -> None:
    call = check(temperature=None, max_tokens=None)
    assert (call.temperature, call.max_tokens) == (None, None)


@pytest.mark.parametrize(
    ("stop", "taken"),
    [(None, []), ([], []), ("a", ["a"]), (["a", "b"], ["a", "b"]), (("a",), ["a"])],
)
def test_stop_words_are_taken(stop: Any, taken: list[str]) -> None:
    assert list(check(stop=stop).stop) == taken


def test_the_rest_is_taken_as_it_is() -> None:
    call = check(model="a/b", max_tokens=1, extra={"seed": 5}, stream=True)
    assert (call.model, call.max_tokens, call.extra, call.stream) == ("a/b", 1, {"seed": 5}, True)
    assert check(extra=None).extra == {}


# Anything at all.

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=3),
    st.sampled_from([10**400, HALF, object(), int, City, BaseModel, Uncallable, list[int], 1j, ""]),
)
_WORDS = [
    *("role", "content", "name", "tool_calls", "tool_call_id", "reasoning", "type", "text"),
    *("file", "file_data", "file_url", "file_id", "filename", "input_audio", "data", "format"),
    *("image_url", "url", "detail", "function", "id", "arguments", "signature", "index"),
    *("description", "parameters", "strict", "json_schema", "schema", "more"),
]
_VALUES = [
    *(
        "developer",
        "file",
        "input_audio",
        "wav",
        "system",
        "user",
        "assistant",
        "tool",
        "function",
        "text",
        "image_url",
        "json_schema",
    ),
    *("json_object", "auto", "none", "required", "f", "{}", '{"a": 1}', PIXEL, "{", "1"),
]
_keys = st.one_of(st.sampled_from(_WORDS), st.sampled_from(_WORDS), _leaves)
_anything = st.recursive(
    st.one_of(st.sampled_from(_VALUES), _leaves),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(_keys, inner, max_size=4),
        st.dictionaries(_keys, inner, max_size=3).map(MappingProxyType),
    ),
    max_leaves=12,
)


def nearly(right: Any) -> st.SearchStrategy[Any]:
    """A valid value except for one place, at which anything may stand."""
    return st.tuples(st.sampled_from(list(places(right))), _anything).map(
        lambda drawn: replaced(right, *drawn)
    )


def places(value: Any) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = [()]
    for key, child in inner:
        below = places(child) if isinstance(child, dict | list) else [()]
        found += [(key, *place) for place in below]
    return found


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    if not place:
        return by
    copied = copy.copy(value)
    copied[place[0]] = replaced(value[place[0]], place[1:], by)
    return copied


RIGHT_MESSAGES: list[Any] = [
    {"role": "system", "content": "x", "name": "n"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            {"type": "file", "file": {"file_data": PIXEL, "filename": "a.png"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ],
    },
    {**CALLED, "reasoning": "r"},
    {
        "role": "assistant",
        "content": "x",
        "tool_calls": [
            {
                "id": "2",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "signature": "s",
            }
        ],
    },
    RESULT,
]
RIGHT: dict[str, Any] = {
    "messages": RIGHT_MESSAGES,
    "model": "m",
    "tools": [WEATHER, *tool(description="d", parameters={"a": 1}, strict=False)],
    "temperature": 0.5,
    "max_tokens": 10,
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
    },
    "stop": ["a", "b"],
    "extra": {"seed": 1},
    "prompt_cache": "1h",
    "raw": True,
}


def test_the_right_call_is_right() -> None:
    assert isinstance(check_call(**RIGHT), ModelCall)


@given(nearly(RIGHT).filter(lambda arguments: isinstance(arguments, dict)))
def test_whatever_is_asked_there_is_a_call_or_a_refusal(arguments: dict[str, Any]) -> None:
    assert_call_or_refusal({name: arguments.get(name) for name in RIGHT})


@given(st.sampled_from(sorted(RIGHT)), _anything)
def test_whatever_one_argument_is_there_is_a_call_or_a_refusal(name: str, value: Any) -> None:
    assert_call_or_refusal({**RIGHT, name: value})


@given(st.lists(st.one_of(_anything, nearly(RIGHT_MESSAGES)), max_size=3))
def test_whatever_the_messages_are_there_is_a_call_or_a_refusal(messages: list[Any]) -> None:
    assert_call_or_refusal({**RIGHT, "messages": messages})


def assert_call_or_refusal(arguments: dict[str, Any]) -> None:
    try:
        call = check_call(**arguments)
    except LLMRequestError as refused:
        sentence = str(refused)
    else:
        sentence = "taken"
        assert_every_adapter_takes(call)
    assert 0 < len(sentence) < 600


def assert_every_adapter_takes(call: ModelCall) -> None:
    for adapter in ADAPTERS.values():
        try:
            fit = fit_call(call, adapter, COMPATIBLE)
            assert isinstance(adapter.body(fit, COMPATIBLE), Mapping)
        except LLMError:
            continue


@given(nearly(RIGHT))
@example(RIGHT)
def test_the_objects_of_the_caller_stay_as_they_are(arguments: Any) -> None:
    known = {name: arguments.get(name) for name in RIGHT} if isinstance(arguments, dict) else RIGHT
    before = frozen(known)
    try:
        call = check_call(**known)
        for adapter in ADAPTERS.values():
            with suppress(LLMError):
                adapter.body(fit_call(call, adapter, COMPATIBLE), COMPATIBLE)
    except LLMError:
        pass
    assert frozen(known) == before


def frozen(value: Any) -> Any:
    """A picture of a value that no later change reaches; things are known by who they are."""
    if isinstance(value, Mapping):
        return id(value), [(id(key), frozen(child)) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return id(value), [frozen(child) for child in value]
    return id(value)
