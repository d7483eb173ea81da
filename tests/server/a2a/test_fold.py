"""A task as the sum of its packets, and the events that lead to it."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._fold import JSON, Event, TaskFold, Turn
from coreason_client.server.a2a._parts import merge_texts

AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:04:09Z"
IDS = {"taskId": "task", "contextId": "context"}
USER = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello?"}]}


def packet(seq: int, op: str, payload: Any) -> JSON:
    return {"seq": seq, "op": op, "t": LATER, "p": payload}


def begun(stream_id: str = "s1") -> TaskFold:
    task = TaskFold("task", "context")
    task.begin(Turn(stream_id, USER, AT))
    return task


def events(*packets: tuple[str, Any]) -> list[Event]:
    """Return the events of the packets of one turn."""
    task = begun()
    return [event for n, (op, p) in enumerate(packets, 1) for event in task.add(packet(n, op, p))]


def own(event: Event) -> JSON:
    """Return the only member of an event without what all events have."""
    [(_, value)] = event.items()
    shown = {k: v for k, v in value.items() if k not in ("taskId", "contextId")}
    metadata = {k: v for k, v in shown.pop("metadata").items() if k != "generation"}
    return {**shown, "metadata": metadata} if metadata else shown


# The beginning.


def test_a_turn_begins_with_the_task_as_it_stands() -> None:
    task = TaskFold("task", "context")
    assert task.begin(Turn("s1", USER, AT)) == {
        "task": {
            "id": "task",
            "contextId": "context",
            "status": {"state": "TASK_STATE_WORKING", "timestamp": AT},
            "history": [{**USER, **IDS}],
            "metadata": {"generation": 1},
        }
    }


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED"])
def test_the_question_of_the_agent_becomes_a_message_of_the_past(state: str) -> None:
    task = begun()
    task.add(packet(1, "CLOSE", {"reason": state.lower(), "question": "Where?"}))
    assert task.state == f"TASK_STATE_{state}"
    answer = {"messageId": "m2", "role": "ROLE_USER", "parts": [{"text": "Here."}]}
    begins = task.begin(Turn("s2", answer, LATER))["task"]
    assert [message["parts"][0]["text"] for message in begins["history"]] == [
        "Hello?",
        "Where?",
        "Here.",
    ]
    assert "message" not in begins["status"]


# Each kind of packet.


def test_text_is_appended_to_the_answer() -> None:
    first, second, closed, completed = events(
        ("DELTA", "Hel"), ("DELTA", "lo"), ("CLOSE", {"reason": "complete"})
    )
    answer = {"artifactId": "s1:answer"}
    assert own(first) == {"artifact": {**answer, "parts": [{"text": "Hel"}]}}
    assert own(second) == {"artifact": {**answer, "parts": [{"text": "lo"}]}, "append": True}
    assert own(closed) == {
        "artifact": {**answer, "parts": [{"text": ""}]},
        "append": True,
        "lastChunk": True,
    }
    assert own(completed) == {"status": {"state": "TASK_STATE_COMPLETED", "timestamp": LATER}}


def test_the_text_of_a_question_is_the_message_of_the_status_and_no_artifact() -> None:
    text, closed, status = events(
        ("DELTA", "Hello. "),
        ("EVENT", {"type": "QUESTION", "data": {"question": "Where?"}}),
        ("DELTA", "Where?"),
        ("CLOSE", {"reason": "input_required", "question": "Where?"}),
    )
    assert own(text)["artifact"]["parts"] == [{"text": "Hello. "}]
    assert own(closed)["lastChunk"] is True
    assert own(status)["status"]["message"]["parts"] == [{"text": "Where?"}]


@pytest.mark.parametrize("payload", [None, "", {}, {"reason": "other"}, {"reason": ["odd"]}])
def test_every_other_reason_to_close_completes_the_task(payload: Any) -> None:
    [status] = events(("CLOSE", payload))
    assert own(status) == {"status": {"state": "TASK_STATE_COMPLETED", "timestamp": LATER}}


def test_only_the_text_right_after_the_event_is_a_question() -> None:
    shown = events(
        ("EVENT", {"type": "QUESTION", "data": {"question": "Where?"}}),
        ("DELTA", "Not that."),
        ("DELTA", "Where?"),
    )
    assert [own(event)["artifact"]["parts"] for event in shown] == [
        [{"text": "Not that."}],
        [{"text": "Where?"}],
    ]


@pytest.mark.parametrize(
    ("event", "parts"),
    [
        (
            {"type": "MARKDOWN_BLOCK", "data": {"content": "# A"}, "id": "x", "timestamp": AT},
            [{"text": "# A", "mediaType": "text/markdown"}],
        ),
        (
            {
                "type": "MEDIA_CAROUSEL",
                "data": {
                    "items": [
                        {"url": "https://x.example/a.png", "mime_type": "image/png"},
                        {"url": "https://x.example/b", "alt_text": "B"},
                    ]
                },
            },
            [
                {"url": "https://x.example/a.png", "mediaType": "image/png"},
                {"url": "https://x.example/b", "metadata": {"altText": "B"}},
            ],
        ),
        (
            {"type": "CITATION_BLOCK", "data": {"citations": []}, "id": "x", "timestamp": AT},
            [
                {
                    "data": {"type": "CITATION_BLOCK", "data": {"citations": []}},
                    "mediaType": "application/vnd.coreason.event+json",
                }
            ],
        ),
        (
            {"anything": 1},
            [{"data": {"anything": 1}, "mediaType": "application/vnd.coreason.event+json"}],
        ),
        (
            {"type": "MEDIA_CAROUSEL", "data": {"items": "none"}},
            [
                {
                    "data": {"type": "MEDIA_CAROUSEL", "data": {"items": "none"}},
                    "mediaType": "application/vnd.coreason.event+json",
                }
            ],
        ),
    ],
)
def test_an_event_is_an_artifact_of_its_own(event: JSON, parts: list[JSON]) -> None:
    _, shown = events(("DELTA", "text"), ("EVENT", event))
    assert own(shown) == {"artifact": {"artifactId": "s1:2", "parts": parts}, "lastChunk": True}


def test_an_artifact_of_the_agent_keeps_what_it_was_given() -> None:
    given_ = {"artifactId": "report", "name": "Report", "parts": [{"raw": "QQ==", "filename": "a"}]}
    more = {"artifactId": "report", "parts": [{"text": "more"}], "append": True, "lastChunk": True}
    first, second = events(
        ("EVENT", {"type": "ARTIFACT", "data": given_}),
        ("EVENT", {"type": "ARTIFACT", "data": more}),
    )
    assert own(first) == {"artifact": given_}
    assert own(second) == {
        "artifact": {"artifactId": "report", "parts": [{"text": "more"}]},
        "append": True,
        "lastChunk": True,
    }


def test_progress_changes_neither_the_state_nor_its_time() -> None:
    progress = {"type": "PROGRESS_INDICATOR", "data": {"label": "Reading", "status": "running"}}
    thought = {"type": "THOUGHT_TRACE", "data": {"content": "Hm."}}
    first, second = events(("EVENT", progress), ("EVENT", thought))
    assert own(first) == {
        "status": {
            "state": "TASK_STATE_WORKING",
            "timestamp": AT,
            "message": {
                "messageId": "s1:1",
                "role": "ROLE_AGENT",
                "parts": [{"text": "Reading"}],
                **IDS,
            },
        },
        "metadata": {"coreason": progress},
    }
    assert own(second)["status"]["message"]["parts"] == [{"text": "Hm."}]


@pytest.mark.parametrize(
    ("code", "severity", "state", "at"),
    [
        ("model_failed", "FATAL", "TASK_STATE_FAILED", LATER),
        ("cancelled", "FATAL", "TASK_STATE_CANCELED", LATER),
        ("rejected", "FATAL", "TASK_STATE_REJECTED", LATER),
        ("slow", "WARNING", "TASK_STATE_WORKING", AT),
        ("busy", "TRANSIENT", "TASK_STATE_WORKING", AT),
    ],
)
def test_errors(code: str, severity: str, state: str, at: str) -> None:
    error = {"code": code, "message": "Why.", "severity": severity, "details": {"a": 1}}
    [event] = events(("ERROR", error))
    status = own(event)["status"]
    assert (status["state"], status["timestamp"]) == (state, at)
    assert status["message"]["parts"] == [{"text": "Why."}]
    assert own(event)["metadata"] == {"coreason": {"code": code, "details": {"a": 1}}}


def test_an_answer_can_be_a_message() -> None:
    task = begun()
    parts = [{"text": "Hi."}]
    [event] = task.add(packet(1, "CLOSE", {"reason": "message", "parts": parts}))
    context = {"contextId": IDS["contextId"]}  # and no task: there is none for the client
    message = {"messageId": "s1:1", "role": "ROLE_AGENT", "parts": parts, **context}
    assert event == {"message": message}
    assert task.message == event["message"]


# Rewinds.


def test_a_rewind_replaces_each_artifact_that_it_touches() -> None:
    task = begun()
    for seq, text in enumerate("abc", 1):
        task.add(packet(seq, "DELTA", text))
    task.add(packet(4, "EVENT", {"type": "MARKDOWN_BLOCK", "data": {"content": "# A"}}))
    rewind = {"type": "REWIND", "data": {"to_seq": 2, "step": "s", "attempt": 2}}
    answer, block = task.add(packet(5, "EVENT", rewind))
    assert own(answer) == {"artifact": {"artifactId": "s1:answer", "parts": [{"text": "ab"}]}}
    assert own(block) == {
        "artifact": {"artifactId": "s1:4", "parts": [{"text": ""}], "metadata": {"void": True}}
    }
    [more] = task.add(packet(6, "DELTA", "d"))
    assert own(more)["append"]


# The history and the artifacts of a task.


@pytest.mark.parametrize(("length", "ids"), [(None, ["m1", "m2"]), (0, None), (1, ["m2"])])
def test_the_length_of_the_history(length: int | None, ids: list[str] | None) -> None:
    task = begun()
    task.begin(Turn("s2", {**USER, "messageId": "m2"}, LATER))
    history = task.task(history=length).get("history")
    assert (None if history is None else [m["messageId"] for m in history]) == ids


def test_artifacts_can_be_left_out() -> None:
    task = begun()
    task.add(packet(1, "DELTA", "text"))
    assert "artifacts" not in task.task(artifacts=False)
    assert task.task()["artifacts"] == [{"artifactId": "s1:answer", "parts": [{"text": "text"}]}]


# A client that follows the events has the same task, wherever it began.

words = st.sampled_from(["a", "b c", "é"])
shown = st.one_of(
    st.builds(lambda text: {"type": "MARKDOWN_BLOCK", "data": {"content": text}}, words),
    st.builds(lambda text: {"type": "THOUGHT_TRACE", "data": {"content": text}}, words),
    st.builds(
        lambda name, text, append: {
            "type": "ARTIFACT",
            "data": {"artifactId": name, "parts": [{"text": text}], "append": append},
        },
        st.sampled_from(["x", "y"]),
        words,
        st.booleans(),
    ),
    st.builds(lambda to: {"type": "REWIND", "data": {"to_seq": to}}, st.integers(0, 8)),
)
packets = st.lists(
    st.tuples(st.just("DELTA"), words) | st.tuples(st.just("EVENT"), shown), max_size=12
)


@given(packets, st.integers(0, 12))
def test_a_client_that_joins_anywhere_has_the_same_task(
    given_: list[tuple[str, Any]], joined: int
) -> None:
    task = begun()
    client: JSON = {}
    for seq, (op, payload) in enumerate(given_, 1):
        if seq - 1 == joined:
            client = deepcopy(task.task())
        for event in task.add(packet(seq, op, payload)):
            if client:
                apply(client, event)
    if client:
        assert visible(client) == visible(task.task())


def apply(client: JSON, event: Event) -> None:
    """Do what a client does with an event."""
    [(kind, value)] = event.items()
    generation = value["metadata"]["generation"]
    assert generation == client["metadata"]["generation"] + 1
    client["metadata"]["generation"] = generation
    if kind == "statusUpdate":
        client["status"] = value["status"]
        return
    artifacts = client.setdefault("artifacts", [])
    update = value["artifact"]
    place = next((a for a in artifacts if a["artifactId"] == update["artifactId"]), None)
    if place is None:
        assert not value.get("append")
        artifacts.append(deepcopy(update))
    elif value.get("append"):
        place["parts"] = merge_texts([*place["parts"], *update["parts"]])
    else:
        place["parts"] = deepcopy(update["parts"])
        place.pop("metadata", None)


def visible(task: JSON) -> JSON:
    """Return a task without marks; the void text of an artifact does not count."""
    artifacts = {a["artifactId"]: merge_texts(a["parts"]) for a in task.get("artifacts", [])}
    return {"status": task["status"], "metadata": task["metadata"], "artifacts": artifacts}
