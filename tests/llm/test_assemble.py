"""From an answer to the response object: the printed shape, and every rule about it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from coreason_client.llm import LLMFilteredError, LLMResponseError
from coreason_client.llm._answer import End, ModelAnswer, RawToolCall, Tokens
from coreason_client.llm._call import ModelCall, Schema
from coreason_client.llm._check_call import check_call
from coreason_client.llm._reply import assemble, partial
from coreason_client.llm.types import Answered

CALL = ModelCall(model="m", messages=[{"role": "user", "content": "Hi"}])
COUNTED = Tokens(150, 200)
HALF = "\ud83d"
EMPTY: Mapping[str, Any] = {"content": "", "tool_calls": [], "finish_reason": "stop"}


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


def free(tokens: Tokens) -> float | None:
    return 0.0045


def answered(answer: ModelAnswer, call: ModelCall = CALL, parse_as: Any = None) -> Answered:
    return assemble(answer, call, free, parse_as)


def asking(*messages: dict[str, Any]) -> ModelCall:
    return check_call(list(messages), "m", None, 0.7, 10)


def with_arguments(arguments: Any, **more: Any) -> ModelAnswer:
    return ModelAnswer(calls=[RawToolCall("call_1", "f", arguments)], tokens=COUNTED, **more)


def arguments_of(response: Answered) -> list[dict[str, Any]]:
    return [call["arguments"] for call in response["data"]["tool_calls"]]


# The object.


@pytest.mark.proves("AI-5-tool-calls-empty", "R30e")
def test_text_makes_the_printed_object() -> None:
    response = answered(ModelAnswer("The analysis is…", tokens=COUNTED))
    assert response == {
        "status": "success",
        "data": {"content": "The analysis is…", "tool_calls": [], "finish_reason": "stop"},
        "usage": {
            "prompt_tokens": 150,
            "completion_tokens": 200,
            "total_tokens": 350,
            "cost_estimate": 0.0045,
        },
    }


@pytest.mark.proves("AI-5-content-null", "AI-5-tool-calls")
@pytest.mark.parametrize("content", [None, ""])
def test_tool_calls_make_the_printed_object(content: str | None) -> None:
    calls = [
        RawToolCall("call_xyz", "get_data", '{"id": 123}'),
        RawToolCall("2", "f", {"a": [1]}, "sig"),
    ]
    response = answered(ModelAnswer(content, calls, "tool_calls", tokens=COUNTED))
    assert response["data"] == {
        "content": None,
        "tool_calls": [
            {"id": "call_xyz", "name": "get_data", "arguments": {"id": 123}},
            {"id": "2", "name": "f", "arguments": {"a": [1]}, "signature": "sig"},
        ],
        "finish_reason": "tool_calls",
    }


def test_the_keys_stand_in_the_printed_order() -> None:
    tokens = Tokens(None, 9, cached=1, cache_write=2, cache_write_1h=1, reasoning=3)
    answer = ModelAnswer("{}", [RawToolCall("1", "f", "", "s")], "filtered", "Hm.", tokens)
    response = answered(answer)
    assert list(response) == ["status", "data", "usage"]
    assert list(response["data"]) == [
        *("content", "tool_calls", "finish_reason", "reasoning", "filtered")
    ]
    assert list(response["data"]["tool_calls"][0]) == ["id", "name", "arguments", "signature"]
    assert list(response["usage"]) == [
        *("prompt_tokens", "completion_tokens", "total_tokens", "cost_estimate"),
        *("cached_tokens", "cache_write_tokens", "reasoning_tokens", "estimated"),
    ]
    json.dumps(response, allow_nan=False)


def test_text_beside_tool_calls_is_kept() -> None:
    response = answered(ModelAnswer("Let me see.", [RawToolCall("1", "f", None)]))
    assert response["data"]["content"] == "Let me see."


@pytest.mark.parametrize("content", [None, ""])
def test_an_empty_answer_is_empty_text(content: str | None) -> None:
    assert answered(ModelAnswer(content, tokens=COUNTED))["data"] == EMPTY


@pytest.mark.proves("R30e")
@pytest.mark.parametrize(
    ("answer", "data_keys", "usage_keys"),
    [
        (ModelAnswer("x", tokens=Tokens(1, 1)), [], []),
        (ModelAnswer("x", tokens=Tokens(0, 0)), [], []),
        (ModelAnswer("x", reasoning="r", tokens=Tokens(1, 1)), ["reasoning"], []),
        (ModelAnswer("x", end="filtered", tokens=Tokens(1, 1)), ["filtered"], []),
        (ModelAnswer("x", tokens=Tokens(1, 1, cached=1)), [], ["cached_tokens"]),
        (ModelAnswer("x", tokens=Tokens(1, 1, cache_write=1)), [], ["cache_write_tokens"]),
        (ModelAnswer("x", tokens=Tokens(1, 1, reasoning=1)), [], ["reasoning_tokens"]),
        (ModelAnswer("x", tokens=None), [], ["estimated"]),
        (ModelAnswer("x", tokens=Tokens(1, None)), [], ["estimated"]),
        (ModelAnswer("x", tokens=Tokens(None, 1)), [], ["estimated"]),
    ],
)
def test_an_extra_key_is_there_only_when_it_applies(
    answer: ModelAnswer, data_keys: list[str], usage_keys: list[str]
) -> None:
    response = answered(answer)
    assert list(response["data"])[3:] == data_keys
    assert list(response["usage"])[4:] == usage_keys


# How it ended.


@pytest.mark.proves("R30a", "R30b")
@pytest.mark.parametrize("end", get_args(End))
def test_tool_calls_are_the_end_whatever_the_provider_says(end: End) -> None:
    data = answered(with_arguments("", end=end))["data"]
    assert data["finish_reason"] == "tool_calls"
    assert data.get("filtered", False) is (end == "filtered")


@pytest.mark.proves("R30a", "R30c")
@pytest.mark.parametrize(
    ("end", "reason"),
    [("stop", "stop"), ("length", "length"), ("filtered", "stop")],
)
def test_without_tool_calls_there_are_two_ends(end: End, reason: str) -> None:
    data = answered(ModelAnswer("x", end=end))["data"]
    assert data["finish_reason"] == reason
    assert data.get("filtered", False) is (end == "filtered")


@pytest.mark.parametrize("content", [None, "I look."])
@pytest.mark.parametrize("calls", [[], [RawToolCall("call_1", "", "{}")]], ids=["none", "no name"])
def test_an_announced_tool_call_that_is_missing_is_an_error(
    content: str | None, calls: list[RawToolCall]
) -> None:
    with pytest.raises(LLMResponseError, match="no usable tool call"):
        answered(ModelAnswer(content, calls, end="tool_calls"))


@pytest.mark.proves("R30d")
@pytest.mark.parametrize("content", [None, ""])
@pytest.mark.parametrize("reasoning", ["", "I must not."])
def test_a_filtered_answer_without_content_is_an_error(content: str | None, reasoning: str) -> None:
    with pytest.raises(LLMFilteredError, match="withheld"):
        answered(ModelAnswer(content, end="filtered", reasoning=reasoning))


# Arguments.

READABLE: list[tuple[Any, dict[str, Any]]] = [
    ("", {}),
    (None, {}),
    (" \n\t", {}),
    ("{}", {}),
    ({}, {}),
    ("null", {}),
    ({"a": {"b": None}}, {"a": {"b": None}}),
    ('{"a": 1, "b": [true, null, "ü😀"]}', {"a": 1, "b": [True, None, "ü😀"]}),
    (' {"a": 1}\n', {"a": 1}),
    ('{"a": "one\ntwo\tthree\0\x1f"}', {"a": "one\ntwo\tthree\0\x1f"}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('{"a": "\\ud83d"}', {"a": HALF}),
    ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ('{"a": 1e999}', {"a": float("inf")}),
]


@pytest.mark.proves("AI-5-tool-calls")
@pytest.mark.parametrize(("raw", "expected"), READABLE)
def test_arguments_are_an_object(raw: Any, expected: dict[str, Any]) -> None:
    assert arguments_of(answered(with_arguments(raw))) == [expected]


BROKEN = [
    *('{"a":', "{", "}", "[]", "[1]", '"text"', "5", "true", "false", "nothing", "{'a': 1}"),
    *(
        '{"a": 1} {"b": 2}',
        '{"a": 1},',
        '{"a": 1',
        "[" * 100_000,
        '{"a":' * 100_000,
        "\0",
        "{a: 1}",
    ),
    *("9" * 5000, '{"a": ' + "9" * 5000 + "}", '{"a": "' + HALF, "\ufeff{}"),
]


@pytest.mark.parametrize("raw", BROKEN, ids=range(len(BROKEN)))
def test_arguments_that_cannot_be_read_are_an_error_that_carries_them(raw: str) -> None:
    with pytest.raises(
        LLMResponseError, match="the arguments of the tool call 'f' are not"
    ) as caught:
        answered(with_arguments(raw))
    assert caught.value.body == raw
    assert len(str(caught.value)) < 1000


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _json, max_size=4), st.booleans())
def test_any_object_comes_back(arguments: dict[str, Any], ascii_only: bool) -> None:
    written = json.dumps(arguments, ensure_ascii=ascii_only)
    assert arguments_of(answered(with_arguments(written))) == [arguments]


@given(st.text(st.characters()) | st.text('{}[]":,a1\\ \n', max_size=12) | _json.map(json.dumps))
@example('"' + HALF)
@example("{}" + HALF)
def test_whatever_text_the_arguments_are_they_are_an_object_or_a_typed_error(raw: str) -> None:
    try:
        read = arguments_of(answered(with_arguments(raw)))
    except LLMResponseError as error:
        assert_carried(error, raw)
    else:
        assert isinstance(read[0], dict)


def assert_carried(error: LLMResponseError, raw: str) -> None:
    assert error.body == raw


def test_the_arguments_that_a_model_wrote_can_go_back_to_it() -> None:
    """Every call of a response is taken in the next request, as it is."""
    for raw, expected in READABLE[:-1]:  # what is no JSON number cannot be written again
        calls = answered(with_arguments(raw))["data"]["tool_calls"]
        asked = asking({"role": "assistant", "content": None, "tool_calls": calls})
        sent = asked.messages[0]["tool_calls"][0]["function"]["arguments"]
        sent.encode()
        assert json.loads(sent, strict=False) == expected


# Ids.


@pytest.mark.proves("AI-5-tool-calls")
def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    calls = [RawToolCall(id_, "f", "") for id_ in (None, "", None, "given", None)]
    responses = [answered(ModelAnswer(calls=calls)) for _ in range(50)]
    ids = [call["id"] for response in responses for call in response["data"]["tool_calls"]]
    made = [id_ for id_ in ids if id_ != "given"]
    assert len(ids) == 250
    assert len(made) == len(set(made)) == 200
    assert all(id_.isascii() and id_.replace("_", "").isalnum() for id_ in made)
    assert all(len(id_) <= 40 for id_ in made)  # the longest that providers take back


# JSON that was asked for.

SOME_JSON = ModelCall(model="m", messages=CALL.messages, schema=Schema("answer", None))
ROME = '{"name": "Rome", "people": 3}'


def test_without_a_format_nothing_is_parsed() -> None:
    assert "parsed" not in answered(ModelAnswer(ROME))["data"]


@pytest.mark.proves("R30e")
def test_an_answer_of_a_model_is_an_instance_of_it() -> None:
    data = answered(ModelAnswer(ROME), SOME_JSON, City)["data"]
    assert data["parsed"] == City(name="Rome", people=3)
    assert data["content"] == ROME
    assert list(data)[-1] == "parsed"


@pytest.mark.parametrize("parse_as", [None, {"type": "json_object"}, {"type": "object"}, dict])
def test_an_answer_of_a_schema_is_json(parse_as: Any) -> None:
    data = answered(ModelAnswer(ROME), SOME_JSON, parse_as)["data"]
    assert data["parsed"] == {"name": "Rome", "people": 3}


@pytest.mark.parametrize(
    ("content", "parse_as", "words"),
    [
        ('{"name": "Rome"', None, "the answer is not JSON"),
        ("Rome", None, "the answer is not JSON"),
        ("", None, "the answer is not JSON"),
        (None, None, "the answer is not JSON"),
        ('"' + HALF + '"', None, "the answer is not JSON"),
        ("[" * 100_000, None, "the answer is not JSON"),
        ('{"name": "Rome"}', City, "the answer does not match City: people: Field required"),
        (
            '{"name": "R", "people": -1}',
            City,
            "the answer does not match City: people: Input should",
        ),
        ("[]", City, "the answer does not match City: Input should be an object"),
        ("Rome", City, "the answer does not match City: Invalid JSON"),
        (None, City, "the answer does not match City: Invalid JSON"),
    ],
)
def test_what_does_not_fit_is_an_error_that_carries_it(
    content: str | None, parse_as: Any, words: str
) -> None:
    with pytest.raises(LLMResponseError) as caught:
        answered(ModelAnswer(content), SOME_JSON, parse_as)
    assert str(caught.value).startswith(words)
    assert caught.value.body == (content or "")


@pytest.mark.parametrize("content", [None, "", "Let me see.", ROME])
def test_what_stands_beside_tool_calls_is_not_parsed(content: str | None) -> None:
    answer = ModelAnswer(content, [RawToolCall("1", "f", "")], tokens=COUNTED)
    data = answered(answer, SOME_JSON, City)["data"]
    assert list(data) == ["content", "tool_calls", "finish_reason"]


@pytest.mark.proves("R30c")
def test_a_refusal_of_json_is_a_filtered_answer() -> None:
    answer = ModelAnswer("I cannot help with that.", end="filtered", tokens=COUNTED)
    assert answered(answer, SOME_JSON, City)["data"] == {
        "content": "I cannot help with that.",
        "tool_calls": [],
        "finish_reason": "stop",
        "filtered": True,
    }


# Usage.


@pytest.mark.parametrize(
    ("tokens", "numbers", "marked"),
    [
        (Tokens(7, 5), (7, 5, 12), False),
        (Tokens(0, 0), (0, 0, 0), False),
        (Tokens(7, None), (7, 3, 10), True),
        (Tokens(None, 5), (5, 5, 10), True),
        (Tokens(), (5, 3, 8), True),
        (None, (5, 3, 8), True),
    ],
)
def test_what_was_not_counted_is_estimated_and_marked(
    tokens: Tokens | None, numbers: tuple[int, int, int], marked: bool
) -> None:
    usage = answered(ModelAnswer("ten letters", tokens=tokens))["usage"]
    known = usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]
    assert known == numbers
    assert usage.get("estimated", False) is marked


def test_the_price_is_that_of_all_tokens_counted_or_estimated() -> None:
    seen: list[Tokens] = []

    def price(tokens: Tokens) -> float | None:
        seen.append(tokens)
        return None

    given_ = Tokens(None, 5, cached=1, cache_write=2, cache_write_1h=1, reasoning=4)
    usage = assemble(ModelAnswer("x", tokens=given_), CALL, price)["usage"]
    assert usage["cost_estimate"] is None
    assert seen == [Tokens(5, 5, cached=1, cache_write=2, cache_write_1h=1, reasoning=4)]
    assert given_.prompt is None


def test_an_estimate_counts_all_that_was_said() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
    parts = {"role": "user", "content": [{"type": "text", "text": "x" * 400}, image]}
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "name": "f" * 40, "arguments": {"a": "y" * 360}}],
    }
    few, more, most = (
        answered(ModelAnswer(""), asking(*messages))["usage"]["prompt_tokens"]
        for messages in (
            [{"role": "user", "content": ""}],
            [parts],
            [parts, called],
        )
    )
    assert (few, more) == (4, 104)
    assert 200 < most < 220
    said = ModelAnswer("x" * 40, [RawToolCall("1", "f" * 40, "y" * 40)], reasoning="z" * 40)
    assert partial(said, CALL, free)["usage"]["completion_tokens"] == 40


# What came of an answer that broke.


def test_a_part_of_an_answer_has_what_can_be_read() -> None:
    calls = [RawToolCall("1", "f", '{"a": 1}'), RawToolCall("2", "g", '{"a":')]
    response = partial(ModelAnswer("x", calls, tokens=COUNTED), CALL, free)
    assert response["status"] == "partial"
    assert response["data"] == {
        "content": "x",
        "tool_calls": [{"id": "1", "name": "f", "arguments": {"a": 1}}],
    }


def test_nobody_knows_how_a_part_would_have_ended() -> None:
    broken = ModelAnswer(None, [RawToolCall("2", "g", '{"a":')], end="length", tokens=COUNTED)
    received: dict[str, Any] = {"content": None, "tool_calls": [], "truncated": True}
    assert partial(broken, CALL, free)["data"] == received
    assert "truncated" not in partial(replace(broken, end="stop"), CALL, free)["data"]


def test_a_part_of_an_answer_is_never_an_error() -> None:
    assert partial(ModelAnswer(end="filtered"), SOME_JSON, free)["data"]["content"] is None
    assert partial(ModelAnswer("{"), SOME_JSON, free)["data"]["content"] == "{"


class Named(BaseModel):
    counts: dict[str, int]


def test_keys_of_an_answer_that_does_not_fit_are_shown_in_one_line() -> None:
    content = json.dumps({"counts": {"a\nERROR forged\x1b[2J": "many"}})
    asked = replace(SOME_JSON, schema=Schema("Named", Named.model_json_schema(), strict=None))
    with pytest.raises(LLMResponseError) as caught:
        assemble(ModelAnswer(content), asked, free, Named)
    assert str(caught.value).isprintable()
    assert "a ERROR forged" in str(caught.value)


def test_an_answer_that_was_cut_off_says_where() -> None:
    with pytest.raises(LLMResponseError, match=r"cut off at max_tokens \([0-9]+\)"):
        assemble(ModelAnswer('{"a": ', end="length"), SOME_JSON, free, {"type": "object"})
    raw = RawToolCall("1", "f", '{"a": ')
    with pytest.raises(LLMResponseError, match=r"'f' were cut off at max_tokens \([0-9]+\)"):
        assemble(ModelAnswer(None, [raw], end="length"), CALL, free)


# Calls that a run keeps.

KEEPS = replace(CALL, keep_invalid_calls=True)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ("5", "5"),
        ('{"a": NaN}', '{"a": NaN}'),
        ({"a": float("inf")}, '{"a": Infinity}'),
        (f'"{HALF}', '"?'),
    ],
)
def test_a_run_keeps_a_call_with_arguments_that_are_not_an_object(
    arguments: Any, kept: str
) -> None:
    answer = with_arguments(arguments)
    with pytest.raises(LLMResponseError, match="not a JSON object"):
        answered(answer)
    data = answered(answer, KEEPS)["data"]
    expected = {"id": "call_1", "name": "f", "arguments": {}, "invalid_arguments": kept}
    assert data["tool_calls"] == [expected]
    assert data["finish_reason"] == "tool_calls"
    assert partial(answer, KEEPS, free)["data"]["tool_calls"] == []


def test_a_run_keeps_a_call_that_was_cut_off() -> None:
    data = answered(with_arguments('{"a": ', end="length"), KEEPS)["data"]
    assert data["tool_calls"][0]["invalid_arguments"] == '{"a": '
    assert data["truncated"]


def test_valid_arguments_are_the_same_in_a_run() -> None:
    answer = with_arguments('{"a": 1}')
    assert answered(answer, KEEPS) == answered(answer)
