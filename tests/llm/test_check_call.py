"""What may be asked: every right form is taken, and every wrong one refused by its place."""

import copy
import json
from collections import ChainMap
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from coreason_client.llm import LLMError, LLMRequestError
from coreason_client.llm._call import Call, Schema
from coreason_client.llm._check_call import check_call
from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.profiles import COMPATIBLE

T = TypeVar("T")
HUGE = 10**5000  # Python does not write a number of so many digits
HALF = "half \ud83d"

USER = {"role": "user", "content": "What is the weather in Rome?"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "name": "get_weather", "arguments": {"city": "Rome"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


class City(BaseModel):
    name: str
    people: int = 0


class Box(BaseModel, Generic[T]):
    inside: T


class Uncallable(BaseModel):
    function: Callable[[int], int]


class Unfinished(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


class Role(StrEnum):
    USER = "user"


def check(messages: Any = None, **arguments: Any) -> Call:
    """Check a call that is right but for what is given."""
    given_ = {"model": "m", "tools": None, "temperature": 0.7, "max_tokens": 2000} | arguments
    return check_call([USER] if messages is None else messages, **given_)


def tool(**function: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f"} | function}]


def image(value: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": value}]}]


def called(call: Any) -> list[Any]:
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]


def plain(**changed: Any) -> list[Any]:
    return called({"id": "1", "name": "f", "arguments": {}} | changed)


def wrapped(**changed: Any) -> list[Any]:
    return called({"id": "1", "type": "function", "function": {"name": "f"} | changed})


def each(*values: Any) -> tuple[Any, ...]:
    return values


def circular() -> dict[str, Any]:
    round_: dict[str, Any] = {}
    round_["again"] = round_
    return round_


def deep(levels: int = 100_000) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


# Wrong messages: what is given, and the words that name its place.
WRONG_MESSAGES: list[tuple[Any, str]] = [
    ("hello", "messages must be a list of messages, got 'hello'"),
    ({"role": "user", "content": "x"}, "messages must be a list"),
    (5, "messages must be a list of messages, got 5"),
    (iter([USER]), "messages must be a list"),
    ([], "messages must have at least one message, got an empty list"),
    ((), "messages must have at least one message, got an empty list"),
    ([USER, "hello"], "messages[1] must be an object"),
    ([USER, None], "messages[1] must be an object"),
    (
        [USER, [USER]],
        "messages[1] must be an object with role and content, got a value of type list",
    ),
    ([{"content": "x"}], "messages[0].role must be one of system, user, assistant, tool"),
    ([{"role": None, "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "User", "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "developer", "content": "x"}], "got 'developer'"),
    ([{"role": ["user"], "content": "x"}], "messages[0].role must be one of"),
    ([{"role": HUGE, "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "user"}], "messages[0].content must be text, got None"),
    ([USER, {"role": "user", "content": None}], "messages[1].content must be text"),
    ([{"role": "user", "content": 5}], "messages[0].content must be text, got 5"),
    ([{"role": "user", "content": HUGE}], "messages[0].content must be text"),
    ([{"role": "user", "content": b"x"}], "messages[0].content must be text"),
    ([{"role": "user", "content": {"text": "x"}}], "messages[0].content must be text"),
    (
        [{"role": "user", "content": HALF}],
        "messages[0].content must be valid Unicode, got half of a surrogate pair",
    ),
    (
        [{"role": "system", "content": HALF}],
        "messages[0].content must be valid Unicode, got half of a surrogate pair",
    ),
    (
        [{"role": "assistant", "content": HALF}],
        "messages[0].content must be valid Unicode, got half of a surrogate pair",
    ),
    ([{"role": "system", "content": []}], "messages[0].content must be text"),
    ([{"role": "system", "content": None}], "messages[0].content must be text"),
    ([{**USER, "name": ""}], "messages[0].name must be text, or be left out, got ''"),
    ([{**USER, "name": 5}], "messages[0].name must be text"),
    (
        [{**USER, "names": "x"}],
        "messages[0] must not have 'names': a message of role user has no such key",
    ),
    ([{**USER, "b": 1, "a": 2}], "messages[0] must not have 'a' and 'b': "),
    ([{**USER, 5: 1}], "messages[0] must not have 5: "),
    ([{**USER, HUGE: 1}], "messages[0] must not have a value of type int: "),
    ([{**USER, None: 1, "x": 1}], "messages[0] must not have"),
    (
        [{**USER, "tool_calls": []}],
        "messages[0] must not have 'tool_calls': a message of role user",
    ),
    ([{**USER, "tool_call_id": "1"}], "messages[0] must not have 'tool_call_id'"),
    (
        [{"role": "system", "content": "x", "reasoning": "y"}],
        "messages[0] must not have 'reasoning'",
    ),
    # Parts
    (
        [{"role": "user", "content": []}],
        "messages[0].content must have at least one part, got an empty list",
    ),
    ([{"role": "user", "content": ["x"]}], "messages[0].content[0] must be"),
    ([{"role": "user", "content": [None]}], "messages[0].content[0] must be"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0] must be"),
    ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "messages[0].content[0] must"),
    (
        [{"role": "user", "content": [{"type": "text", "text": HALF}]}],
        "messages[0].content[0].text must be valid Unicode, got half of a surrogate pair",
    ),
    (
        [USER, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "audio"}]}],
        "messages[1].content[1] must be",
    ),
    (
        [{"role": "user", "content": [{"type": "text", "text": "a", "more": 1}]}],
        "messages[0].content[0] must be",
    ),
    (image(None), "messages[0].content[0].image_url must be"),
    (image([]), "messages[0].content[0].image_url must be"),
    (image({}), "messages[0].content[0].image_url.url must be"),
    (image({"url": 5}), "messages[0].content[0].image_url.url must be"),
    (image(""), "messages[0].content[0].image_url.url must be"),
    (image("file:///etc/passwd"), "messages[0].content[0].image_url.url must be"),
    (image("https://a.example/b c"), "messages[0].content[0].image_url.url must be"),
    (image("https://a.example/b\n"), "messages[0].content[0].image_url.url must be"),
    (image("data:text/html;base64,AAAA"), "messages[0].content[0].image_url.url must be"),
    (image("data:image/png;base64,A A="), "messages[0].content[0].image_url.url must be"),
    (image("data:image/png;base64,"), "messages[0].content[0].image_url.url must be"),
    (image({"url": PIXEL, "size": 5}), "messages[0].content[0].image_url must be"),
    (image({"url": PIXEL, "detail": 5}), "messages[0].content[0].image_url.detail must be text"),
    # An assistant's
    ([{"role": "assistant"}], "messages[0].content must be text, or null beside tool_calls"),
    ([{"role": "assistant", "content": None}], "messages[0].content must be text, or null"),
    ([{"role": "assistant", "content": None, "tool_calls": []}], "messages[0].content must be"),
    ([{"role": "assistant", "content": [], "tool_calls": None}], "messages[0].content must be"),
    ([{**CALLED, "content": 5}], "messages[0].content must be text, or null beside tool_calls"),
    ([{**CALLED, "reasoning": 5}], "messages[0].reasoning must be text"),
    ([{**CALLED, "tool_calls": {}}], "messages[0].tool_calls must be a list"),
    ([{**CALLED, "tool_calls": "x"}], "messages[0].tool_calls must be a list"),
    (called("x"), "messages[1].tool_calls[0] must be an object with id, name and arguments"),
    (called({}), "messages[1].tool_calls[0].name must be the name of a function"),
    (plain(name=""), "messages[1].tool_calls[0].name must be"),
    (plain(name=5), "messages[1].tool_calls[0].name must be"),
    (plain(id=None), "messages[1].tool_calls[0].id must be text"),
    (plain(id=""), "messages[1].tool_calls[0].id must be text"),
    (plain(id=7), "messages[1].tool_calls[0].id must be text, got 7"),
    (plain(more=1), "messages[1].tool_calls[0] must not have 'more': a tool call has no such key"),
    (plain(type="function"), "messages[1].tool_calls[0] must not have 'type'"),
    (plain(signature=5), "messages[1].tool_calls[0].signature must be text"),
    (plain(arguments=[]), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments=5), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments=False), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments="{"), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments="[]"), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments=" "), "messages[1].tool_calls[0].arguments must be an object"),
    (plain(arguments="[" * 100_000), "messages[1].tool_calls[0].arguments must be an object"),
    (
        plain(arguments='{"a": "' + HALF + '"}'),
        "messages[1].tool_calls[0].arguments must be valid Unicode, got half of a surrogate pair",
    ),
    (plain(arguments={"a": object()}), "messages[1].tool_calls[0].arguments cannot be encoded"),
    (plain(arguments={"a": float("nan")}), "messages[1].tool_calls[0].arguments cannot be"),
    (plain(arguments={"a": HUGE}), "messages[1].tool_calls[0].arguments cannot be encoded"),
    (plain(arguments={(1, 2): 3}), "messages[1].tool_calls[0].arguments cannot be encoded"),
    (plain(arguments=circular()), "messages[1].tool_calls[0].arguments cannot be encoded"),
    (plain(arguments=deep()), "messages[1].tool_calls[0].arguments cannot be encoded"),
    (called({"id": "1", "function": None}), "messages[1].tool_calls[0].function must be an object"),
    (called({"id": "1", "function": "f"}), "messages[1].tool_calls[0].function must be an object"),
    (
        called({"id": "1", "function": {"name": "f"}, "x": 1}),
        "messages[1].tool_calls[0] must not have 'x'",
    ),
    (called({"function": {"name": "f"}}), "messages[1].tool_calls[0].id must be text"),
    (wrapped(name=None), "messages[1].tool_calls[0].function.name must be"),
    (wrapped(arguments="{"), "messages[1].tool_calls[0].function.arguments must be an object"),
    # Results
    ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id must be the id of the call"),
    (
        [{"role": "tool", "tool_call_id": 5, "content": "x"}],
        "messages[0].tool_call_id must be the id of the call",
    ),
    (
        [USER, RESULT],
        (
            "messages[1].tool_call_id must be the id of a call in an earlier assistant "
            "message, got 'call_1'"
        ),
    ),
    (
        [USER, RESULT, CALLED],
        (
            "messages[1].tool_call_id must be the id of a call in an earlier assistant "
            "message, got 'call_1'"
        ),
    ),
    (
        [USER, CALLED, {**RESULT, "tool_call_id": "2"}],
        (
            "messages[2].tool_call_id must be the id of a call in an earlier assistant "
            "message, got '2'"
        ),
    ),
    ([USER, CALLED, {**RESULT, "content": None}], "messages[2].content must be text"),
    ([USER, CALLED, {**RESULT, "content": {"a": 1}}], "messages[2].content must be text"),
]


