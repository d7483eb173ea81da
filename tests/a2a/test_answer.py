"""The text of the answer is printed, however the agent gives it."""

from typing import Any

import pytest

from coreason_client.a2a import (
    A2AClient,
    A2ASSEParseError,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a._assemble import Assembly
from tests.a2a.loopback import Answer, Seen, serve, stream_of
from tests.a2a.paper import chunk, status, task
from tests.a2a.test_client import rpc
from tests.a2a.test_resubscribe import news

DONE = status("COMPLETED")


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "parts": [{"text": text}], **more}}


def printed(*events: Any, again: tuple[Any, ...] = ()) -> tuple[str, Assembly]:
    found, assembly = news(*events, again=again)
    return "".join(event.text for event in found), assembly


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([task(), status("WORKING", "Looking."), chunk("An"), chunk("swer"), DONE], "Answer"),
        ([task(), chunk("Answer"), status("COMPLETED", "Thank you.")], "Answer"),
        ([task(), status("INPUT_REQUIRED", "Which?")], "Which?"),
        ([task(), status("WORKING", "Looking."), status("FAILED", "It broke.")], "It broke."),
        ([task(), status("WORKING", "An"), status("WORKING", "swer"), DONE], "Answer"),
        ([status("WORKING"), message("An"), message("swer"), DONE], "Answer"),
        ([message("Answer")], "Answer"),
        ([task(), message("Here: ", taskId="task-1"), chunk("it"), DONE], "Here: it"),
        ([task(), status("AUTH_REQUIRED", "Who?"), status("COMPLETED", "You.")], "You."),
    ],
    ids=range(9),
)
def test_the_answer_is_printed_and_is_the_text_of_the_stream(events: list[Any], text: str) -> None:
    found, assembly = printed(*events)
    assert assembly.text == text
    assert found.endswith(text)
    # Before a sign-in nobody knows what the answer is going to be.
    assert found == text or "Who?" in found


def test_a_status_that_was_printed_is_not_printed_again_at_the_end() -> None:
    text, assembly = printed(task(), status("AUTH_REQUIRED", "Who?"), DONE)
    assert text == assembly.text == "Who?"


def test_a_status_has_a_text_of_its_own() -> None:
    found, _ = news(task(), status("WORKING", "Looking."), chunk("Answer"), DONE)
    assert [event.status_text for event in found] == ["", "Looking.", "", ""]
    assert [event.text for event in found] == ["", "", "Answer", ""]


def test_the_first_task_does_not_print_what_it_is_doing() -> None:
    working = task("WORKING")
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Looking."}]}
    working["task"]["status"]["message"] = said
    text, assembly = printed(working, chunk("Answer"), DONE)
    assert text == assembly.text == "Answer"
    text, assembly = printed(working, DONE)
    assert text == assembly.text == "Looking."  # there is nothing else


def test_two_artifacts_in_turns_are_printed_as_they_come() -> None:
    text, assembly = printed(
        task(), chunk("1", artifact="a"), chunk("2", artifact="b"), chunk("3", artifact="a")
    )
    assert (text, assembly.text) == ("123", "132")
    assert assembly.task is not None
    assert assembly.task.text == "132"


def test_an_artifact_that_is_written_anew_is_printed_again() -> None:
    found, assembly = news(task(), chunk("draft", append=False), chunk("final", append=False), DONE)
    assert "".join(event.text for event in found) == "draftfinal"
    assert assembly.text == "final"
    assert [event.append for event in found if isinstance(event, TaskArtifactUpdateEvent)] == [
        False,
        False,
    ]


def history(*texts: str) -> dict[str, Any]:
    """A finished task whose answer is in its history alone."""
    found = task("COMPLETED")
    asked = {"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "Well?"}]}
    said = [
        {"messageId": f"m-{text}", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        for text in texts
    ]
    found["task"]["history"] = [{**said[0], "messageId": "old"}, asked, *said]
    return found


def test_statuses_that_were_missed_are_found_in_the_history() -> None:
    _, assembly = news(task(), status("WORKING", "An"))
    assembly.reconnected()
    fetched = Task.model_validate(history("An", "swer")["task"])
    found = assembly.apply_fetched(fetched)
    assert "".join(event.text for event in found) == assembly.text == "Answer"


def test_messages_that_were_missed_are_found_in_the_history() -> None:
    before, assembly = news(task(), message("An"))
    assembly.reconnected()
    fetched = Task.model_validate(history("Answer", ", whole")["task"])
    found = [*before, *assembly.apply_fetched(fetched)]
    assert "".join(event.text for event in found) == assembly.text == "Answer, whole"
    assert assembly.apply_fetched(fetched) == ()


def test_the_text_of_a_task() -> None:
    said = Message(role=Role.AGENT, parts=[Part(text="Looking.")])
    working = TaskStatus(state=TaskState.WORKING, message=said)
    done = TaskStatus(state=TaskState.COMPLETED, message=said)
    artifact = Artifact(artifact_id="a", parts=[Part(text="Answer")])
    assert Task(id="t", status=working).text == ""
    assert Task(id="t", status=working).status_text == "Looking."
    assert Task(id="t", status=done).text == "Looking."
    assert Task(id="t", status=done, artifacts=[artifact]).text == "Answer"
    assert Task.model_validate(history("An", "swer")["task"]).text == "Answer"
    assert TaskStatusUpdateEvent(status=working).text == ""
    assert TaskStatusUpdateEvent(status=done).text == "Looking."


# What stands in the way of reading


@pytest.mark.parametrize("face", ["rpc", "rest"])
@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (b"\xff", "\ufffd"),
        (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_is_no_character_does_not_end_a_stream(face: str, escaped: bytes, text: str) -> None:
    def rule(seen: Seen) -> Answer:
        events = [
            b'{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"%b"}]'
            b"}}}" % escaped,
            b'{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}',
        ]
        if face == "rpc":
            number = seen.json["id"]
            events = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, e) for e in events]
        pieces = [b"data: " + event + b"\n\n" for event in events]
        return Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)

    with serve() as agent:
        agent.rules.append(rule)
        binding = {"rpc": "JSONRPC", "rest": "HTTP+JSON"}[face]
        interface = {"url": agent.url, "protocolBinding": binding, "protocolVersion": "1.0"}
        card = {**agent.card(), "supportedInterfaces": [interface]}
        with A2AClient.from_agent_card(card) as client:
            stream = client.send_message_stream("count")
            assert "".join(event.text for event in stream) == stream.text == text
    text.encode()  # which fails for half a surrogate pair


BARE = {"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a", "parts": 7}}


@pytest.mark.parametrize(
    "odd", [BARE, {"kind": "status-update", "status": 7}, {"taskId": "t", "status": []}]
)
def test_a_known_kind_with_another_shape_is_an_error_and_not_missing_text(odd: Any) -> None:
    with serve() as agent:
        agent.rules.append(lambda seen: stream_of([rpc(seen, result=odd)]))
        with A2AClient(f"{agent.url}/rpc") as client, pytest.raises(A2ASSEParseError):
            list(client.send_message_stream("count"))


def test_an_event_may_come_without_its_envelope() -> None:
    done = {"kind": "status-update", "taskId": "t", "status": {"state": "completed"}}
    bare = {**BARE, "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}}
    with serve() as agent:
        agent.rules.append(lambda seen: stream_of([bare, done]))
        with A2AClient(f"{agent.url}/rpc") as client:
            stream = client.send_message_stream("count")
            assert "".join(event.text for event in stream) == "x"
            assert stream.task is not None
            assert stream.task.status.state is TaskState.COMPLETED
