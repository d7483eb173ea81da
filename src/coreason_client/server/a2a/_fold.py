"""The task that the packets of its turns add up to, and the events of each packet. No I/O.

A task has one turn for each message of the user, and a turn is a stream of the log. So a task needs
no storage: everything about it follows from the packets. All objects here are JSON
objects in the shape of protocol 1.0.

`metadata.generation` counts the changes of a task. Each change is exactly one event, so a client
that knows the generation of its last event also knows whether it has missed one. It is in the
metadata because the schema of 1.0 allows no further fields, and gRPC drops them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeAlias

from coreason_manifest.definitions.reports import ToolCallReport, report_of
from coreason_manifest.definitions.rewind import rewound_to

from .._names import AUTH_REQUIRED, INPUT_REQUIRED, MESSAGE, REJECTED

JSON: TypeAlias = dict[str, Any]
Event: TypeAlias = dict[str, JSON]
"""A `StreamResponse`: one of `task`, `message`, `statusUpdate` and `artifactUpdate`."""

_WORKING: Final = "TASK_STATE_WORKING"
_STATES_BY_CODE: Final = {"cancelled": "TASK_STATE_CANCELED", REJECTED: "TASK_STATE_REJECTED"}
_STATES_BY_REASON: Final = {
    INPUT_REQUIRED: "TASK_STATE_INPUT_REQUIRED",
    AUTH_REQUIRED: "TASK_STATE_AUTH_REQUIRED",
}
_OWN: Final = "coreason"  # the key of what A2A has no field for, in the metadata of an object
GENERATION: Final = "generation"
_ABOUT: Final = ("artifactId", "name", "description", "metadata")  # not its parts
_VOID: Final = "void"  # in the metadata of an artifact that a rewind has taken back
# Characters of an answer that is repeated as a whole. Clients of gRPC accept 4 MB in a message.
_MAX_REPEATED: Final = 512 * 1024
_EVENT_MEDIA_TYPE: Final = "application/vnd.coreason.event+json"


@dataclass(frozen=True, slots=True)
class TaskTurn:
    """A message of the user and the stream that answers it; `opened` is a timestamp.

    A turn that only cancels the task has no message.
    """

    stream_id: str
    message: JSON | None
    opened: str


class _Piece(NamedTuple):
    """The addition of one packet to an artifact: parts, and members other than the parts."""

    turn: str
    seq: int
    about: JSON
    parts: list[JSON]
    append: bool
    last: bool


class _Artifact:
    """An artifact as the list of its pieces, because a rewind takes pieces back.

    The pieces of a version that was replaced in this turn are kept: a rewind over the replacement
    makes it valid again.
    """

    __slots__ = ("_pieces", "_void")

    def __init__(self, void: JSON | None = None) -> None:
        self._pieces: list[_Piece] = []
        self._void = void or {}  # what it was before a rewind took all its pieces back

    @property
    def is_void(self) -> bool:
        """True if no piece is valid."""
        return not self._pieces

    @property
    def is_complete(self) -> bool:
        """True if its last piece was marked as the last one."""
        return not self.is_void and self._pieces[-1].last

    def add(self, piece: _Piece) -> None:
        self._pieces.append(piece)

    def settle(self) -> None:
        """Forget replaced versions: no rewind goes back beyond the beginning of a turn."""
        self._pieces = self._valid()

    def rewind(self, turn: str, to_seq: int) -> bool:
        """Drop the pieces of a turn after a packet; return True if there were any."""
        kept = [piece for piece in self._pieces if piece.turn != turn or piece.seq <= to_seq]
        dropped = len(kept) < len(self._pieces)
        if not kept and dropped:
            self._void = self._about()
        self._pieces = kept
        return dropped

    def text_length(self) -> int:
        """Return the number of characters of its texts."""
        parts = (part for piece in self._valid() for part in piece.parts)
        return sum(len(part.get("text") or "") for part in parts)

    def dump(self) -> JSON:
        if not self.is_void:
            parts = merge_texts(part for piece in self._valid() for part in piece.parts)
            return {**self._about(), "parts": parts}
        metadata = {**self._void.get("metadata", {}), _VOID: True}
        return {**self._void, "parts": [{"text": ""}], "metadata": metadata}

    def _valid(self) -> list[_Piece]:
        """Return the pieces from the last one that replaced those before it."""
        places = range(len(self._pieces) - 1, 0, -1)
        first = next((place for place in places if not self._pieces[place].append), 0)
        return self._pieces[first:]

    def _about(self) -> JSON:
        about: JSON = {}
        for piece in self._valid():
            about |= piece.about
        return about


class _Artifacts(dict[str, _Artifact]):
    """The artifacts of a task by id, in the order in which they began."""

    def valid(self, artifact_id: str) -> _Artifact | None:
        """Return an artifact, None if there is none or a rewind has taken it back."""
        artifact = self.get(artifact_id)
        return None if artifact is None or artifact.is_void else artifact

    def add(self, piece: _Piece) -> bool:
        """Add a piece; return True if it is appended to pieces that are valid."""
        artifact_id = piece.about["artifactId"]
        artifact = self.valid(artifact_id)
        if artifact is None:
            self.pop(artifact_id, None)  # a void one; this one is later than the others
            piece = piece._replace(append=False)
            artifact = self[artifact_id] = _Artifact()
        artifact.add(piece)
        return piece.append


class TaskFold:
    """One task, after the packets that were added so far."""

    def __init__(self, task_id: str, context_id: str, *, repeats_answer: bool = False) -> None:
        self.generation = 0
        self._repeats_answer = repeats_answer
        self.as_task = False
        """True if the client knows the task already, so a message can only be its last status."""
        self.message: JSON | None = None
        """The answer, if it is a message and not a task."""
        self._ids = {"taskId": task_id, "contextId": context_id}
        self._status: JSON = {"state": "TASK_STATE_SUBMITTED"}
        self._history: list[JSON] = []
        self._artifacts = _Artifacts()
        self._turn = ""
        self._answer: JSON = {}  # the members of the answer of this turn other than its parts
        self._question: tuple[int, str] | None = None  # its packet and its text
        self._question_text_seq = 0  # the packet with that text, 0 before it comes

    @classmethod
    def restored(cls, task: JSON, *, as_task: bool, repeats_answer: bool = False) -> Self:
        """Return the fold of whole turns from the task that they add up to."""
        fold = cls(task["id"], task["contextId"], repeats_answer=repeats_answer)
        fold.as_task = as_task
        fold.generation = task["metadata"][GENERATION]
        fold._status = task["status"]
        fold._history = list(task.get("history", ()))
        for artifact in task.get("artifacts", ()):
            about = {name: value for name, value in artifact.items() if name != "parts"}
            is_void = bool(about.get("metadata", {}).get(_VOID))
            kept = fold._artifacts[artifact["artifactId"]] = _Artifact(about if is_void else None)
            if not is_void:
                kept.add(_Piece("", 0, about, artifact["parts"], append=False, last=True))
        return fold

    @property
    def state(self) -> str:
        """The state of the task."""
        return str(self._status["state"])

    def task(self, *, history: int | None = None, artifacts: bool = True) -> JSON:
        """Return the task as it stands, with at most `history` messages."""
        task: JSON = {
            "id": self._ids["taskId"],
            "contextId": self._ids["contextId"],
            "status": self._status,
            "metadata": {GENERATION: self.generation},
        }
        if artifacts and self._artifacts:
            task["artifacts"] = [artifact.dump() for artifact in self._artifacts.values()]
        messages = self._history if history is None else self._history[-history:] if history else []
        if messages:
            task["history"] = list(messages)
        return task

    # Turns.

    def begin(self, turn: TaskTurn) -> Event:
        """Begin a turn; return its event, the task as it stands."""
        asked = self._status.get("message")
        if asked is not None:  # the agent's question becomes a message of the past
            self._history.append(asked)
        if turn.message is not None:
            self._history.append({**turn.message, **self._ids})
        self._turn, self._answer = turn.stream_id, {"artifactId": f"{turn.stream_id}:answer"}
        self._status = {"state": _WORKING, "timestamp": turn.opened}
        self._question, self._question_text_seq = None, 0
        for artifact in self._artifacts.values():
            artifact.settle()
        self.generation += 1
        return {"task": self.task()}

    def add(self, packet: Mapping[str, Any]) -> list[Event]:
        """Add the next packet of the turn; return its events in order."""
        op, payload, seq = packet["op"], packet["p"], packet["seq"]
        if op == "DELTA":
            return self._add_text(seq, payload)
        if op == "EVENT":
            return self._add_event(seq, payload)
        if op == "ERROR":
            return [self._add_error(seq, payload, packet["t"])]
        return self._close(seq, payload, packet["t"])

    def skip(self, packet: Mapping[str, Any]) -> None:
        """Add the next packet of the turn, whose events nobody reads."""
        if packet["op"] == "DELTA" and self._question is None:
            parts = [{"text": packet["p"]}]
            self._artifacts.add(
                _Piece(self._turn, packet["seq"], self._answer, parts, append=True, last=False)
            )
            self.generation += 1
        else:
            self.add(packet)

    # Artifacts.

    def _add_text(self, seq: int, text: str) -> list[Event]:
        if self._question is not None and not self._question_text_seq:
            self._question_text_seq = seq
            if text == self._question[1]:  # it is the message of the status that follows
                return []
        return [self._add_artifact(seq, self._answer, [{"text": text}], append=True)]

    def _add_artifact(
        self, seq: int, about: JSON, parts: list[JSON], *, append: bool = False, last: bool = False
    ) -> Event:
        appended = self._artifacts.add(_Piece(self._turn, seq, about, parts, append, last))
        return self._artifact_update({**about, "parts": parts}, append=appended, last=last)

    def _artifact_update(self, artifact: JSON, *, append: bool, last: bool) -> Event:
        flags = {"append": append, "lastChunk": last}
        given = {name: True for name in flags if flags[name]}
        return self._event("artifactUpdate", {}, artifact=artifact, **given)

    def _add_event(self, seq: int, event: JSON) -> list[Event]:
        if (to_seq := rewound_to(event)) is not None:
            return self._rewind(to_seq)
        if (report := report_of(event)) is not None:  # not a result of the task
            text = f"Calling {report.name}" if isinstance(report, ToolCallReport) else None
            return [self._working(seq, text, event)]
        kind, data = event.get("type"), event.get("data")
        if not isinstance(data, dict):
            return [self._add_data(seq, event)]
        match kind:
            case "THOUGHT_TRACE":
                return [self._working(seq, data.get("content"), event)]
            case "PROGRESS_INDICATOR":
                return [self._working(seq, data.get("label"), event)]
            case "MARKDOWN_BLOCK" if isinstance(data.get("content"), str):
                part = {"text": data["content"], "mediaType": "text/markdown"}
                return [self._add_own(seq, [part])]
            case "MEDIA_CAROUSEL" if parts := _media_parts(data):
                return [self._add_own(seq, parts)]
            case "QUESTION" if isinstance(data.get("question"), str):
                self._question, self._question_text_seq = (seq, data["question"]), 0
                return []
            case "ARTIFACT" if data.get("artifactId") and data.get("parts"):
                about = {name: data[name] for name in _ABOUT if data.get(name) is not None}
                append, last = bool(data.get("append")), bool(data.get("lastChunk"))
                return [self._add_artifact(seq, about, data["parts"], append=append, last=last)]
        return [self._add_data(seq, event)]

    def _add_own(self, seq: int, parts: list[JSON]) -> Event:
        """Add an artifact that is complete with this packet."""
        return self._add_artifact(seq, {"artifactId": f"{self._turn}:{seq}"}, parts, last=True)

    def _add_data(self, seq: int, event: JSON) -> Event:
        shown = {name: value for name, value in event.items() if name not in ("id", "timestamp")}
        return self._add_own(seq, [{"data": shown, "mediaType": _EVENT_MEDIA_TYPE}])

    def _rewind(self, to_seq: int) -> list[Event]:
        if self._question is not None and self._question[0] > to_seq:
            self._question = None
        if self._question_text_seq > to_seq:
            self._question_text_seq = 0
        touched = [one for one in self._artifacts.values() if one.rewind(self._turn, to_seq)]
        return [
            self._artifact_update(one.dump(), append=False, last=one.is_complete) for one in touched
        ]

    # The status.

    def _working(self, seq: int, text: Any, event: JSON) -> Event:
        # The timestamp is that of the state, which has not changed.
        status: JSON = {"state": _WORKING, "timestamp": self._status.get("timestamp")}
        if isinstance(text, str):
            status["message"] = self._agent_message(seq, [{"text": text}])
        about: JSON = {name: event[name] for name in ("type", "data") if name in event}
        return self._set_status(status, about)

    def _add_error(self, seq: int, error: JSON, at: str) -> Event:
        about = {name: error[name] for name in ("code", "details") if error.get(name) is not None}
        message = self._agent_message(seq, [{"text": error["message"]}])
        if error["severity"] != "FATAL":
            status = {"state": _WORKING, "timestamp": self._status.get("timestamp")}
            return self._set_status({**status, "message": message}, about)
        state = _STATES_BY_CODE.get(error["code"], "TASK_STATE_FAILED")
        return self._set_status({"state": state, "message": message, "timestamp": at}, about)

    def _close(self, seq: int, payload: Any, at: str) -> list[Event]:
        reason = payload.get("reason") if isinstance(payload, dict) else None
        if reason == MESSAGE and not self.as_task:
            self.message = self._agent_message(seq, payload["parts"])
            del self.message["taskId"]  # there is no task that the client could name
            self.generation += 1
            return [{"message": self.message}]
        events = []
        answer = self._artifacts.valid(self._answer.get("artifactId", ""))
        if answer is not None:
            last, append = _last_chunk(answer, self._answer, repeats=self._repeats_answer)
            events.append(self._artifact_update(last, append=append, last=True))
        asks = _STATES_BY_REASON.get(reason) if isinstance(reason, str) else None
        status: JSON = {"state": asks or "TASK_STATE_COMPLETED", "timestamp": at}
        if asks is not None:
            question = [{"text": payload.get("question", "")}]
            status["message"] = self._agent_message(seq, question)
        elif reason == MESSAGE:
            status["message"] = self._agent_message(seq, payload["parts"])
        return [*events, self._set_status(status)]

    def _agent_message(self, seq: int, parts: list[JSON]) -> JSON:
        about = {"messageId": f"{self._turn}:{seq}", "role": "ROLE_AGENT"}
        return {**about, "parts": parts, **self._ids}

    def _set_status(self, status: JSON, about: JSON | None = None) -> Event:
        self._status = status
        return self._event("statusUpdate", {_OWN: about} if about else {}, status=status)

    def _event(self, kind: str, metadata: JSON, **members: Any) -> Event:
        self.generation += 1
        counted = {**metadata, GENERATION: self.generation}
        return {kind: {**self._ids, **members, "metadata": counted}}


def _last_chunk(answer: _Artifact, about: JSON, *, repeats: bool) -> tuple[JSON, bool]:
    """Return the last update of an answer, and whether it appends.

    It has an empty text, or `repeats` the answer as a whole: some clients, such as google-adk,
    take what comes with `lastChunk` for the answer and drop the chunks before it. Others, which
    ignore `append`, would show such an answer twice.
    """
    if repeats and answer.text_length() <= _MAX_REPEATED:
        return answer.dump(), False
    return {**about, "parts": [{"text": ""}]}, True


def task_as_updates(task: JSON) -> list[Event]:
    """Return a task as updates, for a client of 0.3: it accepts a task only as the first event."""
    ids = {"taskId": task["id"], "contextId": task["contextId"]}
    artifacts = task.get("artifacts", ())
    return [
        *({"artifactUpdate": {**ids, "artifact": one}} for one in artifacts),
        {"statusUpdate": {**ids, "status": task["status"], "metadata": task["metadata"]}},
    ]


def _media_parts(data: JSON) -> list[JSON]:
    items = data.get("items")
    if not isinstance(items, list):
        return []
    return [part for item in items if (part := _media_part(item)) is not None]


def _media_part(item: Any) -> JSON | None:
    if not isinstance(item, dict) or not isinstance(item.get("url"), str):
        return None
    part: JSON = {"url": item["url"]}
    if isinstance(item.get("mime_type"), str):
        part["mediaType"] = item["mime_type"]
    if isinstance(item.get("alt_text"), str):
        part["metadata"] = {"altText": item["alt_text"]}
    return part


def merge_texts(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts with neighbours that are only text joined: an answer is one text."""
    merged: list[dict[str, Any]] = []
    texts: list[str] = []
    for part in parts:
        if part.keys() == {"text"}:
            texts.append(part["text"])
            continue
        if texts:
            merged.append({"text": "".join(texts)})
            texts = []
        merged.append(part)
    if texts:
        merged.append({"text": "".join(texts)})
    return merged
