"""Cases that the wire table of Gemini cannot show: any JSON, any cut, and single functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.llm._answer import (
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
    Tokens,
)
from coreason_client.llm._call import ModelCall
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.gemini import ADAPTER, VERTEX
from coreason_client.llm.types import TextDelta

PROFILE = ProviderProfile(name="gemini", wire="gemini")
USER = [{"role": "user", "content": "Hi"}]

# ---------------------------------------------------------------- strategies

_plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_json = st.recursive(
    _plain,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=5,
)


def _or_anything(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there: an object of nothing but nonsense is refused at its door."""
    return st.one_of(value, value, value, _json)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with all or some of the fields, each of which may hold anything."""
    loose = {name: _or_anything(value) for name, value in fields.items()}
    return st.fixed_dictionaries(loose) | st.fixed_dictionaries({}, optional=loose)


_reasons = st.sampled_from(
    ["STOP", "MAX_TOKENS", "SAFETY", "OTHER", "MALFORMED_FUNCTION_CALL", "NEW", "", 0, 1, 9, 10**30]
)
_parts = _some(
    text=st.text(max_size=8),
    thought=st.booleans(),
    thoughtSignature=st.text(max_size=8),
    functionCall=_some(
        id=st.text(max_size=4),
        name=st.text(max_size=4),
        args=st.dictionaries(st.text(max_size=4), _json, max_size=2),
    ),
)
_counts = st.integers(-1, 2**60)
_nearly_replies = _some(
    candidates=st.lists(
        _or_anything(
            _some(
                content=_some(parts=st.lists(_or_anything(_parts), max_size=3)),
                finishReason=_reasons,
                finishMessage=st.text(max_size=8),
                index=st.integers(0, 1),
            )
        ),
        min_size=1,
        max_size=2,
    ),
    promptFeedback=_some(blockReason=_reasons),
    usageMetadata=_some(
        promptTokenCount=_counts,
        candidatesTokenCount=_counts,
        thoughtsTokenCount=_counts,
        totalTokenCount=_counts,
        toolUsePromptTokenCount=_counts,
        cachedContentTokenCount=_counts,
    ),
)
_nearly_errors = _some(
    error=_some(
        code=st.integers(0, 999),
        message=st.text(max_size=8),
        status=st.text(max_size=8),
        details=st.lists(
            _or_anything(
                _some(
                    reason=st.text(max_size=8),
                    retryDelay=st.text(max_size=8) | st.from_regex(r"[0-9]{1,12}s"),
                    fieldViolations=st.lists(_or_anything(_some(field=st.text(max_size=8)))),
                )
            ),
            max_size=3,
        ),
    )
)
_anything = _json | _nearly_replies | _nearly_errors | st.lists(_nearly_errors, max_size=2)


def _written(value: Any) -> bytes:
    return json.dumps(value).encode()


# ---------------------------------------------------------------- any JSON whatever


@given(_anything)
@example({"candidates": [{"finishReason": True, "content": {"parts": [{"text": "a"}]}}]})
def test_any_reply_is_an_answer_or_malformed(reply: Any) -> None:
    try:
        answer = ADAPTER.answer(reply)
    except Malformed:
        return
    _check(answer)


def _check(answer: ModelAnswer) -> None:
    assert answer.content is None or answer.content
    assert answer.end in ("stop", "length", "filtered")
    for call in answer.calls:
        assert call.name
        assert call.id is None or call.id
        assert isinstance(call.arguments, str | dict)
        assert isinstance(call.signature, str | None)
    if answer.tokens is not None:
        assert answer.tokens.prompt is not None or answer.tokens.completion is not None
        assert all(
            number is None or number >= 0
            for number in (answer.tokens.prompt, answer.tokens.completion, answer.tokens.reasoning)
        )


@given(_anything)
def test_any_body_is_a_fault_or_none(reply: Any) -> None:
    fault = ADAPTER.fault(reply)
    if fault is not None:
        assert all(fault.codes)
        assert fault.status is None or 400 <= fault.status <= 599
        assert fault.retry_after is None or fault.retry_after > 0


@given(st.lists(_anything.map(_written) | st.binary(max_size=20), max_size=4))
def test_any_events_are_read_or_refused(events: list[bytes]) -> None:
    reader = ADAPTER.reader()
    for data in events:
        try:
            reader.read(data, b"")
        except (FaultReceived, Malformed):
            break
    _check(reader.answer())


# ---------------------------------------------------------------- a stream is the same answer

_text_parts = st.builds(
    lambda words, thought: {"text": words, **({"thought": True} if thought else {})},
    st.text(max_size=12),
    st.booleans(),
)
_call_parts = st.builds(
    lambda name, args, id_, signature: {
        "functionCall": {"name": name, "args": args, **({"id": id_} if id_ else {})},
        **({"thoughtSignature": signature} if signature else {}),
    },
    st.text("abc_", min_size=1, max_size=6),
    st.dictionaries(
        st.text(max_size=6),
        st.integers(-(2**63), 2**63) | st.text(max_size=6) | st.booleans() | st.none(),
        max_size=3,
    ),
    st.none() | st.text("0123456789", min_size=1, max_size=6),
    st.none() | st.text("ABCDEFGH=", min_size=1, max_size=6),
)


@st.composite
def _cut(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Parts, and the same in groups, where texts may also be cut in two."""
    parts = draw(st.lists(_text_parts | _call_parts, max_size=6))
    groups: list[list[dict[str, Any]]] = [[]]
    for part in parts:
        words = part.get("text", "")
        place = draw(st.integers(0, len(words)))
        pieces = (
            [{**part, "text": words[:place]}, {**part, "text": words[place:]}] if words else [part]
        )
        for piece in pieces:
            if draw(st.booleans()):
                groups.append([])
            groups[-1].append(piece)
    return parts, groups


