"""An agent on paper that numbers its events, and whose streams can be resumed with a cursor."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coreason_client._http._types import Request
from coreason_client.a2a.types import Event, Task, TaskArtifactUpdateEvent
from tests.cap.scripted import Connection, failure

from .paper import UNSUPPORTED, answer, method_of, numbered, sse, task


@dataclass
class NumberedAgent:
    """Sends events over connections; after the last of them everything is sent.

    `connections` are pairs: how many events have happened meanwhile, and how many are sent. The
    events of `unnamed` have no id, like all but the last of those that belong together.
    `counting` is "changes", or a way to number events that says nothing about the changes.
    """

    events: list[dict[str, Any]]
    connections: list[tuple[int, int]]
    unnamed: frozenset[int] = frozenset()
    counting: str = "changes"
    honours_cursor: bool = True
    with_artifacts: bool = True
    happened: int = 0
    cursors: list[str | None] = field(default_factory=list)

    def __call__(self, request: Request) -> Connection:
        if method_of(request) == "GetTask":
            self.happened = len(self.events)
            return answer(request, result=self._task(self.happened, self.happened)["task"])
        meanwhile, sent = self.connections.pop(0) if self.connections else (1000, 1000)
        self.happened = min(len(self.events), self.happened + meanwhile)
        if method_of(request) == "SendStreamingMessage":
            return self._connection(request, [], 0, max(sent, 1))
        cursor = request.headers.get("Last-Event-ID")
        self.cursors.append(cursor)
        if cursor is None and self.happened == len(self.events):
            return answer(request, error=UNSUPPORTED)
        resumes = cursor is not None and self.honours_cursor
        position = int(cursor or 0) if resumes else self.happened
        first = self._task(position, 1, artifacts=self.with_artifacts or not resumes)
        named = 0 if position in self.unnamed else position
        pieces = [sse(request, first, event_id=str(named) if named else "")]
        return self._connection(request, pieces, position, sent)

    def _connection(
        self, request: Request, pieces: list[bytes], position: int, sent: int
    ) -> Connection:
        end = position
        while len(pieces) < sent and end < len(self.events):
            end += 1
            event = numbered(self.events[end - 1], self._number(end, len(pieces) + 1))
            name = "" if end in self.unnamed else str(end)
            pieces.append(sse(request, event, event_id=name))
        self.happened = max(self.happened, end)
        whole = end == len(self.events)
        return Connection(pieces[:sent], end=None if whole else failure())

    def _number(self, change: int, sent: int) -> int:
        return {"changes": change, "each connection": sent, "constant": 3}[self.counting]

    def _task(self, position: int, sent: int, *, artifacts: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = task()["task"]
        texts = texts_after(self.events[:position])
        for event in self.events[:position]:
            if "statusUpdate" in event:
                found["status"] = event["statusUpdate"]["status"]
        if texts and artifacts:
            found["artifacts"] = [
                {"artifactId": name, "parts": [{"text": text}]} for name, text in texts.items()
            ]
        return numbered({"task": found}, self._number(position, sent))


def texts_after(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the text of each artifact after these events."""
    texts: dict[str, str] = {}
    for event in events:
        if (update := event.get("artifactUpdate")) is not None:
            name = update["artifact"]["artifactId"]
            before = texts.get(name, "") if update.get("append") else ""
            texts[name] = before + "".join(part["text"] for part in update["artifact"]["parts"])
    return texts


def shown(events: Sequence[Event]) -> dict[str, str]:
    """Return the text of each artifact as a program shows it that follows the delivered events."""
    texts: dict[str, str] = {}
    for event in events:
        if isinstance(event, Task):
            texts = {artifact.artifact_id: artifact.text for artifact in event.artifacts}
        elif isinstance(event, TaskArtifactUpdateEvent):
            name = event.artifact.artifact_id
            texts[name] = (texts.get(name, "") if event.append else "") + event.text
    return texts
