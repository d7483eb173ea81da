"""Notifications for events, and events that are merged."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server.a2a._fold import TaskFold, TaskTurn
from coreason_client.server.a2a._push._notifications import (
    generation_of,
    merge_events,
    notifications,
    task_notifications,
)
from coreason_client.server.a2a._push._progress import DeliveryProgress
from coreason_client.server.a2a._reading import EventPosition, Streamed

AT = "2026-01-31T12:00:00Z"
USER = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


def packet(seq: int, op: str, payload: Any) -> dict[str, Any]:
    return {"op": op, "p": payload, "seq": seq, "t": AT}


def run(*packets: tuple[str, Any]) -> tuple[TaskFold, list[Streamed]]:
    """Return a task with one turn, and its events."""
    fold = TaskFold("t", "c")
    streamed = [Streamed(fold.begin(TaskTurn("s", USER, AT)), EventPosition(1, 0))]
    for seq, (op, payload) in enumerate(packets, 1):
        events = fold.add(packet(seq, op, payload))
        streamed += [Streamed(event, None) for event in events[:-1]]
        streamed += [Streamed(event, EventPosition(1, seq)) for event in events[-1:]]
    return fold, streamed


def text_of(events: list[Streamed]) -> str:
    """Return the text of all artifacts as a client puts them together."""
    artifacts: dict[str, str] = {}
    for one in events:
        update = one.event.get("artifactUpdate")
        if update is not None:
            key = update["artifact"]["artifactId"]
            text = "".join(part.get("text", "") for part in update["artifact"]["parts"])
            artifacts[key] = (artifacts.get(key, "") if update.get("append") else "") + text
    return json.dumps(artifacts)


DELTAS = (("DELTA", "a"), ("DELTA", "b"), ("DELTA", "c"))


def test_appended_text_becomes_one_event() -> None:
    _, streamed = run(*DELTAS, ("CLOSE", None))
    merged = merge_events(streamed)
    assert [next(iter(one.event)) for one in merged] == ["task", "artifactUpdate", "statusUpdate"]
    update = merged[1].event["artifactUpdate"]
    assert update["artifact"]["parts"] == [{"text": "abc"}]
    assert update["lastChunk"] is True
    assert "append" not in update
    assert update["metadata"] == {"coreason": {"firstGeneration": 2}, "generation": 5}
    # The end of the turn is not complete with it: the status follows.
    assert merged[1].position == EventPosition(1, 3)
    assert merged[2].position == EventPosition(1, 4)


def test_other_events_are_not_merged() -> None:
    progress = ("EVENT", {"type": "PROGRESS_INDICATOR", "data": {"label": "working"}})
    block = ("EVENT", {"type": "MARKDOWN_BLOCK", "data": {"content": "x"}})
    _, streamed = run(DELTAS[0], progress, DELTAS[1], block, DELTAS[2])
    assert merge_events(streamed) == streamed


def test_a_rewind_begins_again() -> None:
    rewind = ("EVENT", {"type": "REWIND", "data": {"to_seq": 1}})
    _, streamed = run(*DELTAS, rewind, ("DELTA", "d"))
    merged = merge_events(streamed)
    texts = [one.event["artifactUpdate"]["artifact"]["parts"][0]["text"] for one in merged[1:]]
    assert texts == ["ad"]  # what the rewind has replaced is not sent
    assert merged[1].event["artifactUpdate"]["metadata"]["coreason"] == {"firstGeneration": 2}


def test_text_after_the_last_chunk_is_not_merged() -> None:
    data = {"artifactId": "a", "parts": [{"text": "x"}]}
    last = ("EVENT", {"type": "ARTIFACT", "data": {**data, "lastChunk": True}})
    more = ("EVENT", {"type": "ARTIFACT", "data": {**data, "append": True}})
    _, streamed = run(last, more)
    assert merge_events(streamed) == streamed


def test_merged_text_is_bounded() -> None:
    _, streamed = run(("DELTA", "x" * 40_000), ("DELTA", "y" * 40_000))
    assert merge_events(streamed) == streamed


def test_only_new_events_are_sent() -> None:
    fold, streamed = run(*DELTAS, ("CLOSE", None))
    found = notifications(streamed, 4, fold.generation)
    assert [one.generation for one in found] == [5, 6]
    assert [one.position for one in found] == [None, EventPosition(1, 4)]
    assert json.loads(found[0].body)["artifactUpdate"]["artifact"]["parts"] == [{"text": ""}]
    assert notifications(streamed, 6, fold.generation) == []


def test_the_message_of_an_agent() -> None:
    close = ("CLOSE", {"reason": "message", "parts": [{"text": "hi"}]})
    fold, streamed = run(close)
    [found] = notifications(streamed[1:], 0, fold.generation)
    assert found.generation == fold.generation == 2
    assert json.loads(found.body)["message"]["parts"] == [{"text": "hi"}]
    assert generation_of(streamed[1].event) is None
    assert task_notifications(streamed[1:], 0, fold) == []


def test_a_client_of_the_older_version_gets_the_task_when_its_status_changes() -> None:
    fold, streamed = run(*DELTAS)
    [found] = task_notifications(streamed, 0, fold)
    body = json.loads(found.body)
    assert (body["kind"], body["status"]["state"]) == ("task", "working")
    assert body["artifacts"][0]["parts"] == [{"kind": "text", "text": "abc"}]
    assert (found.position, found.generation) == (EventPosition(1, 3), 4)
    assert task_notifications(streamed[1:], 0, fold) == []  # only text
    fold, streamed = run(*DELTAS, ("CLOSE", None))
    [found] = task_notifications(streamed[4:], 4, fold)
    assert json.loads(found.body)["status"]["state"] == "completed"
    assert task_notifications(streamed, fold.generation, fold) == []


PACKETS = st.one_of(
    st.tuples(st.just("DELTA"), st.text(max_size=5)),
    st.just(("EVENT", {"type": "PROGRESS_INDICATOR", "data": {"label": "x"}})),
    st.just(("EVENT", {"type": "MARKDOWN_BLOCK", "data": {"content": "m"}})),
    st.tuples(
        st.just("EVENT"),
        st.builds(
            lambda name, text, append, last: {
                "type": "ARTIFACT",
                "data": {
                    "artifactId": name,
                    "parts": [{"text": text}],
                    "append": append,
                    "lastChunk": last,
                },
            },
            st.sampled_from("ab"),
            st.text(max_size=3),
            st.booleans(),
            st.booleans(),
        ),
    ),
)


@given(st.lists(PACKETS, max_size=12), st.data())
def test_merging_changes_no_text_and_leaves_no_gap(packets: list[Any], data: st.DataObject) -> None:
    fold, streamed = run(*packets, ("CLOSE", None))
    cut = data.draw(st.integers(0, len(streamed)))
    merged = merge_events(streamed[:cut]) + merge_events(streamed[cut:])
    assert text_of(merged) == text_of(streamed)
    last = 0
    for one in merged:
        [content] = one.event.values()
        first = content.get("metadata", {}).get("coreason", {})
        first = first.get("firstGeneration", content["metadata"]["generation"])
        assert first == last + 1
        last = content["metadata"]["generation"]
    assert last == fold.generation
    positions = [one.position for one in merged if one.position is not None]
    assert positions == sorted(positions)
    assert positions[-1] == streamed[-1].position


@given(st.lists(PACKETS, max_size=10), st.data())
def test_a_delivery_that_is_interrupted_anywhere_goes_on_without_a_gap(
    packets: list[Any], data: st.DataObject
) -> None:
    """The cursor of a notification is enough to find the next one."""
    fold, streamed = run(*packets, ("CLOSE", None))
    found = notifications(streamed, 0, fold.generation)
    stop = data.draw(st.integers(1, len(found)))
    position, generation = EventPosition(0, 0), 0
    for one in found[:stop]:
        position, generation = one.position or position, one.generation
    places = [one.position for one in streamed]
    after = places.index(position) + 1 if position in places else 0
    rest = notifications(streamed[after:], generation, fold.generation)
    sent = [json.loads(one.body) for one in (*found[:stop], *rest)]
    assert text_of([Streamed(event, None) for event in sent]) == text_of(streamed)
    expected = [one.generation for one in found]
    assert [one.generation for one in (*found[:stop], *rest)][-1] == expected[-1]


LIVES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=8)


@example(list("abcd"), [(2, 2), (1, 0), (1, 0)])  # one word, then a group that begins with it
@example(list("abcdef"), [(2, 2), (2, 0), (1, 0)])  # a group, then a longer one
@given(st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=12), LIVES)
def test_a_notification_that_was_sent_but_not_stored_is_recognised(
    words: list[str], lives: list[tuple[int, int]]
) -> None:
    """Process after process dies between the answer of the webhook and the note of it.

    Each knows some more events, and delivers some notifications. The webhook keeps what is newer
    than its last generation, and so has each word once.
    """
    fold, streamed = run(*(("DELTA", word) for word in words), ("CLOSE", None))
    progress, received, seen, known = DeliveryProgress(EventPosition(0, 0)), list[Streamed](), 0, 0
    for more, count in [*lives, (len(streamed), len(streamed))]:
        known = min(known + more, len(streamed))
        events = streamed[:known]
        found = notifications(events, progress.generation, fold.generation, progress.boundary)
        for number, notification in enumerate(found[: count + 1]):
            if notification.merged:
                progress = progress.begun(notification)
            if notification.generation > seen:
                seen = notification.generation
                received.append(Streamed(json.loads(notification.body), None))
            if number < count:  # it dies before it stores the last one
                progress = progress.delivered(notification)
    assert text_of(received) == text_of(streamed)
