"""A stream of events reports its own progress."""

from types import SimpleNamespace
from typing import Any

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.a2a._assemble import Assembly
from coreason_client.a2a._client_base import EventProgress
from coreason_client.a2a.types import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
)


class Progress(EventProgress):
    """The properties without a shell."""

    def __init__(self, machine: Any = None) -> None:
        self._assembly = Assembly()
        self._machine = machine


def update(text: str, *, last: bool = False) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=True, last_chunk=last)


def test_before_the_first_event_there_is_nothing() -> None:
    progress = Progress()
    assert (progress.task, progress.message, progress.text) == (None, None, "")
    assert (progress.task_id, progress.context_id) == (None, None)
    assert progress.complete_artifacts == frozenset()


def test_the_task_and_its_text_grow_with_the_events() -> None:
    progress = Progress()
    progress._assembly.apply(Task(id="t", context_id="c"))
    progress._assembly.apply(update("one "))
    assert (progress.task_id, progress.context_id, progress.text) == ("t", "c", "one ")
    assert progress.complete_artifacts == frozenset()
    progress._assembly.apply(update("two", last=True))
    assert progress.text == "one two"
    assert progress.complete_artifacts == {"a"}
    assert progress.task is not None
    assert progress.task.text == "one two"


def test_the_last_message_is_kept() -> None:
    progress = Progress()
    for text in ("one", "two"):
        progress._assembly.apply(Message.user(text))
    assert progress.message is not None
    assert progress.message.text == "two"


def test_the_ids_are_reported_as_soon_as_they_are_known() -> None:
    progress = Progress()
    seen: list[tuple[str, str | None]] = []
    progress.on_task(lambda task_id, context_id: seen.append((task_id, context_id)))
    assert seen == []
    progress._assembly.apply(Task(id="t", context_id="c"))
    assert seen == [("t", "c")]


def test_a_stream_without_a_machine_never_connects() -> None:
    progress = Progress()
    assert (progress.reconnects, progress.response_headers) == (0, {})


def test_connections_and_headers_are_those_of_the_machine() -> None:
    machine = SimpleNamespace(reconnects=2, response_head=None)
    progress = Progress(machine)
    assert (progress.reconnects, progress.response_headers) == (2, {})
    machine.response_head = ResponseHead(200, Headers([("x-id", "7")]))
    assert progress.response_headers["x-id"] == "7"
