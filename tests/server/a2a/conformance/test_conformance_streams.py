"""Streams of events: of a message, and of a subscription."""

import pytest

from .driver import Driver, Received, Refused
from .drivers import HTTPDriver
from .messages import COMPLETED, INPUT_REQUIRED, OVER, completed, fresh, held, interrupted, message
from .shapes import check
from .sites import Site


def generations(events: list[Received]) -> list[int]:
    return [int(event.body["metadata"]["generation"]) for event in events]


def states(events: list[Received]) -> list[str]:
    """Return the states that the events say, without repetitions."""
    found: list[str] = []
    for event in events:
        state = event.body.get("status", {}).get("state")
        if state is not None and found[-1:] != [state]:
            found.append(state)
    return found


def text(events: list[Received]) -> str:
    """Return the text that the artifact updates add up to."""
    texts: dict[str, str] = {}
    for update in (event.body for event in events if event.kind == "artifactUpdate"):
        artifact_id, parts = update["artifact"]["artifactId"], update["artifact"]["parts"]
        before = texts.get(artifact_id, "") if update.get("append") else ""
        texts[artifact_id] = before + "".join(part.get("text", "") for part in parts)
    return "".join(texts.values())


@pytest.mark.conforms("CORE-STREAM-001")
def test_events_arrive_while_the_agent_works(ann: Driver, server: Site) -> None:
    message_id = fresh("held")
    server.stage.say(message_id, "one ")
    with ann.stream("SendStreamingMessage", message(message_id)) as events:
        assert next(events).kind == "task"
        for line in ("one ", "two ", "three "):
            event = next(events)  # the agent still works: it has nothing more to say
            assert event.body["artifact"]["parts"] == [{"text": line}]
            server.stage.say(message_id, {"one ": "two ", "two ": "three "}.get(line, "end"))
        server.stage.finish(message_id)
        assert list(events)[-1].body["status"]["state"] == COMPLETED


@pytest.mark.conforms("CORE-STREAM-002")
@pytest.mark.parametrize("behaviour", ["tck-stream-002", "tck-message-response"])
def test_a_message_is_the_only_event(ann: Driver, behaviour: str) -> None:
    with ann.stream("SendStreamingMessage", message(fresh(behaviour))) as events:
        [event] = events
    check("StreamResponse", event.event)
    assert event.kind == "message"


@pytest.mark.conforms("CORE-STREAM-001", "CORE-STREAM-003", "STREAM-ORDER-001")
@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("tck-stream-001", "Stream hello from TCK"),
        ("tck-stream-003", "Stream task lifecycle"),
        ("tck-stream-ordering-001", "Ordered output"),
        ("tck-stream-artifact-text", "Streamed text content"),
        ("tck-stream-artifact-file", ""),
        ("tck-stream-artifact-chunked", "chunk-1 chunk-2"),
    ],
)
def test_a_stream_begins_with_the_task_and_ends_with_it(
    ann: Driver, behaviour: str, expected: str
) -> None:
    with ann.stream("SendStreamingMessage", message(fresh(behaviour))) as stream:
        events = list(stream)
    for event in events:
        check("StreamResponse", event.event)
    assert events[0].kind == "task"
    assert [event.kind for event in events[1:]].count("task") == 0
    assert states(events) == ["TASK_STATE_WORKING", COMPLETED]
    assert events[-1].body["status"]["state"] == COMPLETED
    assert text(events) == expected
    assert generations(events) == list(range(1, len(events) + 1))


def test_a_chunked_artifact_says_how_its_chunks_belong_together(ann: Driver) -> None:
    params = message(fresh("tck-stream-artifact-chunked"))
    with ann.stream("SendStreamingMessage", params) as stream:
        first, last = (event.body for event in stream if event.kind == "artifactUpdate")
    assert first["artifact"]["artifactId"] == last["artifact"]["artifactId"]
    assert (first.get("append"), first.get("lastChunk")) == (None, None)
    assert (last["append"], last["lastChunk"]) == (True, True)


def test_a_stream_ends_when_input_is_required(ann: Driver) -> None:
    params = message(fresh("tck-input-required"))
    with ann.stream("SendStreamingMessage", params) as stream:
        events = list(stream)
    assert events[-1].body["status"]["state"] == INPUT_REQUIRED
    follow = message(taskId=events[0].body["id"])
    with ann.stream("SendStreamingMessage", follow) as stream:
        more = list(stream)
    assert more[0].kind == "task"
    assert generations([*events, *more]) == list(range(1, len(events) + len(more) + 1))
    assert more[-1].body["status"]["state"] == COMPLETED