@given(_cut(), st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", 1, 2]), st.booleans())
def test_a_stream_cut_anywhere_is_the_same_answer(
    cut: tuple[list[dict[str, Any]], list[list[dict[str, Any]]]], reason: Any, apart: bool
) -> None:
    parts, groups = cut
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}
    whole = ADAPTER.answer(_reply(parts, finishReason=reason) | {"usageMetadata": usage})

    events = [_reply(group) | {"usageMetadata": {"promptTokenCount": 3}} for group in groups]
    if apart:  # the end in a separate event, with or without a content
        events.append({"candidates": [{}]})
    events[-1]["candidates"][0]["finishReason"] = reason
    events[-1]["usageMetadata"] = usage
    reader = ADAPTER.reader()
    shown = ""
    for one in events:
        assert reader.end is None
        shown += "".join(
            piece.text for piece in reader.read(_written(one), b"") if isinstance(piece, TextDelta)
        )
    assert reader.end == whole.end
    assert shown == (whole.content or "")
    assert reader.started == bool(whole.content or whole.reasoning or whole.calls)
    assert _comparable(reader.answer()) == _comparable(whole)

    listed = ADAPTER.reader()
    listed.read(_written(events), b"")
    assert _comparable(listed.answer()) == _comparable(whole)


def _reply(parts: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **more}]}


def _comparable(answer: ModelAnswer) -> ModelAnswer:
    """Return an answer with parsed arguments, and without the ids that a reader makes up."""
    for call in answer.calls:
        if isinstance(call.arguments, str):
            call.arguments = json.loads(call.arguments)
        if call.id is not None and call.id.startswith("call_"):
            call.id = None
    return answer


# ---------------------------------------------------------------- the address


@pytest.mark.parametrize(
    ("model", "address"),
    [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/tale-7k2", "tunedModels/tale-7k2"),
        ("other/gemini", "models/other%2Fgemini"),
        ("models/../../secrets", "models/..%2F..%2Fsecrets"),
        ("../secrets", "models/..%2Fsecrets"),
        ("a?key=b#c d%2F", "models/a%3Fkey%3Db%23c%20d%252F"),
        ("modèle", "models/mod%C3%A8le"),
    ],
)
@pytest.mark.parametrize(
    ("stream", "verb"), [(False, "generateContent"), (True, "streamGenerateContent?alt=sse")]
)
@pytest.mark.proves("AI-3-model")
def test_the_model_is_one_step_of_the_address(
    model: str, address: str, stream: bool, verb: str
) -> None:
    call = ModelCall(model=model, messages=USER, stream=stream)
    assert ADAPTER.url("https://h.example/v1beta", call) == (
        f"https://h.example/v1beta/{address}:{verb}"
    )