@pytest.mark.proves("AI-4-messages", "AI-4-messages-strict")
@pytest.mark.parametrize(("messages", "words"), WRONG_MESSAGES)
def test_a_wrong_message_is_refused_by_its_place(messages: Any, words: str) -> None:
    assert words in refusal(messages)


def refusal(messages: Any = None, **arguments: Any) -> str:
    with pytest.raises(LLMRequestError) as caught:
        check(messages, **arguments)
    error, sentence = caught.value, str(caught.value)
    assert (error.attempts, error.status, error.provider) == (0, None, None)
    assert len(sentence) < 400
    return sentence


WRONG_TOOLS: list[tuple[Any, str]] = [
    ("f", "tools must be a list of tools"),
    ({}, "tools must be a list of tools"),
    (WEATHER, "tools must be a list of tools, got a value of type dict"),
    (["f"], 'tools[0] must be {"type": "function", "function": {…}}'),
    ([None], "tools[0] must be"),
    ([{}], "tools[0] must be"),
    ([{"name": "f", "parameters": {}}], "tools[0] must be"),
    ([{"type": "web_search"}], "tools[0] must be"),
    ([{"type": "function"}], "tools[0].function must be an object"),
    ([{"type": "function", "function": "f"}], "tools[0].function must be an object"),
    ([{"type": "function", "name": "f"}], "tools[0] must not have 'name': a tool has no such key"),
    ([WEATHER, {**WEATHER, "strict": True}], "tools[1] must not have 'strict'"),
    ([WEATHER, WEATHER], "tools[1].function.name must be unique, got 'get_weather' twice"),
    ([{"type": "function", "function": {}}], "tools[0].function.name must be 1 to 64 letters"),
    (tool(name=""), "tools[0].function.name must be"),
    (tool(name=5), "tools[0].function.name must be"),
    (tool(name="a b"), "tools[0].function.name must be"),
    (tool(name="f\n"), "tools[0].function.name must be"),
    (tool(name="größe"), "tools[0].function.name must be"),
    (tool(name="x" * 65), "tools[0].function.name must be"),
    (tool(description=5), "tools[0].function.description must be text"),
    (tool(description=None), "tools[0].function.description must be text"),
    (tool(parameters=None), "tools[0].function.parameters must be a JSON schema"),
    (tool(parameters=[]), "tools[0].function.parameters must be a JSON schema"),
    (tool(parameters="{}"), "tools[0].function.parameters must be a JSON schema"),
    (tool(strict="yes"), "tools[0].function.strict must be true or false"),
    (
        tool(input_schema={}),
        "tools[0].function must not have 'input_schema': a function has no such key",
    ),
]


