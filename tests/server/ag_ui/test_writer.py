"""Any packets fold into events that the types of AG-UI accept, in an order that clients accept."""

import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from coreason_client.server import AGUI
from coreason_client.server.ag_ui import _writer
from coreason_client.server.ag_ui._request import RunInput, run_input
from coreason_client.server.ag_ui._writer import START, RunWriter
from coreason_client.server.answer._entries import valid_entries
from tests.installed import python_packages

from ..answer.packets import ANSWERS, STREAM, Packet, entries_of, packets_of
from .model import ENDS, Model, events_of, frames_of
from .serving import called, event, returned

GIVEN: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "content": "Hi"},
    {
        "id": "a1",
        "role": "assistant",
        "name": None,
        "toolCalls": [
            {"id": "c3", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        ],
    },
    {"id": "t1", "role": "tool", "toolCallId": "c3", "content": "ok"},
]


def run_of(**values: Any) -> RunInput:
    return run_input({"threadId": "t", "runId": "r", "messages": GIVEN, **values})


RUN = run_of()
CLOSE: Packet = ("CLOSE", {"reason": "complete"})


def packet(value: Any) -> Packet:
    return ("DELTA", value) if isinstance(value, str) else ("EVENT", value)


def entries(*values: Any, end: Packet | None = CLOSE) -> list[bytes]:
    return entries_of([*map(packet, values), *([] if end is None else [end])])


def writer_of(
    found: list[bytes], after: tuple[int, int] = START, run: RunInput = RUN, **settings: Any
) -> RunWriter:
    writer = RunWriter(STREAM, run, AGUI(max_tool_result=20, **settings), after)
    writer.loaded = found
    return writer


def written(found: list[bytes], **options: Any) -> bytes:
    writer = writer_of(found, **options)
    return writer.start() + writer.feed(found)


def joined(found: list[bytes], count: int, after: int = -1) -> bytes:
    """Return what a reader gets that joins after some packets."""
    writer = writer_of(found)
    writer.begin_snapshot()
    assert not writer.feed(found[:count])
    return writer.end_snapshot(after) + writer.feed(found[count:])


def model_of(body: bytes) -> Model:
    return Model(RUN.given).add_all(events_of(body))


@pytest.fixture(scope="module")
def adapter() -> Any:
    """The types of the package for Python."""
    sys.path.append(str(python_packages("ag-ui-protocol==1.0.0")))
    try:
        event: Any = import_module("ag_ui.core").Event
        return TypeAdapter[Any](event)
    finally:
        sys.path.pop()


def check_no_null(value: Any) -> None:
    """Check that no member is null; the values of events of the agent may have some."""
    if isinstance(value, dict):
        for name, one in value.items():
            assert one is not None
            if name != "value":
                check_no_null(one)
    elif isinstance(value, list):
        for one in value:
            check_no_null(one)


@given(answer=ANSWERS, interrupts=st.booleans())
def test_every_event_has_a_type_that_the_package_knows(
    adapter: Any, answer: list[Packet], interrupts: bool
) -> None:
    found = entries_of(answer)
    for body in (written(found, interrupts=interrupts), joined(found, len(found))):
        for one in events_of(body):
            parsed = adapter.validate_python(one)
            assert parsed.model_dump(by_alias=True, mode="json") == one
            assert not parsed.model_extra
            check_no_null(one)


@given(ANSWERS)
def test_the_order_is_one_that_clients_accept(answer: list[Packet]) -> None:
    model = model_of(written(entries_of(answer)))
    assert model.last is not None
    assert model.last["type"] in ENDS


@given(ANSWERS)
def test_the_text_is_exact(answer: list[Packet]) -> None:
    shown = ("MARKDOWN_BLOCK", "MEDIA_CAROUSEL")
    answer = [(op, p) for op, p in answer if op != "EVENT" or p.get("type") not in shown]
    found = entries_of(answer)
    texts = [
        one["p"] for one in packets_of([e for _, e in valid_entries(found)]) if one["op"] == "DELTA"
    ]
    messages = model_of(written(found)).messages[len(GIVEN) :]
    said = [one.get("content", "") for one in messages if one["role"] == "assistant"]
    assert "".join(said) == "".join(texts)


