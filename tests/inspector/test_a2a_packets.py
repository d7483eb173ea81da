"""The packets for the events of an A2A agent: a table from wire to wire, in both dialects."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a import (
    A2AConnectionError,
    A2AError,
    A2AHTTPError,
    A2AStreamClosedError,
    Event,
    TaskNotFoundError,
)
from coreason_client.a2a._assemble import Assembly
from coreason_client.a2a._dialects import V03, V10
from coreason_client.a2a._v03._shapes import event_from_v03
from coreason_client.a2a._wire import FROM_PYTHON, event_of
from coreason_client.inspector._a2a_packets import A2AConversation, A2APackets, error_of
from coreason_client.server.a2a._v03._conversions import event_to_v03
from coreason_manifest.definitions.presentation import StreamPacket

IDS = {"taskId": "t", "contextId": "c"}
SUBMITTED = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}


def said(text: str, message_id: str = "m") -> dict[str, Any]:
    return {"messageId": message_id, "role": "ROLE_AGENT", "parts": [{"text": text}]}


def status(state: str, text: str | None = None, message_id: str = "m") -> dict[str, Any]:
    message = {} if text is None else {"message": said(text, message_id)}
    return {"statusUpdate": {**IDS, "status": {"state": f"TASK_STATE_{state}", **message}}}


def artifact(*texts: str, append: bool = False, name: str = "a") -> dict[str, Any]:
    parts = [{"text": text} for text in texts]
    return {
        "artifactUpdate": {
            **IDS,
            "artifact": {"artifactId": name, "parts": parts},
            "append": append,
            "lastChunk": False,
        }
    }


def fatal(code: str, message: str) -> list[Any]:
    return ["ERROR", {"code": code, "message": message, "severity": "FATAL", "details": None}]


# The events, the text of the answer as DELTA packets, the type of each EVENT, and the end.
TABLE: list[tuple[str, list[dict[str, Any]], list[str], list[str], list[Any]]] = [
    ("a message", [{"message": said("Hi")}], ["Hi"], ["a2a.message"], []),
    (
        "an artifact in pieces",
        [{"task": SUBMITTED}, artifact("1"), artifact("2", append=True), status("COMPLETED")],
        ["1", "2"],
        ["a2a.task", "a2a.artifact", "a2a.artifact", "a2a.status"],
        [],
    ),
    (
        "two artifacts are two paragraphs",
        [{"task": SUBMITTED}, artifact("1"), artifact("2", "3", name="b"), status("COMPLETED")],
        ["1", "\n\n23"],
        ["a2a.task", "a2a.artifact", "a2a.artifact", "a2a.status"],
        [],
    ),
    (
        "the status is the answer if there is no other",
        [{"task": SUBMITTED}, status("WORKING", "Wait", "m1"), status("COMPLETED", "Done")],
        ["Done"],
        ["a2a.task", "a2a.status", "a2a.status"],
        [],
    ),
    (
        "the status is not the answer beside an artifact",
        [{"task": SUBMITTED}, artifact("1"), status("COMPLETED", "Done")],
        ["1"],
        ["a2a.task", "a2a.artifact", "a2a.status"],
        [],
    ),
    (
        "a question",
        [{"task": SUBMITTED}, status("INPUT_REQUIRED", "Which?")],
        ["Which?"],
        ["a2a.task", "a2a.status"],
        ["CLOSE", {"reason": "input_required", "question": "Which?"}],
    ),
    (
        "an authorization",
        [{"task": SUBMITTED}, status("AUTH_REQUIRED", "Who?")],
        ["Who?"],
        ["a2a.task", "a2a.status"],
        ["CLOSE", {"reason": "auth_required", "question": "Who?"}],
    ),
    (
        "a failure",
        [{"task": SUBMITTED}, status("FAILED", "It broke.")],
        [],
        ["a2a.task", "a2a.status"],
        fatal("task_failed", "It broke."),
    ),
    (
        "a failure without a reason",
        [{"task": SUBMITTED}, artifact("1"), status("FAILED")],
        ["1"],
        ["a2a.task", "a2a.artifact", "a2a.status"],
        fatal("task_failed", "The task failed."),
    ),
    (
        "a rejection",
        [status("REJECTED", "Not for me.")],
        [],
        ["a2a.status"],
        fatal("rejected", "Not for me."),
    ),
    (
        "a cancellation",
        [{"task": SUBMITTED}, status("CANCELED")],
        [],
        ["a2a.task", "a2a.status"],
        fatal("cancelled", "The task was cancelled."),
    ),
    (
        "a task that is complete at once",
        [
            {
                "task": {
                    "id": "t",
                    "contextId": "c",
                    "status": {"state": "TASK_STATE_COMPLETED"},
                    "artifacts": [{"artifactId": "a", "parts": [{"text": "1"}, {"data": {}}]}],
                    "history": [said("secret history")],
                }
            }
        ],
        ["1"],
        ["a2a.task"],
        [],
    ),
    (
        "a file has no text",
        [
            {
                "artifactUpdate": {
                    **IDS,
                    "artifact": {"artifactId": "a", "parts": [{"raw": "QUJD", "filename": "x"}]},
                }
            },
            status("COMPLETED"),
        ],
        [],
        ["a2a.artifact", "a2a.status"],
        [],
    ),
]


def parse_event(wrapper: dict[str, Any]) -> Any:
    """Return the event of an object that is wrapped under its kind, as in protocol 1.0."""
    return event_of(FROM_PYTHON["event"](wrapper))


def events_of(wire: list[dict[str, Any]], dialect: str) -> list[Event]:
    """Return the events as a client yields them, from JSON of a version of the protocol."""
    assembly, found = Assembly(), list[Event]()
    for one in wire:
        given = one if dialect == "1.0" else event_from_v03(event_to_v03(one))
        found += assembly.apply(parse_event(given))
    return found


def packets_of(events: list[Event], before: A2AConversation | None = None) -> list[list[Any]]:
    """Return the packets as they are on the wire, and check that each is valid."""
    maker, found = A2APackets(before), list[list[Any]]()
    for payloads in (*map(maker.of, events), maker.end()):
        for op, p in payloads:
            packet = StreamPacket(
                stream_id="00000000-0000-0000-0000-000000000001",
                seq=1,
                op=op,
                t="2026-01-01T00:00:00Z",
                p=p,
            )
            dumped = json.loads(packet.model_dump_json())
            found.append([dumped["op"], dumped["p"]])
    return found


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
@pytest.mark.parametrize(
    ("events", "texts", "types", "end"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_table(
    events: list[dict[str, Any]], texts: list[str], types: list[str], end: list[Any], dialect: str
) -> None:
    packets = packets_of(events_of(events, dialect))
    assert [p for op, p in packets if op == "DELTA"] == texts
    assert [p["type"] for op, p in packets if op == "EVENT"] == types
    assert [packet for packet in packets if packet[0] in ("CLOSE", "ERROR")] == (
        [end] if end else []
    )
    assert not end or packets[-1] == end
    assert "secret history" not in json.dumps(packets)


def test_both_dialects_give_the_same_packets() -> None:
    for name, events, *_ in TABLE:
        new, old = (packets_of(events_of(events, dialect)) for dialect in ("1.0", "0.3"))
        for packet in (*new, *old):
            _drop_defaults(packet[1])
        assert new == old, name
    assert V10.version != V03.version


def _drop_defaults(p: Any) -> None:
    """Take out the members that one version has to write and the other need not."""
    if isinstance(p, dict) and "data" in p:
        for name in ("final", "append", "lastChunk"):
            p["data"].pop(name, None)


def test_the_data_of_an_event_is_the_json_of_protocol_1() -> None:
    [_, [_, event], *_] = packets_of(
        events_of([{"task": SUBMITTED}, status("WORKING", "x")], "0.3")
    )
    assert event["type"] == "a2a.status"
    assert event["data"]["status"]["state"] == "TASK_STATE_WORKING"
    assert event["data"]["taskId"] == "t"
    assert event["data"]["status"]["message"]["parts"] == [{"text": "x"}]


# Follow-ups


def test_the_answer_to_a_question_continues_the_task_and_repeats_nothing() -> None:
    first = A2APackets()
    for event in events_of(
        [{"task": SUBMITTED}, artifact("1"), status("INPUT_REQUIRED", "?")], "1.0"
    ):
        first.of(event)
    then = first.conversation
    assert (then.context_id, then.task_id) == ("c", "t")
    message = then.message("blue")
    assert (message.context_id, message.task_id, message.text) == ("c", "t", "blue")

    waiting = {"state": "TASK_STATE_INPUT_REQUIRED", "message": said("?")}
    earlier = [{"artifactId": "a", "parts": [{"text": "1"}]}]
    task = {"id": "t", "contextId": "c", "status": waiting, "artifacts": earlier}
    second = [{"task": task}, artifact("2", name="b"), status("COMPLETED")]
    packets = packets_of(events_of(second, "1.0"), then)
    assert [p for op, p in packets if op == "DELTA"] == ["2"]
    assert packets[-1][0] == "EVENT"


def test_a_task_that_is_over_is_not_continued_but_its_conversation_is() -> None:
    packets = A2APackets()
    for event in events_of([{"task": SUBMITTED}, artifact("1"), status("COMPLETED")], "1.0"):
        packets.of(event)
    assert packets.task_id == "t"
    assert packets.conversation == A2AConversation("c")


def test_an_answer_that_never_began_changes_nothing() -> None:
    before = A2AConversation("c", "t", frozenset({"a"}))
    assert A2APackets(before).conversation is before


# What does not fit


def test_long_text_is_cut_and_long_values_are_left_out() -> None:
    text = "ä" * 1_500_000
    packets = packets_of(events_of([{"message": said(text)}], "1.0"))
    deltas = [p for op, p in packets if op == "DELTA"]
    assert "".join(deltas) == text
    assert max(map(len, deltas)) <= 256 * 1024
    assert packets[0][1]["data"]["parts"] == [{"text": "(1500000 characters are not shown)"}]


@given(st.lists(st.text(st.characters(categories=["Cs", "L", "N", "Z", "C"])), max_size=4))
def test_any_text_becomes_valid_packets(texts: list[str]) -> None:
    events = [*events_of([{"task": SUBMITTED}], "1.0")]
    packets = A2APackets()
    made = [*packets.of(events[0])]
    for text in texts:
        # Built directly: no parser lets half a surrogate pass.
        update = parse_event(artifact("x"))
        part = update.artifact.parts[0].model_copy(update={"text": text})
        changed = update.artifact.model_copy(update={"parts": [part]})
        made += packets.of(update.model_copy(update={"artifact": changed}))
    for _, p in made:
        json.dumps(p, ensure_ascii=False).encode()
    delivered = "".join(p for op, p in made if op == "DELTA")
    assert delivered == "".join(texts).encode("utf-8", "replace").decode()


# Errors


@pytest.mark.parametrize(
    ("error", "code", "details"),
    [
        (A2AConnectionError("gone"), "a2a_connection", None),
        (
            A2AHTTPError("no", status=503, retry_after=2.0),
            "a2a_http",
            {"status": 503, "retry_after": 2.0},
        ),
        (TaskNotFoundError("no task"), "a2a_task_not_found", {"rpc_code": -32001}),
        (A2AStreamClosedError("early"), "a2a_stream_closed", None),
        (A2AError("?"), "a2a", None),
    ],
)
def test_errors_of_the_client_end_the_stream(
    error: A2AError, code: str, details: dict[str, Any] | None
) -> None:
    found = error_of(error)
    assert (found.code, found.severity, found.details) == (code, "FATAL", details)
    assert found.message == getattr(error, "message", str(error))
