"""The task as it truly is, and how both dialects say it.

The task does not care about connections: it knows which of its events have happened, and a
snapshot of it is what these events amount to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

Dialect = Literal["1.0", "0.3", "rest"]  # the last one is 1.0 as HTTP+JSON
Json = dict[str, Any]

TASK_ID: Final = "task-1"
CONTEXT_ID: Final = "context-1"
TIMESTAMP: Final = "2026-01-02T03:04:05.678Z"
FINISHED: Final = ("completed", "failed", "canceled", "rejected")

# The methods of each dialect, by what they are for.
METHODS: Final[dict[str, dict[str, str]]] = {
    "1.0": {
        "SendMessage": "send",
        "SendStreamingMessage": "stream",
        "GetTask": "get",
        "CancelTask": "cancel",
        "SubscribeToTask": "subscribe",
    },
    "0.3": {
        "message/send": "send",
        "message/stream": "stream",
        "tasks/get": "get",
        "tasks/cancel": "cancel",
        "tasks/resubscribe": "subscribe",
    },
}

# The same for HTTP+JSON, by the end of the path.
PATHS: Final = {
    "/message:send": "send",
    "/message:stream": "stream",
    f"/tasks/{TASK_ID}": "get",
    f"/tasks/{TASK_ID}:cancel": "cancel",
    f"/tasks/{TASK_ID}:subscribe": "subscribe",
}
REASONS: Final = {
    -32001: (404, "NOT_FOUND", "TASK_NOT_FOUND"),
    -32004: (400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
}


@dataclass(frozen=True, slots=True)
class Happening:
    """One event in the life of a task: a new state, or a piece of an artifact."""

    state: str | None = None
    artifact: str = ""
    text: str = ""
    append: bool = False
    last: bool = False
    first: bool = False  # the task itself, at its start


@dataclass
class Model:
    """A task in one dialect, and how far it has come."""

    dialect: Dialect
    happenings: list[Happening]
    happened: int = 0
    joined: bool = False  # a snapshot has the text of an artifact in one part
    pace: int = 0  # how many events happen between two questions

    @property
    def version(self) -> str:
        """The version of the protocol."""
        return "0.3" if self.dialect == "0.3" else "1.0"

    @property
    def text(self) -> str:
        """All text of the task when it is finished."""
        return "".join(item.text for item in self.happenings)

    @property
    def finished(self) -> bool:
        """True if nothing more is going to happen."""
        return self.happened >= len(self.happenings)

    def go_on(self, count: int) -> None:
        """Let so many further events happen, with nobody watching."""
        self.happened = min(self.happened + count, len(self.happenings))

    def until(self, number: int) -> None:
        """Let everything up to this event happen."""
        self.happened = max(self.happened, number)

    # The task, as far as it has come.

    def state(self) -> str:
        """Return the state in the words of 0.3."""
        seen = [item.state for item in self.happenings[: self.happened] if item.state]
        return seen[-1] if seen else "submitted"

    def artifacts(self) -> dict[str, list[str]]:
        """Return the pieces of text of each artifact."""
        found: dict[str, list[str]] = {}
        for item in self.happenings[: self.happened]:
            if item.artifact:
                pieces = found.setdefault(item.artifact, [])
                if not item.append:
                    pieces.clear()
                pieces.append(item.text)
        return found

    # In the dialect.

    def task(self, *, with_artifacts: bool = True) -> Json:
        """Return a snapshot."""
        artifacts = [
            {"artifactId": name, "parts": [self.part(piece) for piece in self.cut(pieces)]}
            for name, pieces in self.artifacts().items()
        ]
        task: Json = {"id": TASK_ID, "contextId": CONTEXT_ID, "status": self.status(self.state())}
        if artifacts and with_artifacts:
            task["artifacts"] = artifacts
        return {"kind": "task"} | task if self.dialect == "0.3" else task

    def cut(self, pieces: list[str]) -> list[str]:
        """Return the pieces of an artifact as a snapshot has them."""
        return ["".join(pieces)] if self.joined else pieces

    def status(self, state: str) -> Json:
        """Return a status in a state."""
        return {"state": self.word(state), "timestamp": TIMESTAMP}

    def word(self, state: str) -> str:
        """Return the dialect's word for a state."""
        if self.dialect == "0.3":
            return state
        return "TASK_STATE_" + state.upper().replace("-", "_")

    def part(self, text: str) -> Json:
        """Return a part with text."""
        return {"kind": "text", "text": text} if self.dialect == "0.3" else {"text": text}

    def event(self, number: int) -> Json:
        """Return the result that tells of an event, counted from 1, and let it happen."""
        self.until(number)
        item = self.happenings[number - 1]
        if item.first:
            return self.wrap("task", self.task())
        ids: Json = {"taskId": TASK_ID, "contextId": CONTEXT_ID}
        if item.state is not None:
            body = ids | {"status": self.status(item.state)}
            ends = item.state in FINISHED or item.state.endswith("required")
            return self.wrap("status-update", body, final=ends)
        artifact = {"artifactId": item.artifact, "parts": [self.part(item.text)]}
        body = ids | {"artifact": artifact}
        body |= {"append": True} if item.append else {}
        body |= {"lastChunk": True} if item.last else {}
        return self.wrap("artifact-update", body)

    def wrap(self, kind: str, body: Json, *, final: bool = False) -> Json:
        """Return a payload as the result that carries it."""
        if self.dialect == "0.3":
            ending = {"final": final} if kind == "status-update" else {}
            return {"kind": kind} | body | ending
        head, *tail = kind.split("-")
        return {head + "".join(word.title() for word in tail): copy.deepcopy(body)}

    def card(self, url: str) -> Json:
        """Return the card of an agent that speaks the dialect at this address."""
        card: Json = {
            "name": "Counter",
            "description": "Counts.",
            "version": "1",
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
        }
        if self.dialect == "0.3":
            return card | {"url": url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
        binding = "HTTP+JSON" if self.dialect == "rest" else "JSONRPC"
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
        return card | {"supportedInterfaces": [interface]}


def counting(count: int, word: Callable[[int], str], end: str = "completed") -> list[Happening]:
    """Return so many events: the task, its work, pieces of two artifacts, and an end."""
    total = count - 3
    half = (total + 1) // 2
    pieces = [
        Happening(
            artifact="a" if number <= half else "b",
            text=word(number),
            append=number not in (1, half + 1),
            last=number in (half, total),
        )
        for number in range(1, total + 1)
    ]
    start = [Happening(first=True), Happening(state="working")]
    return [*start, *pieces, Happening(state=end)]