@given(ANSWERS)
def test_a_resume_after_any_event_has_exactly_the_others(answer: list[Packet]) -> None:
    found = entries_of(answer)
    frames = frames_of(written(found))
    assert len({name for name, _ in frames}) == len(frames)
    for index, (name, _) in enumerate(frames):
        seq, _, number = name.removeprefix(f"{STREAM}:").partition(".")
        rest = written(found, after=(int(seq), int(number)))
        assert frames_of(rest) == frames[index + 1 :]


@given(ANSWERS)
def test_a_reader_who_joins_has_the_same_messages(answer: list[Packet]) -> None:
    found = entries_of(answer)
    whole = model_of(written(found))
    for count in range(1, len(found) + 1):
        model = model_of(joined(found, count))
        assert model.messages == whole.messages
        assert model.last == whole.last


@given(ANSWERS)
def test_a_reader_who_joins_has_the_events_of_the_agent(answer: list[Packet]) -> None:
    answer = [one for one in answer if one[0] != "EVENT" or one[1].get("type") != "REWIND"]
    found = entries_of(answer)
    whole = model_of(written(found)).custom
    for count in range(1, len(found) + 1):
        assert model_of(joined(found, count)).custom == whole


@given(ANSWERS, st.data())
def test_a_join_can_be_resumed_after_any_event(answer: list[Packet], data: st.DataObject) -> None:
    found = entries_of(answer)
    count = data.draw(st.integers(1, len(found)))
    frames = frames_of(joined(found, count))
    for index, (name, _) in enumerate(frames):
        prefix, _, number = name.rpartition(".")
        if prefix.endswith(".s"):
            rest = joined(found, count, int(number))
        else:
            seq = int(prefix.rpartition(":")[2])
            assert seq > count
            rest = written(found, after=(seq, int(number)))
        assert frames_of(rest) == frames[index + 1 :]


