"""The events of a run, and the messages that a client makes of them. No I/O.

Each event has an id, with which a client that has lost its connection reads on: the id of its
packet, a dot, and the number of the event among those of this packet. RUN_STARTED belongs to packet
0. A reader that joins a run gets RUN_STARTED, a snapshot of all messages up to the last packet that
exists, the other events up to there, and then what follows. The ids of these first events are
`<id of the last packet>.s.<number>`. The ids of messages are made of the numbers of packets too, so
everything here is a function of the log and of the input of the run.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from pydantic_core import from_json, to_json

from .. import answer
from ..answer._entries import single_delta
from ..answer._fold import AnswerFold
from ..answer._writer import Writer, arguments_json, page_usage, result_text
from ..http._chats import question_id
from . import AGUI
from ._request import RunInput

START: Final = (-1, -1)
"""The position before the first event."""
_JSON = dict[str, Any]
_MAX_SNAPSHOT: Final = 8_000_000  # bytes; clients hold at most 10 MB of one event
_EMPTY: Final = b'""'  # clients before 1.0 refuse a piece without text
_TOO_LARGE: Final = {
    "message": "The messages are too many to be sent again: start a new run in a new thread.",
    "code": "rewind_too_large",
}


@dataclass(slots=True)
class _State:
    """The open part and calls of an answer.

    Attributes:
        part: the id of the message that is open.
        parent: the message that gets the next call, None for a new one.
        calls: the ids of the open calls and of the messages for their results.
        used: all ids of calls.
        lost: the calls that were open at the end.
    """

    used: set[str]
    part: str = ""
    parent: str | None = None
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    lost: list[answer.ToolCall] = field(default_factory=list)


class _Messages:
    """The messages that a client makes of events, and the events that are not about messages."""

    def __init__(self) -> None:
        self.others: list[tuple[str, _JSON]] = []
        self._groups: dict[str, list[_JSON]] = {}  # a message, and the results of its calls
        self._calls: dict[str, tuple[list[_JSON], _JSON]] = {}  # the groups and functions of calls
        self._pieces: list[bytes] = []  # of the message that began last
        self._texts: list[tuple[_JSON, list[bytes]]] = []

    def add_piece(self, text: bytes) -> None:
        """Add a piece to the open message, as JSON."""
        self._pieces.append(text)

    def add(self, kind: str, event: _JSON) -> None:
        """Add an event."""
        match kind:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                message = {"id": event["messageId"], "role": event["role"], "content": ""}
                self._groups[message["id"]] = [message]
                self._pieces = []
                self._texts.append((message, self._pieces))
            case "REASONING_MESSAGE_CONTENT":
                self.add_piece(to_json(event["delta"]))
            case "TOOL_CALL_START":
                self._add_call(event["toolCallId"], event["toolCallName"], event["parentMessageId"])
            case "TOOL_CALL_ARGS":
                self._calls[event["toolCallId"]][1]["arguments"] = event["delta"]
            case "TOOL_CALL_RESULT":
                names = ("toolCallId", "role", "content", "metadata")
                result = {name: event[name] for name in names if name in event}
                self._calls[event["toolCallId"]][0].append({"id": event["messageId"], **result})
            case "CUSTOM" | "RUN_FINISHED" | "RUN_ERROR":
                self.others.append((kind, event))

    def _add_call(self, call_id: str, name: str, parent: str) -> None:
        group = self._groups.setdefault(parent, [{"id": parent, "role": "assistant"}])
        function = {"name": name, "arguments": ""}
        call = {"id": call_id, "type": "function", "function": function}
        group[0].setdefault("toolCalls", []).append(call)
        self._calls[call_id] = group, function

    def all(self) -> list[_JSON]:
        """Return the messages; each is followed by the results of its calls."""
        for message, pieces in self._texts:
            message["content"] = "".join(from_json(b"[%b]" % b",".join(pieces)))
        return [message for group in self._groups.values() for message in group]


class _EventWriter(Writer):
    """Writes events with their ids: those after a position, or none while they are collected."""

    def __init__(self, stream_id: UUID, after: tuple[int, int]) -> None:
        super().__init__()
        self._entry = f"id: {stream_id}:0\n".encode()  # that was added last
        self._index = 0  # of the next event of this packet
        self._after = after
        self._collected: _Messages | None = None
        self._is_quiet = after != START  # or while events are collected
        self._delta = b""  # the frame of a piece of text
        self._pieces = 0  # of the open message

    @property
    def packet_id(self) -> str:
        """The id of the packet that was added last."""
        return self._id_line().removeprefix(b"id: ").decode()

    @property
    def _position(self) -> int:
        return self._pieces

    def feed_joined(self, body: bytes) -> bytes:
        """Return what entries that were joined add.

        A piece of text for a live reader takes the short way: it is most of what a server does.
        """
        self._entry, self._index = body, 0
        is_live = self.fold.part is answer.Part.TEXT and not (self._is_quiet or self.has_ended)
        text = single_delta(body) if is_live else None
        if text is None or text == _EMPTY:
            return super().feed_joined(body)
        self.seq, self._index = self.seq + 1, 1
        self._pieces += 1
        return b"%b.0%b%b}\n\n" % (body[: body.find(b"\n")], self._delta, text)

    def _add_entry(self, entry: bytes) -> None:
        self._entry, self._index = entry, 0
        super()._add_entry(entry)

    def _id_line(self) -> bytes:
        return self._entry[: self._entry.find(b"\n")]

    def _piece(self, text: bytes) -> bytes:
        if text == _EMPTY:
            return b""
        self._pieces += 1
        if self._collected is not None:
            self._collected.add_piece(text)
            return b""
        if self._is_quiet and not self._is_wanted():
            return b""
        self._index += 1
        return b"%b.%d%b%b}\n\n" % (self._id_line(), self._index - 1, self._delta, text)

    def _is_wanted(self) -> bool:
        """Return True if the next event is after the position; otherwise it is counted."""
        if (self.seq, self._index) > self._after:
            self._is_quiet = False
            return True
        self._index += 1
        return False

    def _emit(self, kind: str, **members: Any) -> None:
        if self._collected is not None:
            self._collected.add(kind, members)
        else:
            self._send(to_json({"type": kind, **members}))

    def _send(self, event: bytes) -> None:
        if self._is_quiet and not self._is_wanted():
            return
        self._out.append(b"%b.%d\ndata: %b\n\n" % (self._id_line(), self._index, event))
        self._index += 1


class RunWriter(_EventWriter):
    """Writes the events of a run after a position: the number of a packet, and that of an event."""

    text_types: ClassVar[tuple[type, ...]] = (answer.Markdown, answer.Media)

    def __init__(
        self, stream_id: UUID, run: RunInput, settings: AGUI, after: tuple[int, int] = START
    ) -> None:
        super().__init__(stream_id, after)
        self._stream_id = stream_id
        self._run = run
        self._settings = settings
        self._state = _State(run.call_ids)

    @property
    def takes_back(self) -> bool:
        """True: a snapshot takes words back."""
        return True

    def start(self) -> bytes:
        """Return the first event."""
        self._emit("RUN_STARTED", **self._run.started)
        return self._take()

    # Snapshots.

    def begin_snapshot(self) -> _Messages:
        """Collect what is fed from now on, instead of writing it."""
        self._collected, self._is_quiet = _Messages(), True
        return self._collected

    def end_snapshot(self, after: int = -1) -> bytes:
        """Return the events with which a reader joins, those after a number."""
        collected, self._collected = self._collected, None
        assert collected is not None  # noqa: S101 - it has begun
        self._after, self._is_quiet = (self.seq, after), True
        self._entry, self._index = self._id_line() + b".s\n", 0
        has_ended, self.has_ended = self.has_ended, False
        self._emit("RUN_STARTED", **self._run.started)
        self._write_snapshot(collected)
        if not self.has_ended:
            for kind, members in collected.others:
                self._emit(kind, **members)
            self._begin_part(self.fold.part)
            self.has_ended = has_ended
        return self._take()

    def _take_back(self, kept: Iterable[tuple[int, bytes]]) -> None:
        before, seq, is_quiet, outer = self._open_part, self.seq, self._is_quiet, self._collected
        collected = self.begin_snapshot()
        self.fold, self._state = AnswerFold(), _State(self._run.call_ids)
        for number, entry in kept:
            self.seq = number
            Writer._add_entry(self, entry)  # without its id: events belong to the REWIND packet
        self.seq = seq
        if outer is not None:
            return  # the messages are still collected
        self._collected, self._is_quiet = None, is_quiet
        is_same = before == self._open_part
        if not is_same:
            self._end_part(*before)
        self._write_snapshot(collected)
        if not is_same and not self.has_ended:
            self._begin_part(self.fold.part)

    @property
    def _open_part(self) -> tuple[answer.Part | None, str]:
        return self.fold.part, self._state.part

    def _write_snapshot(self, collected: _Messages) -> None:
        messages = to_json([*self._run.given, *collected.all()])
        if len(messages) > _MAX_SNAPSHOT:
            self._emit("RUN_ERROR", **_TOO_LARGE)
            self.has_ended = True
        else:
            self._send(b'{"type":"MESSAGES_SNAPSHOT","messages":%b}' % messages)

    # The events of an answer.

    def _begin(self, event: answer.Began) -> None:
        state = self._state
        state.part, self._pieces, self._paragraph_at = self._name("msg"), 0, 0
        state.parent = state.part if event.part is answer.Part.TEXT else None
        self._begin_part(event.part)

    def _begin_part(self, part: answer.Part | None) -> None:
        message_id = self._state.part
        if part is answer.Part.TEXT:
            prefix = '\ndata: {"type":"TEXT_MESSAGE_CONTENT","messageId":"%s","delta":'
            self._delta = (prefix % message_id).encode()
            self._emit("TEXT_MESSAGE_START", messageId=message_id, role="assistant")
        elif part is answer.Part.THOUGHTS:
            self._emit("REASONING_START", messageId=message_id)
            self._emit("REASONING_MESSAGE_START", messageId=message_id, role="reasoning")

    def _end_part(self, part: answer.Part | None, message_id: str) -> None:
        if part is answer.Part.TEXT:
            self._emit("TEXT_MESSAGE_END", messageId=message_id)
        elif part is answer.Part.THOUGHTS:
            self._emit("REASONING_MESSAGE_END", messageId=message_id)
            self._emit("REASONING_END", messageId=message_id)

    def _think(self, thought: answer.Thought) -> None:
        if text := thought.text:
            delta = f"\n\n{text}" if self._pieces else text
            self._pieces += 1
            self._emit("REASONING_MESSAGE_CONTENT", messageId=self._state.part, delta=delta)

    def _begin_call(self, call: answer.ToolCall) -> None:
        state, call_id = self._state, call.call_id
        if call_id in state.used:  # clients take a known id for the same call
            call_id = f"{call_id}_{self.seq}"
        state.used.add(call_id)
        state.calls[call.call_id] = call_id, self._name("result")
        state.parent = state.parent or self._name("msg")
        names = {"toolCallName": call.name, "parentMessageId": state.parent}
        self._emit("TOOL_CALL_START", toolCallId=call_id, **names)
        self._emit("TOOL_CALL_ARGS", toolCallId=call_id, delta=arguments_json(call.arguments))
        self._emit("TOOL_CALL_END", toolCallId=call_id)

    def _end_call(self, result: answer.ToolResult) -> None:
        call_id, message_id = self._state.calls.pop(result.call.call_id)
        self._state.parent = None
        text = result_text(result, self._settings.max_tool_result)
        failed = {"metadata": {"is_error": True}} if result.is_error else {}
        names = {"messageId": message_id, "toolCallId": call_id, "role": "tool"}
        self._emit("TOOL_CALL_RESULT", **names, content=text, **failed)

    def _finish(self, event: answer.Finished) -> None:
        outcome = self._outcome(event)
        if event.limit is not None:
            self._emit("CUSTOM", name="limit", value={"reason": event.limit})
        usage = _usage(self.fold.usage)
        if event.error is not None and event.error["code"] != "cancelled":
            message, code = event.error["message"], event.error["code"]
            self._emit("RUN_ERROR", message=message, code=code, **usage)
        else:
            names = {"threadId": self._run.thread_id, "runId": self._run.run_id}
            self._emit("RUN_FINISHED", **names, outcome=outcome, **usage)
        self.has_ended = True

    def _outcome(self, event: answer.Finished) -> _JSON:
        """Return the outcome of a run, after the results of the calls that nobody will answer."""
        question = None if event.asks is None else self.fold.question
        asked: _JSON = {}
        pending: list[str] = []
        for call in self._state.lost:
            call_id = self._state.calls[call.call_id][0]
            if question is not None and call == question.call:
                asked = {"reason": "tool_call", "toolCallId": call_id}
            elif event.error is None and call.name in self._run.tools:
                pending.append(call_id)
            else:
                self._end_call(answer.ToolResult(call, None, is_error=True, has_ended=False))
        if event.error is not None:
            return {"type": "cancelled"}
        if question is not None and (asked or self._settings.interrupts):
            about = {"id": question_id(self._stream_id), "message": question.text}
            return {"type": "interrupt", "interrupts": [{**about, "reason": event.asks, **asked}]}
        return {"type": "success", **({"pendingToolCallIds": pending} if pending else {})}

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{self._stream_id.hex}_{self.seq}"


def _end_or_lose(writer: RunWriter, result: answer.ToolResult) -> None:
    if result.has_ended:
        writer._end_call(result)
    else:
        writer._state.lost.append(result.call)  # the end of the answer says what it means


def _own_event(writer: RunWriter, event: answer.Other) -> None:
    kind = event.event.get("type")
    writer._emit("CUSTOM", name=kind if isinstance(kind, str) else "event", value=event.event)


RunWriter.handlers = {
    answer.Began: RunWriter._begin,
    answer.Ended: lambda writer, it: writer._end_part(it.part, writer._state.part),
    answer.Thought: RunWriter._think,
    answer.ToolCall: RunWriter._begin_call,
    answer.ToolResult: _end_or_lose,
    answer.Cited: lambda writer, it: writer._emit("CUSTOM", name="citations", value=it.citations),
    answer.Artifact: lambda writer, it: writer._emit("CUSTOM", name="artifact", value=it.data),
    answer.Progress: lambda writer, it: writer._emit("CUSTOM", name="progress", value=it.data),
    answer.Warned: lambda writer, it: writer._emit("CUSTOM", name="warning", value=it.error),
    answer.Other: _own_event,
    answer.Finished: RunWriter._finish,
}


def _usage(usage: dict[str, int] | None) -> _JSON:
    if usage is None:
        return {}
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    return {"usage": [{**page_usage(usage), "totalTokens": total}]}