@pytest.mark.proves("AI-4-tools")
@pytest.mark.parametrize(("tools", "words"), WRONG_TOOLS)
def test_a_tool_in_another_format_is_refused_by_its_place(tools: Any, words: str) -> None:
    assert words in refusal(tools=tools)


WRONG_REST: list[tuple[dict[str, Any], str]] = [
    *(({"model": model}, "model must be the name") for model in (None, "", "  ", 5, b"m", ["m"])),
    *(
        ({"temperature": value}, "temperature must be a number from 0 to 1")
        for value in (
            None,
            "0.7",
            True,
            -0.01,
            1.01,
            2,
            HUGE,
            -HUGE,
            float("nan"),
            float("inf"),
            1j,
        )
    ),
    *(
        ({"max_tokens": value}, "max_tokens must be a whole number from 1 to")
        for value in (None, "5", True, 0, -1, 1.0, 2.5, HUGE, -HUGE, 2**31, float("inf"))
    ),
    *(
        ({"stop": value}, "stop must be text, or a list of texts")
        for value in each("", 5, [""], ["a", ""], ["a", 5], {"a"}, {"a": 1}, b"x")
    ),
    *(({"extra": value}, "extra must be an object") for value in each("x", [], {5: 1}, {None: 1})),
    *(
        ({"tool_choice": value, "tools": [WEATHER]}, "tool_choice must be")
        for value in each("", "any", 5, [], {}, "get_weather", {"type": "function"}, {"name": "f"})
    ),
    (
        {"tool_choice": {"type": "tool", "function": {"name": "get_weather"}}, "tools": [WEATHER]},
        "tool_choice must be",
    ),
    (
        {"tool_choice": {"type": "function", "function": {"name": "other"}}, "tools": [WEATHER]},
        "tool_choice must name a function in tools, got 'other'",
    ),
    (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        "tool_choice must name a function in tools, got 'f'",
    ),
    ({"tool_choice": "required"}, 'tool_choice "required" needs at least one tool; pass tools'),
    *(
        ({"response_format": value}, "response_format must be a JSON schema or a pydantic model")
        for value in each("json", 5, [], dict, int, list[int], City(name="x"), City | None)
    ),
    *(
        (
            {"response_format": model},
            f"response_format must have a JSON schema, and {model.__name__} has none",
        )
        for model in (BaseModel, Uncallable, Unfinished)
    ),
    *(
        (
            {"response_format": {"type": "json_schema", "json_schema": value}},
            "response_format.json_schema must be",
        )
        for value in each(
            None, "x", [], {}, {"name": "x"}, {"schema": []}, {"schema": {}, "name": 5}
        )
    ),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": {}, "strict": "no"},
            }
        },
        "response_format.json_schema.strict must be true or false",
    ),
]