# ---------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-1.5-pro", False),
        ("gemini-2.5-flash", False),
        ("gemini-3-pro-preview", True),
        ("models/gemini-3.1-pro-preview", True),
        ("gemini-10-pro", True),
        ("gemini-flash-latest", True),
        ("gemma-3-27b-it", False),
    ],
)
def test_only_models_that_want_a_signature_get_one_for_a_call_of_another_model(
    model: str, signed: bool
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": "\x0f"}'}}
    messages: list[dict[str, Any]] = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    body = ADAPTER.body(ModelCall(model=model, messages=messages), PROFILE)
    first, second = body["contents"][1]["parts"]
    assert ("thoughtSignature" in first) is signed
    assert "thoughtSignature" not in second
    assert first["functionCall"] == {"id": "a", "name": "f", "args": {"x": "\x0f"}}


@given(
    st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["gemini-2.5-flash", "gemma-3-27b-it"]),
)
@pytest.mark.proves("AI-1-prompts")
def test_every_word_of_a_prompt_is_sent_once_and_no_other(
    messages: list[dict[str, Any]], model: str
) -> None:
    body = ADAPTER.body(ModelCall(model=model, messages=messages), PROFILE)
    sent = [*body.get("systemInstruction", {}).get("parts", ())]
    sent += [part for content in body["contents"] for part in content["parts"]]
    system = [m["content"] for m in messages if m["role"] == "system" and m["content"]]
    spoken = [m["content"] for m in messages if m["role"] != "system" and m["content"]]
    assert [part["text"] for part in sent] == system + spoken
    assert all(content["parts"] for content in body["contents"])


def test_the_results_of_each_turn_stay_together() -> None:
    def turn(*ids: str) -> list[dict[str, Any]]:
        function = {"name": "f", "arguments": "{}"}
        calls = [{"id": id_, "type": "function", "function": function} for id_ in ids]
        results = [{"role": "tool", "tool_call_id": id_, "content": '{"x": NaN}'} for id_ in ids]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]

    call = ModelCall(model="m", messages=[*USER, *turn("a", "b"), *turn("c"), *USER])
    contents = ADAPTER.body(call, PROFILE)["contents"]
    assert [(one["role"], len(one["parts"])) for one in contents] == [
        *(("user", 1), ("model", 2), ("user", 2), ("model", 1), ("user", 1), ("user", 1)),
    ]
    # What JSON does not know is sent as the text that it is.
    assert contents[4]["parts"][0]["functionResponse"] == {
        "id": "c",
        "name": "f",
        "response": {"result": '{"x": NaN}'},
    }


def test_a_body_shares_nothing_that_a_call_owns() -> None:
    call = ModelCall(model="m", messages=USER, stop=("END",))
    body = ADAPTER.body(call, PROFILE)
    body["contents"].clear()
    assert call.messages == [{"role": "user", "content": "Hi"}]


def test_a_signature_of_another_provider_is_none() -> None:
    function = {"name": "f", "arguments": "{}"}
    called = {"id": "1", "type": "function", "function": function, "signature": '[{"type":"x"}]'}
    call = ModelCall(
        model="gemini-2.5-pro",
        messages=[*USER, {"role": "assistant", "content": None, "tool_calls": [called]}],
    )
    [part] = ADAPTER.body(call, PROFILE)["contents"][1]["parts"]
    assert "thoughtSignature" not in part


# ---------------------------------------------------------------- details of an error


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("48s", 48.0),
        ("0.5s", 0.5),
        ("34.074824224s", 34.074824224),
        ("0s", None),
        ("-3s", None),
        ("+3s", None),
        ("1_0s", None),
        ("٤s", None),
        ("3", None),
        ("3s\n", None),
        ("9999999999s", None),
        ("1e3s", None),
        (48, None),
        (None, None),
    ],
)
@pytest.mark.proves("AI-6B-429")
def test_the_wait_that_a_body_asks_for(delay: Any, seconds: float | None) -> None:
    fault = ADAPTER.fault({"error": {"code": 429, "details": [{}, {"retryDelay": delay}]}})
    assert fault == ProviderFault("", status=429, retry_after=seconds)


