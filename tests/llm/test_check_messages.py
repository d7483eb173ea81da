"""Messages: every valid form is accepted, and the error for any other names its location."""

import json
import operator
from collections import ChainMap
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from coreason_client import LLMClient
from coreason_client.llm import LLMRequestError
from coreason_client.llm._check_messages import (
    CheckedMessages,
    check_messages,
    check_next_messages,
)
from coreason_client.testing import fake_model

from .calls import CALLED, HALF, HUGE, PIXEL, RESULT, USER, rejection


class Role(StrEnum):
    USER = "user"


def image(value: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": value}]}]


def called(call: Any) -> list[Any]:
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]


def plain(**changed: Any) -> list[Any]:
    return called({"id": "1", "name": "f", "arguments": {}} | changed)


def wrapped(**changed: Any) -> list[Any]:
    return called({"id": "1", "type": "function", "function": {"name": "f"} | changed})


def circular() -> dict[str, Any]:
    round_: dict[str, Any] = {}
    round_["again"] = round_
    return round_


def deep(levels: int = 100_000) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


# Wrong messages, and a part of the error, which names the location.
WRONG_MESSAGES: list[tuple[Any, str]] = [
    (HALF, "messages[0].content must be valid Unicode"),
    ({"role": "user", "content": "x"}, "messages must be text, or a list"),
    (5, "messages must be text, or a list of messages, got 5"),
    (iter([USER]), "messages must be text, or a list"),
    ([], "messages must have at least one message, got an empty list"),
    ((), "messages must have at least one message, got an empty list"),
    ([USER, "hello"], "messages[1] must be an object"),
    ([USER, None], "messages[1] must be an object"),
    (
        [USER, [USER]],
        "messages[1] must be an object with role and content, got a value of type list",
    ),
    ([{"content": "x"}], "messages[0].role must be one of system, developer, user"),
    ([{"role": None, "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "User", "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "function", "content": "x"}], "got 'function'"),
    ([{"role": "developer", "content": []}], "messages[0].content must be text"),
    ([{"role": "developer", "content": HALF}], "messages[0].content must be valid Unicode"),
    ([{"role": "developer", "content": "x", "prefix": True}], "messages[0] must not have 'prefix'"),
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
    ([{"role": "user", "content": [5]}], "messages[0].content[0] must be"),
    ([{"role": "user", "content": [None]}], "messages[0].content[0] must be"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0] must be"),
    (
        [{"role": "user", "content": [{"type": "text", "text": 5}]}],
        "messages[0].content[0].text must",
    ),
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
    (image(""), "messages[0].content[0].image_url.url must be"),
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
def test_the_error_for_a_wrong_message_names_its_location(messages: Any, words: str) -> None:
    assert words in rejection(check_messages, messages)


def test_a_text_is_a_message_of_the_user_wherever_messages_are_taken() -> None:
    with fake_model(["hello"] * 4) as fake, LLMClient("a-key", fake.url) as client:
        client.generate("Hi")
        client.stream("Hi").result()
        results = [client.run("Hi"), client.run_stream("Hi").result()]
        sent = [{"role": "user", "content": "Hi"}]
        assert [request.messages for request in fake.requests] == [sent] * 4
    assert [result.messages[:1] for result in results] == [sent] * 2


def test_a_long_value_is_shown_only_by_its_beginning() -> None:
    sentence = rejection(check_messages, [{"role": "x" * 10_000_000, "content": "x"}])
    assert "xxx…" in sentence
    assert len(sentence) < 200


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
def test_a_valid_message_is_unchanged(message: dict[str, Any]) -> None:
    for messages in ([message], (message,), [MappingProxyType(message)], [ChainMap(message)]):
        assert check_messages(messages) == [message]


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
def test_short_and_empty_forms_are_completed(given_: Any, taken: Any) -> None:
    if taken is None:
        taken = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    assert check_messages([given_]) == [taken]


ARGUMENTS: list[tuple[Any, str]] = [
    ({}, "{}"),
    ({"city": "Größe"}, '{"city":"Größe"}'),
    (MappingProxyType({"a": [1, None]}), '{"a":[1,null]}'),
    ({"a": HALF}, json.dumps({"a": HALF})),  # which only an escape can carry
    (None, "{}"),
    ("", "{}"),
    ('{"a": 1}', '{"a": 1}'),
    ('{"a": "\n"}', '{"a": "\n"}'),
    (' {"a" : 1}\n', ' {"a" : 1}\n'),
]


@pytest.mark.parametrize(("arguments", "text"), ARGUMENTS)
def test_tool_calls_are_accepted_in_our_form_and_in_that_of_openai(
    arguments: Any, text: str
) -> None:
    function = {"name": "f", "arguments": arguments}
    forms: list[dict[str, Any]] = [
        {"id": "1", **function},
        {"id": "1", "type": "function", "function": function},
        {"id": "1", "type": "function", "index": 0, "function": function},
    ]
    for form in forms:
        for more in ({}, {"signature": "s"}, {"signature": None}):
            sent = check_messages(called({**form, **more}))[1]
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


def test_a_conversation_with_calls_and_results_is_accepted() -> None:
    two: list[Any] = [{"id": id_, "name": "get_weather", "arguments": {}} for id_ in ("a", "b")]
    both = {"role": "assistant", "content": "Let me see.", "tool_calls": two}
    results = [{"role": "tool", "tool_call_id": id_, "content": "sunny"} for id_ in ("b", "a")]
    later = [{"role": "tool", "tool_call_id": "call_1", "content": "", "name": "get_weather"}]
    without_content = {key: CALLED[key] for key in ("role", "tool_calls")}
    messages = [USER, both, *results, without_content, *later, {"role": "assistant", "content": ""}]
    taken = check_messages(messages)
    assert [message["role"] for message in taken] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant")
    ]
    assert taken[4]["content"] is None