@pytest.mark.proves("AI-3-temperature")
@pytest.mark.parametrize(("arguments", "words"), WRONG_REST)
def test_any_other_wrong_argument_is_refused_by_its_name(
    arguments: dict[str, Any], words: str
) -> None:
    assert words in refusal(**arguments)


def test_a_long_value_is_shown_by_its_beginning() -> None:
    sentence = refusal([{"role": "x" * 10_000_000, "content": "x"}])
    assert "xxx…" in sentence
    assert len(sentence) < 200


# What is right.


@pytest.mark.proves("AI-4-messages")
@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": ""},
        {"role": "user", "content": "Größe 😀 \0"},
        {"role": "user", "content": "Hi", "name": "ada"},
        {"role": "assistant", "content": "Hello"},
        {"role": "assistant", "content": "Hello", "name": "bot", "reasoning": "They said hi."},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": ""},
                {"type": "image_url", "image_url": {"url": PIXEL}},
                {"type": "image_url", "image_url": {"url": "https://a.example/b?c=d#e"}},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            ],
        },
    ],
)
def test_a_right_message_goes_through_as_it_is(message: dict[str, Any]) -> None:
    for messages in ([message], (message,), [MappingProxyType(message)], [ChainMap(message)]):
        assert check(messages).messages == [message]