# Subscriptions.


@pytest.mark.conforms("STREAM-SUB-001", "STREAM-SUB-002")
def test_a_subscription_to_a_running_task(ann: Driver, server: Site) -> None:
    task, message_id = held(ann)
    with ann.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        first = next(stream)
        check("StreamResponse", first.event)
        assert first.kind == "task"
        assert first.body["id"] == task["id"]
        server.stage.say(message_id, "one ")
        assert next(stream).body["artifact"]["parts"] == [{"text": "one "}]
        with ann.stream("SubscribeToTask", {"id": task["id"]}) as second:
            snapshot = next(second).body
            assert snapshot["artifacts"][0]["parts"] == [{"text": "one "}]
        server.stage.finish(message_id)
        last = list(stream)[-1]
    assert last.body["status"]["state"] in OVER


@pytest.mark.conforms("STREAM-SUB-001", "STREAM-SUB-002")
def test_a_subscription_waits_for_the_next_turn(ann: Driver) -> None:
    task = interrupted(ann)
    with ann.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        first = next(stream)
        assert first.body["status"]["state"] == INPUT_REQUIRED
        ann.call("SendMessage", message(taskId=task["id"]))
        events = list(stream)
    assert events[-1].body["status"]["state"] == COMPLETED
    [count] = generations([first])
    assert generations(events) == list(range(count + 1, count + 1 + len(events)))


@pytest.mark.conforms("STREAM-SUB-003")
def test_a_task_that_is_over_has_no_subscription(ann: Driver) -> None:
    task = completed(ann)
    with (
        pytest.raises(Refused) as refused,
        ann.stream("SubscribeToTask", {"id": task["id"]}),
    ):
        pass
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.conforms("STREAM-SUB-004")
@pytest.mark.parametrize("task_id", ["unknown", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_task_has_no_subscription(ann: Driver, task_id: str) -> None:
    with pytest.raises(Refused) as refused, ann.stream("SubscribeToTask", {"id": task_id}):
        pass
    assert refused.value.reason == "TASK_NOT_FOUND"


# Several streams.


@pytest.mark.conforms("STREAM-ORDER-001", "STREAM-ORDER-002", "STREAM-ORDER-003")
def test_all_streams_get_the_same_events_in_the_same_order(ann: Driver, server: Site) -> None:
    task, message_id = held(ann)
    params = {"id": task["id"]}
    with (
        ann.with_key("ann-key").stream("SubscribeToTask", params) as one,
        ann.with_key("ann-key").stream("SubscribeToTask", params) as two,
    ):
        assert next(one).event == next(two).event
        lines = [f"line {number}\n" for number in range(20)]
        server.stage.say(message_id, *lines)
        server.stage.finish(message_id)
        first, second = list(one), list(two)
    assert [event.event for event in first] == [event.event for event in second]
    assert text(first) == "".join(lines)


@pytest.mark.conforms("STREAM-ORDER-004")
def test_closing_a_stream_leaves_the_others_alone(ann: Driver, server: Site) -> None:
    message_id = fresh("held")
    server.stage.say(message_id, "one ")
    with ann.stream("SendStreamingMessage", message(message_id)) as stream:
        task_id = next(stream).body["id"]
        # The stream of the message is closed, then a subscription; another one goes on.
    other = ann.with_key("ann-key")
    with other.stream("SubscribeToTask", {"id": task_id}) as kept:
        assert next(kept).kind == "task"
        with ann.stream("SubscribeToTask", {"id": task_id}) as stream:
            assert next(stream).kind == "task"
        server.stage.say(message_id, "two ", "three ")
        server.stage.finish(message_id)
        events = list(kept)
    assert text(events).endswith("two three ")
    assert events[-1].body["status"]["state"] == COMPLETED


def test_a_subscription_continues_after_any_event(http_ann: HTTPDriver, server: Site) -> None:
    ann, message_id = http_ann, fresh("held")  # gRPC has no ids of events
    server.stage.say(message_id, *"abcdef")
    server.stage.finish(message_id)
    with ann.stream("SendStreamingMessage", message(message_id)) as stream:
        whole = list(stream)
    task_id = whole[0].body["id"]
    for number, event in enumerate(whole):
        if event.id is None:
            continue
        params = {"id": task_id}
        with ann.stream("SubscribeToTask", params, Last_Event_ID=event.id) as stream:
            first, *rest = stream
        assert first.body["metadata"]["generation"] == event.body["metadata"]["generation"]
        assert [one.event for one in rest] == [one.event for one in whole[number + 1 :]]