@pytest.mark.parametrize("key", ["finish_reason", "filtered", "media", "parsed", "truncated"])
def test_the_keys_of_a_response_are_dropped_from_an_assistant_message_only(key: str) -> None:
    answered = {"role": "assistant", "content": "Hello"}
    assert check_messages([{**answered, key: 1}]) == [answered]
    assert f"must not have {key!r}" in rejection(check_messages, [{**USER, key: 1}])


def test_the_items_of_a_provider_are_kept_in_an_assistant_message_only() -> None:
    items = {"openai": [{"type": "reasoning", "anything": [1, None]}], "azure": []}
    answered = {"role": "assistant", "content": "Hello", "provider_items": items}
    assert check_messages([answered]) == [answered]
    assert check_messages([{**answered, "provider_items": None}]) == [
        {"role": "assistant", "content": "Hello"}
    ]
    message = rejection(check_messages, [{**USER, "provider_items": items}])
    assert "must not have 'provider_items'" in message


@pytest.mark.parametrize(
    "items", [[], "x", {"openai": None}, {"openai": {}}, {"openai": [{}, 1]}, {"openai": "text"}]
)
def test_the_items_of_a_provider_must_be_objects(items: Any) -> None:
    answered = {"role": "assistant", "content": "Hello", "provider_items": items}
    assert rejection(check_messages, [USER, answered]).startswith(
        "messages[1].provider_items must be lists of objects by provider name, got "
    )


def test_an_unknown_key_without_a_value_is_dropped() -> None:
    assert check_messages([{**USER, "names": None}]) == [USER]


def test_the_messages_are_copies() -> None:
    given_ = dict(USER)
    [checked] = check_messages([given_])
    checked["content"] = "changed"
    assert given_ == USER


def test_the_error_for_a_wrong_type_has_the_argument_as_a_field() -> None:
    with pytest.raises(LLMRequestError) as caught:
        check_messages([USER, {"role": "user", "content": 5}])
    assert caught.value.argument_error is not None
    assert caught.value.argument_error.argument == "messages[1].content"


def test_a_tool_result_may_be_an_error() -> None:
    for given, kept in ((True, True), (False, None), (None, None)):
        [*_, checked] = check_messages([USER, CALLED, {**RESULT, "is_error": given}])
        assert checked.get("is_error") is kept
    message = rejection(check_messages, [USER, CALLED, {**RESULT, "is_error": "yes"}])
    assert message.startswith("messages[2].is_error must be true or false")


# Messages that were checked before.

CHECKED = CheckedMessages(
    check_messages(
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "name": "f", "arguments": {"a": 1}}],
            },
        ]
    )
)
NEXT = {"role": "tool", "tool_call_id": "c", "content": "1"}


def test_checked_messages_are_not_checked_again() -> None:
    assert check_messages(CHECKED) is CHECKED


def test_only_the_next_messages_are_checked() -> None:
    checked = check_next_messages(CHECKED, [NEXT])
    assert list(checked) == check_messages([*CHECKED, NEXT])
    assert all(map(operator.is_, checked, CHECKED))
    assert check_messages(checked) is checked


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": 5}, r"messages\[2\]\.content"),
        ({**NEXT, "tool_call_id": "d"}, r"messages\[2\]\.tool_call_id"),
    ],
)
def test_a_wrong_next_message_is_an_error(message: dict[str, Any], words: str) -> None:
    with pytest.raises(LLMRequestError, match=words):
        check_next_messages(CHECKED, [message])