def test_codes_come_with_the_most_special_first_and_once() -> None:
    fault = ADAPTER.fault(
        {
            "error": {
                "code": 400,
                "message": "No.",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {"reason": "API_KEY_INVALID"},
                    {"reason": "INVALID_ARGUMENT"},
                    {"fieldViolations": [{}, {"field": "contents[0]"}, {"field": "tools"}]},
                ],
            }
        }
    )
    assert fault == ProviderFault(
        "No.", ("API_KEY_INVALID", "INVALID_ARGUMENT"), status=400, param="contents[0]"
    )


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"error": "no such key"}, ProviderFault("no such key")),
        ({"error": {"status": "INTERNAL"}}, ProviderFault("INTERNAL", ("INTERNAL",))),
        ({"error": {"code": "quota", "message": "m"}}, ProviderFault("m", ("quota",))),
        ({"error": {"code": 200, "message": "m"}}, ProviderFault("m")),
        ([{}, {"error": {"message": "m", "code": 503}}], ProviderFault("m", status=503)),
        ({"error": {}}, None),
        ({"error": None}, None),
        ({"error": ""}, None),
        ({"error": 7}, None),
        ({"candidates": []}, None),
        ([[{"error": "nested"}]], None),
        ("error", None),
        (None, None),
    ],
)
def test_the_errors_of_a_body(body: Any, fault: ProviderFault | None) -> None:
    assert ADAPTER.fault(body) == fault


# ---------------------------------------------------------------- details of an answer


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({}, None),
        ({"totalTokenCount": 7}, None),
        ({"promptTokenCount": 5}, Tokens(5, None)),
        ({"promptTokenCount": 5, "totalTokenCount": 5}, Tokens(5, 0)),
        ({"promptTokenCount": 5, "totalTokenCount": 4}, Tokens(5, None)),
        ({"promptTokenCount": 5, "thoughtsTokenCount": 2}, Tokens(5, 2, reasoning=2)),
        ({"candidatesTokenCount": 3}, Tokens(None, 3)),
        (
            {"promptTokenCount": 5, "toolUsePromptTokenCount": 4, "totalTokenCount": 10},
            Tokens(9, 1),
        ),
        (
            {
                "promptTokenCount": 5,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 3,
                "thoughtsTokenCount": 2,
                "totalTokenCount": 10,
            },
            Tokens(5, 5, cached=4, reasoning=2),
        ),
    ],
)
@pytest.mark.proves("AI-5-usage")
def test_what_was_counted(usage: Mapping[str, Any], tokens: Tokens | None) -> None:
    reply = _reply([{"text": "Hello"}], finishReason="STOP") | {"usageMetadata": usage}
    assert ADAPTER.answer(reply).tokens == tokens


@pytest.mark.parametrize(
    ("args", "arguments", "streamed"),
    [
        ({"a": "ä\n"}, {"a": "ä\n"}, '{"a":"ä\\n"}'),
        ({}, {}, "{}"),
        (None, "", ""),
        ('{"a": 1}', '{"a": 1}', '{"a": 1}'),
        ([1], "[1]", "[1]"),
        (7, "7", "7"),
    ],
)
def test_arguments_of_any_form(args: Any, arguments: Any, streamed: str) -> None:
    reply = _reply([{"functionCall": {"name": "f", "args": args}}], finishReason="STOP")
    assert ADAPTER.answer(reply).calls == [RawToolCall(None, "f", arguments)]
    reader = ADAPTER.reader()
    reader.read(_written(reply), b"")
    (call,) = reader.answer().calls
    assert (call.name, call.arguments) == ("f", streamed)


@pytest.mark.parametrize("junk", [7, "", None, ["a"], {"a": "b"}])
def test_a_text_is_text_or_nothing(junk: Any) -> None:
    reply = _reply([{"text": junk}, {"text": "Hello"}], finishReason="STOP")
    reader = ADAPTER.reader()
    assert reader.read(_written(_reply([{"text": junk}])), b"") in ((), [])
    assert reader.read(_written(reply), b"") == [TextDelta("Hello")]
    assert reader.answer() == ADAPTER.answer(reply) == ModelAnswer("Hello")