@pytest.mark.parametrize(
    ("given_", "taken"),
    [
        ({**USER, "name": None}, USER),
        ({"role": Role.USER, "content": USER["content"]}, USER),
        ({"role": "user", "content": ({"type": "text", "text": "a"},)}, None),
        (
            image(PIXEL)[0],
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": PIXEL}}],
            },
        ),
        (
            {"role": "assistant", "content": "x", "tool_calls": None, "reasoning": None},
            {"role": "assistant", "content": "x"},
        ),
        (
            {"role": "assistant", "content": "x", "tool_calls": []},
            {"role": "assistant", "content": "x"},
        ),
    ],
)
def test_what_is_left_out_or_short_is_taken(given_: Any, taken: Any) -> None:
    if taken is None:
        taken = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    assert check([given_]).messages == [taken]


ARGUMENTS: list[tuple[Any, str]] = [
    ({}, "{}"),
    ({"city": "Größe"}, '{"city": "Größe"}'),
    (MappingProxyType({"a": [1, None]}), '{"a": [1, null]}'),
    ({"a": HALF}, json.dumps({"a": HALF})),  # which only an escape can carry
    (None, "{}"),
    ("", "{}"),
    ('{"a": 1}', '{"a": 1}'),
    ('{"a": "\n"}', '{"a": "\n"}'),
    (' {"a" : 1}\n', ' {"a" : 1}\n'),
]


@pytest.mark.parametrize(("arguments", "text"), ARGUMENTS)
def test_tool_calls_are_taken_in_our_form_and_in_that_of_openai(arguments: Any, text: str) -> None:
    function = {"name": "f", "arguments": arguments}
    forms: list[dict[str, Any]] = [
        {"id": "1", **function},
        {"id": "1", "type": "function", "function": function},
        {"id": "1", "type": "function", "index": 0, "function": function},
    ]
    for form in forms:
        for more in ({}, {"signature": "s"}, {"signature": None}):
            sent = check(called({**form, **more})).messages[1]
            kept = {key: value for key, value in more.items() if value is not None}
            assert sent["tool_calls"] == [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "f", "arguments": text},
                    **kept,
                }
            ]
            assert sent["content"] is None
            json.dumps(sent, ensure_ascii=False).encode()