@given(ANSWERS, st.data())
def test_pages_of_any_size_give_the_same_bytes(answer: list[Packet], data: st.DataObject) -> None:
    found = entries_of(answer)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(found)), max_size=4)))
    pages = [found[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    by_page, by_body = writer_of(found), writer_of(found)
    pieces, bodies = [by_page.start()], [by_body.start()]
    for page in pages:
        pieces.append(by_page.feed(page))
        bodies.append(by_body.feed_joined(b"".join(page)))
    assert b"".join(pieces) == b"".join(bodies) == written(found)


# What each kind of packet becomes.


def kinds(body: bytes) -> list[str]:
    return [one["type"] for one in events_of(body)]


def test_ids_are_those_of_the_packets() -> None:
    names = [name for name, _ in frames_of(written(entries("a", "b")))]
    assert names == [f"{STREAM}:{one}" for one in ("0.0", "1.0", "1.1", "2.0", "3.0", "3.1")]


def test_an_epoch_is_part_of_the_id() -> None:
    entry = entries("a", end=None)[0].replace(b":1\n", b":1:2:1\n", 1)
    names = [name for name, _ in frames_of(written([entry]))]
    assert names[1:] == [f"{STREAM}:1:2:1.0", f"{STREAM}:1:2:1.1"]


def test_the_members_of_a_start() -> None:
    [first] = events_of(writer_of([]).start())
    assert first == {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    run = run_of(protocolVersion="7.3", parentRunId="p")
    [first] = events_of(writer_of([], run=run).start())
    assert (first["protocolVersion"], first["parentRunId"]) == ("1.0", "p")


def test_thoughts_are_one_message_with_paragraphs() -> None:
    thought = [event("THOUGHT_TRACE", content=text) for text in ("a", "", "b")]
    body = written(entries(*thought, "text"))
    assert kinds(body)[1:7] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    events = events_of(body)
    assert {one["messageId"] for one in events[1:7]} == {f"msg_{STREAM.hex}_1"}
    assert events[7]["messageId"] == f"msg_{STREAM.hex}_4"
    assert model_of(body).messages[3]["content"] == "a\n\nb"


def test_markdown_and_media_are_text() -> None:
    media = event("MEDIA_CAROUSEL", items=[{"url": "https://a.example/b", "mime_type": "image/x"}])
    body = written(entries("a", event("MARKDOWN_BLOCK", content="# b"), media))
    [message] = model_of(body).messages[len(GIVEN) :]
    image = "![https://a.example/b](https://a.example/b)"
    assert message["content"] == f"a\n\n# b\n\n{image}\n\n"
    block, call = event("MARKDOWN_BLOCK", content="b"), called("x", "t", {})
    messages = model_of(written(entries(block, call, "a", block))).messages[len(GIVEN) :]
    assert [one["content"] for one in messages[::2]] == ["b\n\n", "a\n\nb\n\n"]


def test_a_call_belongs_to_the_text_before_it_or_to_a_message_of_its_own() -> None:
    call = [called(name, "t", {}) for name in ("x", "y", "z")]
    body = written(entries("a", call[0], call[1], returned("x", 1), call[2], returned("y", 2)))
    messages = model_of(body).messages[len(GIVEN) :]
    names = [[one["id"] for one in message.get("toolCalls", ())] for message in messages]
    assert names == [["x", "y"], [], [], ["z"], []]
    assert [one.get("toolCallId") for one in messages] == [None, "x", "y", None, "z"]
    thought = event("THOUGHT_TRACE", content="hm")
    messages = model_of(written(entries("a", thought, call[0]))).messages[len(GIVEN) :]
    assert [one["role"] for one in messages] == ["assistant", "reasoning", "assistant", "tool"]


def test_the_id_of_a_call_is_changed_if_the_client_knows_it() -> None:
    again = [called("x", "t", {}), returned("x", 1)]
    body = written(entries(called("c3", "t", {}), *again, *again))
    calls = [one["toolCallId"] for one in events_of(body) if one["type"] == "TOOL_CALL_START"]
    assert calls == ["c3_1", "x", "x_4"]
    results = [one["toolCallId"] for one in events_of(body) if one["type"] == "TOOL_CALL_RESULT"]
    assert results == ["x", "x_4", "c3_1"]


def test_a_tool_result_is_cut_with_a_mark_and_its_length() -> None:
    body = written(entries(called("x", "t", None), returned("x", "x" * 30)))
    [result] = [one for one in events_of(body) if one["type"] == "TOOL_CALL_RESULT"]
    assert result["content"] == f"{'x' * 20}\n[cut after 20 of 30 characters]"
    assert "metadata" not in result


def test_a_call_without_a_result_gets_one_at_the_end() -> None:
    events = events_of(written(entries(called("x", "t", {}))))
    assert (events[-2]["type"], events[-2]["metadata"]) == ("TOOL_CALL_RESULT", {"is_error": True})
    assert "ended" in events[-2]["content"]


def test_a_call_of_a_tool_of_the_page_is_left_to_the_page() -> None:
    run = run_of(tools=[{"name": "click", "description": "Clicks"}])
    call = called("x", "click", {})
    events = events_of(written(entries(call, called("y", "t", {})), run=run))
    assert [one.get("toolCallId") for one in events if one["type"] == "TOOL_CALL_RESULT"] == ["y"]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["x"]}
    failed: Packet = ("ERROR", {"code": "bad", "message": "No.", "severity": "FATAL"})
    events = events_of(written(entries(call, end=failed), run=run))
    assert [one["type"] for one in events[-2:]] == ["TOOL_CALL_RESULT", "RUN_ERROR"]


ASKED: Packet = ("CLOSE", {"reason": "input_required"})
LOGIN: Packet = ("CLOSE", {"reason": "auth_required"})


def outcome(*values: Any, end: Packet = ASKED, **options: Any) -> Any:
    last = events_of(written(entries(*values, end=end), **options))[-1]
    assert last["type"] == "RUN_FINISHED"
    assert "result" not in last
    return last["outcome"]


def test_a_question_is_an_interrupt_if_that_is_wanted() -> None:
    question = event("QUESTION", question="Where?")
    name = f"question_{STREAM.hex}"
    assert outcome(question, "Where?") == {"type": "success"}
    interrupt = {"id": name, "message": "Where?", "reason": "input_required"}
    wanted = {"type": "interrupt", "interrupts": [interrupt]}
    assert outcome(question, "Where?", interrupts=True) == wanted
    interrupt["reason"] = "auth_required"
    assert outcome(question, "Where?", end=LOGIN, interrupts=True) == wanted
    assert outcome(question, "Never mind.", end=CLOSE, interrupts=True) == {"type": "success"}
    assert outcome("Where?", interrupts=True) == {"type": "success"}


def test_a_question_about_a_call_is_always_an_interrupt() -> None:
    question = event("QUESTION", question="May I?", call_id="x")
    found = entries(called("x", "t", {}), called("y", "t", {}), question, "May I?", end=ASKED)
    events = events_of(written(found))
    assert events[-1]["outcome"]["interrupts"] == [
        {
            "id": f"question_{STREAM.hex}",
            "message": "May I?",
            "reason": "tool_call",
            "toolCallId": "x",
        }
    ]
    assert [one["toolCallId"] for one in events if one["type"] == "TOOL_CALL_RESULT"] == ["y"]
    answered = [called("x", "t", {}), question, returned("x", 1)]
    assert outcome(*answered) == {"type": "success"}


def test_an_answer_that_fails_or_is_cancelled() -> None:
    usage = event("USAGE", prompt_tokens=1, completion_tokens=2, total_tokens=9)
    failed: Packet = ("ERROR", {"code": "bad", "message": "No.", "severity": "FATAL"})
    last = events_of(written(entries("a", usage, end=failed)))[-1]
    counts = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    assert last == {"type": "RUN_ERROR", "message": "No.", "code": "bad", "usage": [counts]}
    stopped: Packet = ("ERROR", {"code": "cancelled", "message": "Stop.", "severity": "FATAL"})
    last = events_of(written(entries("a", usage, end=stopped)))[-1]
    assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    assert last["usage"] == [counts]
    assert "usage" not in events_of(written(entries("a")))[-1]


def test_what_has_no_event_of_its_own_is_custom() -> None:
    warning = {"code": "slow", "message": "Slow.", "severity": "WARNING"}
    limit = event("USAGE", prompt_tokens=1, completion_tokens=2, finish_reason="length")
    own, odd = event("MY_OWN", a=None), {"kind": "no type"}
    progress = event("PROGRESS_INDICATOR", label="l", status="running")
    packets: list[Packet] = [("ERROR", warning), *map(packet, (own, odd, progress, limit)), CLOSE]
    body = written(entries_of(packets))
    values = dict(model_of(body).custom)
    assert values == {
        "warning": values["warning"],
        "MY_OWN": own,
        "event": odd,
        "progress": progress["data"],
        "limit": {"reason": "length"},
    }
    assert values["warning"]["code"] == "slow"


# Words that are taken back.

REWIND_1 = event("REWIND", to_seq=1)


def after_rewind(*values: Any) -> list[dict[str, Any]]:
    """Return the events of the REWIND packet, which is the last one."""
    found = entries(*values, end=None)
    return [
        one for name, one in frames_of(written(found)) if name.startswith(f"{STREAM}:{len(found)}.")
    ]


def test_a_snapshot_keeps_the_messages_of_the_user() -> None:
    [snapshot] = after_rewind("a", "b", REWIND_1)
    assert snapshot["messages"][:3] == RUN.given
    assert "name" not in snapshot["messages"][1]  # it was null, which clients refuse
    assert [one["content"] for one in snapshot["messages"][3:]] == ["a"]


def test_an_open_message_goes_on_under_its_id() -> None:
    body = written(entries("a", "b", REWIND_1, "c"))
    assert kinds(body)[3:] == [
        "TEXT_MESSAGE_CONTENT",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert model_of(body).messages[-1]["content"] == "ac"


def test_a_message_that_had_ended_is_opened_again() -> None:
    thought = event("THOUGHT_TRACE", content="hm")
    events = after_rewind("a", thought, REWIND_1)
    assert [one["type"] for one in events] == [
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
    ]
    assert events[-1]["messageId"] == f"msg_{STREAM.hex}_1"
    events = after_rewind(thought, "a", REWIND_1)
    assert [one["type"] for one in events] == [
        "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
        "REASONING_START",
        "REASONING_MESSAGE_START",
    ]


def test_a_call_that_is_taken_back_and_made_again_has_its_id() -> None:
    call = called("x", "t", {})
    body = written(entries("a", call, returned("x", 1), REWIND_1, "b", call, returned("x", 2)))
    messages = model_of(body).messages[len(GIVEN) :]
    assert [one["content"] for one in messages] == ["ab", "2"]
    assert messages[0]["toolCalls"][0]["id"] == "x"


def test_a_snapshot_that_is_too_large_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writer, "_MAX_SNAPSHOT", 400)
    found = entries("a" * 300, "b", REWIND_1, "c")
    events = events_of(written(found))
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "rewind_too_large")
    events = events_of(joined(found, 2))
    assert [one["type"] for one in events] == ["RUN_STARTED", "RUN_ERROR"]
    monkeypatch.undo()
    assert _writer._MAX_SNAPSHOT == 8_000_000
    assert kinds(written(found))[-1] == "RUN_FINISHED"
