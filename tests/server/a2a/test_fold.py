"""A task as the sum of its packets, and the events that lead to it."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._fold import JSON, Event, TaskFold, TaskTurn, merge_texts

AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:04:09Z"
IDS = {"taskId": "task", "contextId": "context"}
USER = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello?"}]}


def packet(seq: int, op: str, payload: Any) -> JSON:
    return {"seq": seq, "op": op, "t": LATER, "p": payload}


def begun(stream_id: str = "s1", *, repeats_answer: bool = False) -> TaskFold:
    task = TaskFold("task", "context", repeats_answer=repeats_answer)
    task.begin(TaskTurn(stream_id, USER, AT))
    return task


def events(*packets: tuple[str, Any], repeats_answer: bool = False) -> list[Event]:
    """Return the events of the packets of one turn."""
    task = begun(repeats_answer=repeats_answer)
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
    assert task.begin(TaskTurn("s1", USER, AT)) == {
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
    begins = task.begin(TaskTurn("s2", answer, LATER))["task"]
    assert [message["parts"][0]["text"] for message in begins["history"]] == [
        "Hello?",
        "Where?",
        "Here.",
    ]
    assert "message" not in begins["status"]


# Each kind of packet.


@pytest.mark.parametrize("repeats", [False, True])
def test_text_is_appended_to_the_answer(repeats: bool) -> None:
    packets = ("DELTA", "Hel"), ("DELTA", "lo"), ("CLOSE", {"reason": "complete"})
    first, second, closed, completed = events(*packets, repeats_answer=repeats)
    answer = {"artifactId": "s1:answer"}
    assert own(first) == {"artifact": {**answer, "parts": [{"text": "Hel"}]}}
    assert own(second) == {"artifact": {**answer, "parts": [{"text": "lo"}]}, "append": True}
    # A repetition replaces the chunks, for clients that take only what comes with `lastChunk`.
    last = {"artifact": {**answer, "parts": [{"text": "Hello"}]}, "lastChunk": True}
    empty = {"artifact": {**answer, "parts": [{"text": ""}]}, "lastChunk": True, "append": True}
    assert own(closed) == (last if repeats else empty)
    assert own(completed) == {"status": {"state": "TASK_STATE_COMPLETED", "timestamp": LATER}}


@pytest.mark.parametrize(("more", "text"), [(0, "a" * 524_288), (1, "")])
def test_a_very_long_answer_is_not_repeated(more: int, text: str) -> None:
    packets = ("DELTA", "a" * 524_288), *[("DELTA", "a")] * more, ("CLOSE", None)
    *_, closed, _ = events(*packets, repeats_answer=True)
    assert own(closed)["lastChunk"]
    assert own(closed).get("append", False) == bool(more)
    assert own(closed)["artifact"]["parts"] == [{"text": text}]


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


CALL = {"type": "TOOL_CALL", "data": {"call_id": "c", "name": "find", "arguments": {"a": None}}}
RESULT = {"type": "TOOL_RESULT", "data": {"call_id": "c", "result": "x" * 70_000, "is_error": True}}
TOKENS = {"type": "USAGE", "data": {"prompt_tokens": 1, "completion_tokens": 2}}


@pytest.mark.parametrize(
    ("event", "text"), [(CALL, "Calling find"), (RESULT, None), (TOKENS, None)]
)
def test_a_report_is_a_status_and_not_a_result_of_the_task(event: JSON, text: str | None) -> None:
    task = begun()
    task.add(packet(1, "DELTA", "Blue."))
    [shown] = task.add(packet(2, "EVENT", {"id": "x", "timestamp": AT, **event}))
    assert own(shown)["metadata"] == {"coreason": event}
    status = own(shown)["status"]
    assert (status["state"], status["timestamp"]) == ("TASK_STATE_WORKING", AT)
    parts = None if text is None else [{"text": text}]
    assert status.get("message", {}).get("parts") == parts
    assert [artifact["artifactId"] for artifact in task.task()["artifacts"]] == ["s1:answer"]


@pytest.mark.parametrize("kind", ["TOOL_CALL", "TOOL_RESULT", "USAGE"])
def test_an_event_of_the_agent_with_the_name_of_a_report_is_an_artifact(kind: str) -> None:
    event = {"type": kind, "data": {"name": "mine"}}
    [shown] = events(("EVENT", event))
    part = {"data": event, "mediaType": "application/vnd.coreason.event+json"}
    assert own(shown)["artifact"]["parts"] == [part]


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


def rewind(to_seq: int) -> JSON:
    return {"type": "REWIND", "data": {"to_seq": to_seq, "step": "s", "attempt": 2}}


def artifact(*texts: str, **members: Any) -> tuple[str, JSON]:
    parts = [{"text": text} for text in texts]
    return "EVENT", {"type": "ARTIFACT", "data": {"artifactId": "x", "parts": parts, **members}}


def test_an_event_of_an_agent_that_is_only_named_rewind_is_data() -> None:
    task = begun()
    event = {"type": "REWIND", "data": {"tape": "side B"}}
    [update] = task.add(packet(1, "EVENT", event))
    assert update["artifactUpdate"]["artifact"]["parts"][0]["data"] == event


def test_a_rewind_over_a_replacement_brings_the_earlier_version_back() -> None:
    *_, update = events(
        artifact("one, ", name="first", description="the first version"),
        artifact("two", append=True, lastChunk=True),
        artifact("three", name="second"),
        ("EVENT", rewind(2)),
    )
    about = {"artifactId": "x", "name": "first", "description": "the first version"}
    assert own(update) == {
        "artifact": {**about, "parts": [{"text": "one, two"}]},
        "lastChunk": True,
    }


def test_a_rewind_brings_back_the_version_of_an_earlier_turn() -> None:
    task = begun()
    for seq, text in enumerate(["one", "two"], 1):
        task.add(packet(seq, *artifact(text)))
    task.begin(TaskTurn("s2", USER, AT))
    task.add(packet(1, *artifact("three")))
    [update] = task.add(packet(2, "EVENT", rewind(0)))
    assert own(update)["artifact"]["parts"] == [{"text": "two"}]


def test_what_follows_a_void_artifact_replaces_it() -> None:
    *_, void, after = events(
        artifact("a", name="draft"), ("EVENT", rewind(0)), artifact("b", append=True)
    )
    assert own(void)["artifact"]["metadata"] == {"void": True}
    assert own(after) == {"artifact": {"artifactId": "x", "parts": [{"text": "b"}]}}


def test_a_void_artifact_is_void_in_a_restored_task_too() -> None:
    task = begun()
    task.add(packet(1, *artifact("a")))
    task.add(packet(2, "EVENT", rewind(0)))
    restored = TaskFold.restored(task.task(), as_task=True)
    assert restored.task()["artifacts"] == task.task()["artifacts"]
    restored.begin(TaskTurn("s2", USER, AT))
    [update] = restored.add(packet(1, *artifact("b", append=True)))
    assert own(update) == {"artifact": {"artifactId": "x", "parts": [{"text": "b"}]}}


def test_a_void_answer_is_not_completed() -> None:
    *_, status = (shown := events(("DELTA", "a"), ("EVENT", rewind(0)), ("CLOSE", None)))
    assert [list(event) for event in shown] == [["artifactUpdate"]] * 2 + [["statusUpdate"]]
    assert own(status)["status"]["state"] == "TASK_STATE_COMPLETED"


QUESTION = ("EVENT", {"type": "QUESTION", "data": {"question": "Where?"}})


@pytest.mark.parametrize(
    ("to_seq", "is_question"),
    [(0, False), (1, True), (2, False)],
    ids=["before the question", "before its text", "after it"],
)
def test_a_rewind_takes_a_question_back(to_seq: int, is_question: bool) -> None:
    texts = [QUESTION, ("DELTA", "Where?"), ("EVENT", rewind(to_seq)), ("DELTA", "Where?")]
    assert bool(events(*texts)) == (not is_question)


# The history and the artifacts of a task.


@pytest.mark.parametrize(("length", "ids"), [(None, ["m1", "m2"]), (0, None), (1, ["m2"])])
def test_the_length_of_the_history(length: int | None, ids: list[str] | None) -> None:
    task = begun()
    task.begin(TaskTurn("s2", {**USER, "messageId": "m2"}, LATER))
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
    st.sampled_from([CALL, RESULT, TOKENS, {"type": "TOOL_CALL", "data": {"name": "mine"}}]),
    st.builds(
        lambda id_, text, **members: {
            "type": "ARTIFACT",
            "data": {"artifactId": id_, "parts": [{"text": text}], **members},
        },
        st.sampled_from(["x", "y"]),
        words,
        append=st.booleans(),
        lastChunk=st.booleans(),
        name=st.none() | words,
    ),
)
written = st.tuples(st.just("DELTA"), words) | st.tuples(st.just("EVENT"), shown)
rewinds = st.builds(lambda to_seq: ("EVENT", rewind(to_seq)), st.integers(0, 8))
packets = st.lists(written | rewinds, max_size=12)


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


questions = st.sampled_from([QUESTION, ("DELTA", "Where?")])


@given(st.lists(written | rewinds | questions, max_size=12), st.lists(st.booleans()))
def test_packets_that_are_skipped_make_the_same_task(
    given_: list[tuple[str, Any]], skips: list[bool]
) -> None:
    added, skipped = begun(), begun()
    for seq, (op, payload) in enumerate(given_, 1):
        added.add(packet(seq, op, payload))
        is_skipped = seq > len(skips) or skips[seq - 1]
        (skipped.skip if is_skipped else skipped.add)(packet(seq, op, payload))
    last = packet(len(given_) + 1, "CLOSE", None)
    assert skipped.add(last) == added.add(last)
    assert skipped.task() == added.task()


@given(packets, st.lists(written), st.lists(written | rewinds), st.booleans())
def test_a_rewind_undoes_everything_after_its_packet(
    before: list[tuple[str, Any]],
    undone: list[tuple[str, Any]],
    after: list[tuple[str, Any]],
    closes: bool,
) -> None:
    to_seq, ends = len(before), [("CLOSE", None)] if closes else []
    whole = [*before, *undone, ("EVENT", rewind(to_seq)), *after, *ends]
    rewound, plain = begun(), begun()
    for seq, (op, payload) in enumerate(whole, 1):
        rewound.add(packet(seq, op, payload))
        if not to_seq < seq <= to_seq + len(undone) + 1:
            plain.add(packet(seq, op, payload))
    assert valid(rewound) == valid(plain)


def valid(task: TaskFold) -> list[JSON]:
    """Return the artifacts of a task without void ones, which exist only for their clients."""
    artifacts = task.task().get("artifacts", [])
    return [one for one in artifacts if not one.get("metadata", {}).get("void")]


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
        place |= {**update, "parts": merge_texts([*place["parts"], *update["parts"]])}
    else:
        place.clear()
        place |= deepcopy(update)


def visible(task: JSON) -> JSON:
    """Return a task whose artifacts may be in any order and their texts in any pieces."""
    artifacts = {
        one["artifactId"]: {**one, "parts": merge_texts(one["parts"])}
        for one in task.get("artifacts", [])
    }
    return {"status": task["status"], "metadata": task["metadata"], "artifacts": artifacts}