@pytest.mark.parametrize("junk", [7, "", None, ["a"], {"a": "b"}])
def test_an_id_and_a_signature_are_text_or_none(junk: Any) -> None:
    part = {"functionCall": {"name": "f", "args": {}, "id": junk}, "thoughtSignature": junk}
    reply = _reply([part], finishReason="STOP")
    assert ADAPTER.answer(reply).calls == [RawToolCall(None, "f", {})]


def test_the_reason_of_a_failure_is_told_and_bounded() -> None:
    reply = _reply([], finishReason="MALFORMED_FUNCTION_CALL", finishMessage="f(" * 5000)
    with pytest.raises(Malformed, match=r"MALFORMED_FUNCTION_CALL and no answer: f\(") as caught:
        ADAPTER.answer(reply)
    assert caught.value.code == "MALFORMED_FUNCTION_CALL"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("data", [b"", b"7", b'"text"', b"null", b'{"candidates": [', b"\xff"])
def test_an_event_that_is_no_response_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        ADAPTER.reader().read(data, b"")


def test_usage_that_cannot_be_read_replaces_none() -> None:
    reader = ADAPTER.reader()
    for usage in ({"promptTokenCount": 5, "candidatesTokenCount": 2}, {"promptTokenCount": "?"}):
        reader.read(_written(_reply([{"text": "a"}]) | {"usageMetadata": usage}), b"")
    assert reader.tokens == Tokens(5, 2)


def test_a_block_counts_beside_content_too() -> None:
    reply = _reply([{"text": "Some"}]) | {"promptFeedback": {"blockReason": "SAFETY"}}
    reader = ADAPTER.reader()
    reader.read(_written(reply), b"")
    assert reader.answer() == ADAPTER.answer(reply) == ModelAnswer("Some", end="filtered")


@pytest.mark.parametrize("thought", [False, None, "no", 0, 1])
def test_only_what_says_so_is_a_thought(thought: Any) -> None:
    reply = _reply([{"text": "Hello", "thought": thought}], finishReason="STOP")
    reader = ADAPTER.reader()
    reader.read(_written(reply), b"")
    assert reader.answer() == ADAPTER.answer(reply) == ModelAnswer("Hello")


def test_the_end_mark_of_a_gateway_ends_the_stream() -> None:
    reader = ADAPTER.reader()
    assert reader.read(b"[DONE]", b"") == ()
    assert reader.done
    assert reader.end is None


def test_a_failed_stream_keeps_what_had_come_before_the_failure() -> None:
    reader = ADAPTER.reader()
    reader.read(_written(_reply([{"text": "Think", "thought": True}])), b"")
    with pytest.raises(Malformed) as caught:
        reader.read(_written(_reply([], finishReason="OTHER")), b"")
    assert caught.value.code == "OTHER"
    assert reader.answer().reasoning == "Think"
    assert reader.end is None


VERTEX_BASE = "https://aiplatform.googleapis.com/v1/projects/p/locations/global"


@pytest.mark.parametrize(
    ("base", "model", "path"),
    [
        (VERTEX_BASE, "gemini-2.5-pro", "publishers/google/models/gemini-2.5-pro"),
        (VERTEX_BASE, "models/gemini-2.5-pro", "publishers/google/models/gemini-2.5-pro"),
        (
            f"{VERTEX_BASE}/publishers/google",
            *("gemini-2.5-pro", "publishers/google/models/gemini-2.5-pro"),
        ),
        (
            *(VERTEX_BASE, "publishers/google/models/gemini-2.5-pro"),
            "publishers/google/models/gemini-2.5-pro",
        ),
        (VERTEX_BASE, "endpoints/123", "endpoints/123"),
        (VERTEX_BASE, "a/b?c", "publishers/google/models/a%2Fb%3Fc"),
    ],
)
def test_urls_of_vertex(base: str, model: str, path: str) -> None:
    call = ModelCall(model=model, messages=[{"role": "user", "content": "Hi"}])
    assert VERTEX.url(base, call) == f"{VERTEX_BASE}/{path}:generateContent"
    streamed = VERTEX.url(base, replace(call, stream=True))
    assert streamed == f"{VERTEX_BASE}/{path}:streamGenerateContent?alt=sse"