def test_a_conversation_with_calls_and_results_is_taken() -> None:
    two: list[Any] = [{"id": id_, "name": "get_weather", "arguments": {}} for id_ in ("a", "b")]
    both = {"role": "assistant", "content": "Let me see.", "tool_calls": two}
    results = [{"role": "tool", "tool_call_id": id_, "content": "sunny"} for id_ in ("b", "a")]
    later = [{"role": "tool", "tool_call_id": "call_1", "content": "", "name": "get_weather"}]
    without_content = {key: CALLED[key] for key in ("role", "tool_calls")}
    messages = [USER, both, *results, without_content, *later, {"role": "assistant", "content": ""}]
    taken = check(messages, tools=[WEATHER]).messages
    assert [message["role"] for message in taken] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant")
    ]
    assert taken[4]["content"] is None


@pytest.mark.proves("AI-4-tools")
@pytest.mark.parametrize(
    "tools",
    [
        [WEATHER],
        (WEATHER,),
        tool(),
        tool(name="a-Z_0" * 12),
        tool(description="", parameters={}, strict=True),
        [],
        [*tool(), WEATHER],
    ],
)
def test_a_tool_in_the_format_of_openai_is_taken(tools: Any) -> None:
    assert list(check(tools=tools).tools) == list(tools)


@pytest.mark.parametrize(
    ("choice", "tools", "taken"),
    [
        (None, [WEATHER], None),
        ("auto", [WEATHER], "auto"),
        ("none", [WEATHER], "none"),
        ("required", [WEATHER], "required"),
        ("auto", None, None),
        ("none", [], None),
        ({"type": "function", "function": {"name": "get_weather"}}, [WEATHER], "tool:get_weather"),
    ],
)
def test_a_choice_of_tools_is_taken(choice: Any, tools: Any, taken: str | None) -> None:
    assert check(tools=tools, tool_choice=choice).tool_choice == taken


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("response_format", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Schema("answer", None)),
        (SCHEMA, Schema("answer", SCHEMA)),
        ({"anyOf": [SCHEMA]}, Schema("answer", {"anyOf": [SCHEMA]})),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            Schema("n", SCHEMA),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}},
            Schema("answer", SCHEMA, strict=True),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": None}},
            Schema("answer", SCHEMA),
        ),
        (City, Schema("City", City.model_json_schema(), strict=None)),
        (Box[int], Schema("Box_int_", Box[int].model_json_schema(), strict=None)),
    ],
)
def test_a_format_of_the_answer_is_taken(response_format: Any, schema: Schema | None) -> None:
    assert check(response_format=response_format).schema == schema


@pytest.mark.proves("AI-3-temperature")
@pytest.mark.parametrize("temperature", [0, 0.0, -0.0, 0.3, 1, 1.0])
def test_a_temperature_from_0_to_1_is_taken(temperature: float) -> None:
    assert check(temperature=temperature).temperature == temperature


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
    *("image_url", "url", "detail", "function", "id", "arguments", "signature", "index"),
    *("description", "parameters", "strict", "json_schema", "schema", "more"),
]
_VALUES = [
    *("system", "user", "assistant", "tool", "function", "text", "image_url", "json_schema"),
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
    """What is right but for one place, at which anything may stand."""
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
}


def test_the_right_call_is_right() -> None:
    assert isinstance(check_call(**RIGHT), Call)


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


def assert_every_adapter_takes(call: Call) -> None:
    for adapter in ADAPTERS.values():
        try:
            assert isinstance(adapter.body(call, COMPATIBLE), Mapping)
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
            adapter.body(call, COMPATIBLE)
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
