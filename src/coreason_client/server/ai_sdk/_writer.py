"""The chunks of an answer, as `useChat` reads them. No I/O.

One answer is one step of a message, so that a client can drop all of it: on a rewind, the chunk
`reset-step` does so, and what is still valid is written once more, with one chunk for each part.
Every body ends with `finish` and the end mark, also after an error: without it, a transport of the
SDK asks again and again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ..answer import (
    AnswerEvent,
    Artifact,
    Began,
    Cited,
    Ended,
    Finished,
    Markdown,
    Media,
    Other,
    Part,
    Progress,
    Question,
    Rewound,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    Warned,
)
from ..answer._fold import AnswerFold
from ..answer._writer import Writer, as_text, cut, event_frame
from ..http._questions import question_id
from . import AnswerFacts, is_call_id, message_id, repeated_call_id

__all__ = ["FINISH_ALONE", "ChunkWriter", "Earlier"]

_DONE: Final = b"data: [DONE]\n\n"
FINISH_ALONE: Final = event_frame({"type": "finish"}) + _DONE
"""The body for a reader that has everything."""
_MAX_FILE: Final = 349_528  # characters: 256 KiB in base64
_UNKNOWN_TYPE: Final = "application/octet-stream"
_NAMES: Final = {Part.TEXT: "text", Part.THOUGHTS: "reasoning"}
_REASONS: Final = {"length": "length", "content_filter": "content-filter"}
_OWN_TOOL: Final = {"providerExecuted": True, "dynamic": True}
_LOST_CALL: Final = "The answer ended before the call did."
_REWOUND: Final = (
    "The agent was restarted and takes back words that were sent, which this page does not allow: "
    "ask again."
)
_USAGE: Final[Mapping[str, str]] = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cached_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
    "reasoning_tokens": "reasoningTokens",
}


class Earlier:
    """An earlier answer of the same message, for a reader that begins the message anew."""

    def __init__(self, stream_id: UUID, answer: AnswerFacts, entries: Iterable[bytes]) -> None:
        self.stream_id = stream_id
        self.answer = answer
        self.entries = entries


class _CallIds:
    """The ids of calls; an agent may use one again after its result, and a client may not."""

    def __init__(self) -> None:
        self.asked: str | None = None
        """The id of the call that a question is about."""
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._used: set[str] = set()

    def begin(self, call: ToolCall) -> str:
        """Return the id of a new call."""
        count, name = self._counts.get(call.call_id, 0) + 1, call.call_id
        if count > 1:
            name = repeated_call_id(call.call_id, count)
        while name in self._used:
            count += 1
            name = repeated_call_id(call.call_id, count)
        self._counts[call.call_id] = count
        return self._use(call, name)

    def continues(self, call: ToolCall, given: str) -> bool:
        """Return True if a new call is the one that an earlier answer has asked about."""
        is_first = call.call_id not in self._counts
        if is_first and is_call_id(given, call.call_id):
            self._counts[call.call_id] = 1
            self._use(call, given)
            return True
        return False

    def _use(self, call: ToolCall, name: str) -> str:
        self._names[call.call_id] = name
        self._used.add(name)
        return name

    def name(self, call: ToolCall) -> str:
        """Return the id of the newest call with the id that the agent gave it."""
        return self._names[call.call_id]


class ChunkWriter(Writer):
    """Writes the chunks after the number `after`, counted from 0.

    With `earlier`, the message is written from its beginning.
    """

    text_types = (Markdown,)

    def __init__(
        self,
        stream_id: UUID,
        answer: AnswerFacts,
        max_tool_result: int,
        *,
        after: int = -1,
        earlier: Sequence[Earlier] | None = None,
    ) -> None:
        super().__init__()
        self._stream_id = stream_id
        self._answer = answer
        self._max_tool_result = max_tool_result
        self._after = after
        self._earlier = earlier
        self._number = 0
        self._parts = 0  # that have begun
        self._part_id = ""  # of the open part
        self._sources = 0
        self._frame = b""  # of a piece of text of the open part
        self._thoughts = 0  # of the open part
        self._calls = _CallIds()
        self._is_earlier = False

    @property
    def number(self) -> int:
        """The number of the next chunk."""
        return self._number

    @property
    def takes_back(self) -> bool:
        """True if the client knows the chunk for it."""
        return "reset-step" in self._answer.capabilities

    @property
    def _position(self) -> int:
        return self._number

    def start(self) -> bytes:
        """Return the chunks before the first packet."""
        self._emit("start", messageId=self._answer.continues or message_id(self._stream_id))
        stream_id, answer = self._stream_id, self._answer
        self._is_earlier = True
        for one in self._earlier or ():
            self._stream_id, self._answer = one.stream_id, one.answer
            self._begin_step()
            self._add_joined(one.entries)
        self._stream_id, self._answer, self._is_earlier = stream_id, answer, False
        self._begin_step()
        return self._take()

    def _begin_step(self) -> None:
        if self._earlier is not None:  # otherwise the client itself has the approval in its message
            self._tell_approval()
        self._forget()
        self._emit("start-step")

    def _tell_approval(self) -> None:
        approval = self._answer.approval
        if approval is not None and "tool-approval-response" in self._answer.capabilities:
            reason = {} if approval.reason is None else {"reason": approval.reason}
            told = {"approvalId": approval.question_id, "approved": approval.approved, **reason}
            self._emit("tool-approval-response", **told)

    def _forget(self) -> None:
        self.fold = AnswerFold()
        self._calls = _CallIds()
        self._sources = 0

    def _take_back(self, kept: Iterable[tuple[int, bytes]]) -> None:
        self._forget()
        self._emit("reset-step")
        self._tell_approval()  # the call is in an earlier step, and its result may be void
        self._add_joined(entry for _, entry in kept)

    def _piece(self, text: bytes) -> bytes:
        number = self._number
        self._number = number + 1
        return self._frame % text if number > self._after else b""

    def _emit(self, kind: str, **members: Any) -> None:
        number = self._number
        self._number = number + 1
        if number > self._after or kind == "finish":
            self._out.append(event_frame({"type": kind, **members}))

    def _add(self, event: AnswerEvent) -> None:
        match event:
            case Began(part):
                self._begin(part)
            case Ended(part):
                self._emit(f"{_NAMES[part]}-end", id=self._part_id)
            case Text(text):
                self._add_piece(text)
            case Thought(text):
                self._add_thought(text)
            case ToolCall():
                self._add_call(event)
            case ToolResult():
                self._add_result(event)
            case Rewound():
                self._emit("error", errorText=_REWOUND, code="rewound")
                self._end("error")
            case Finished():
                self._finish(event)
            case _:
                self._add_data(event)

    # Text and thoughts.

    def _begin(self, part: Part) -> None:
        self._parts += 1
        part_id = self._part_id = f"{_NAMES[part]}-{self._parts}"
        self._emit(f"{_NAMES[part]}-start", id=part_id)
        self._thoughts = 0
        self._paragraph_at = self._number
        self._frame = b'data: {"type":"text-delta","id":"%b","delta":%%b}\n\n' % part_id.encode()

    def _add_thought(self, text: str) -> None:
        before = "\n\n" if self._thoughts else ""
        self._thoughts += 1
        self._emit("reasoning-delta", id=self._part_id, delta=f"{before}{text}")

    # Tool calls. The client must not execute them, so they are marked.

    def _add_call(self, call: ToolCall) -> None:
        approval = self._answer.approval
        if approval is not None and self._calls.continues(call, approval.call_id):
            return  # the message has this call: the user was asked about it
        name = self._calls.begin(call)
        shown = {"toolCallId": name, "toolName": call.name, "input": call.arguments}
        self._emit("tool-input-available", **shown, **_OWN_TOOL)

    def _add_result(self, result: ToolResult) -> None:
        call_id, value = self._calls.name(result.call), result.value
        if not result.has_ended:
            if call_id != self._calls.asked:
                self._emit(
                    "tool-output-error", toolCallId=call_id, errorText=_LOST_CALL, **_OWN_TOOL
                )
            return
        text = as_text(value)
        shown = cut(text, self._max_tool_result)
        if result.is_error:
            self._emit("tool-output-error", toolCallId=call_id, errorText=shown, **_OWN_TOOL)
        else:
            output = value if shown is text else shown
            self._emit("tool-output-available", toolCallId=call_id, output=output, **_OWN_TOOL)

    # Everything else.

    def _add_data(self, event: AnswerEvent) -> None:
        match event:
            case Cited(citations):
                for one in citations:
                    self._sources += 1
                    # A message may have several answers, each with its sources.
                    name = f"source-{self._stream_id.hex[:8]}-{self._sources}"
                    self._emit("source-url", sourceId=name, url=one["uri"], title=one["title"])
            case Question():
                self._ask(event)
            case _:
                for kind, members in _data(event):
                    self._emit(kind, **members)

    def _ask(self, question: Question) -> None:
        name, call = question_id(self._stream_id), question.call
        if call is not None:
            self._calls.asked = self._calls.name(call)
        if call is not None and "tool-approval-request" in self._answer.capabilities:
            self._emit("tool-approval-request", approvalId=name, toolCallId=self._calls.asked)
            return
        about = {} if call is None else {"toolCallId": self._calls.asked}
        self._emit("data-question", id=name, data={"question": question.text, **about})

    # The end.

    def _finish(self, event: Finished) -> None:
        if self._is_earlier:
            self._emit("finish-step")
            metadata = _metadata(self._answer, self.fold, event.asks)
            if metadata and event.error is None:
                self._emit("message-metadata", messageMetadata=metadata)
        elif event.error is None:
            self._emit("finish-step")
            self._end(_REASONS.get(event.limit or "", "stop"), asks=event.asks)
        elif event.error["code"] == "cancelled":
            self._emit("abort")
            self._end("other")
        else:
            error = event.error
            self._emit("error", errorText=error["message"], code=error["code"])
            self._end("error")

    def _end(self, reason: str, *, asks: str | None = None) -> None:
        metadata = _metadata(self._answer, self.fold, asks)
        told = {"messageMetadata": metadata} if metadata else {}
        self._emit("finish", finishReason=reason, **told)
        self._out.append(_DONE)
        self.has_ended = True


def _metadata(answer: AnswerFacts, fold: AnswerFold, asks: str | None) -> dict[str, Any]:
    """Return what the end of an answer adds to the metadata of its message."""
    metadata: dict[str, Any] = {}
    if asks is not None or answer.continues:
        metadata["asks"] = asks  # None takes back what the message has said before
    if (usage := fold.usage) is not None:
        # In this order: every process must write the same bytes.
        named = {told: usage[name] for name, told in _USAGE.items() if name in usage}
        metadata["usage"] = named
    return metadata


_Chunk = tuple[str, dict[str, Any]]


def _data(event: AnswerEvent) -> list[_Chunk]:
    """Return the chunks for what is neither text nor a tool call."""
    match event:
        case Media(items):
            return [("file", {"url": one["url"], "mediaType": one["mime_type"]}) for one in items]
        case Artifact(data):
            return _artifact(data)
        case Progress(data):
            return [("data-progress", {"data": data, "transient": True})]
        case Warned(error):
            shown = {"code": error["code"], "message": error["message"]}
            return [("data-warning", {"data": shown})]
        case Other(own):
            return [_own(own)]
    return []


def _artifact(data: dict[str, Any]) -> list[_Chunk]:
    chunks: list[_Chunk] = []
    rest = []
    for part in data["parts"]:
        url, media_type = _file_url(part), part.get("mediaType")
        if url is None:
            rest.append({name: value for name, value in part.items() if name != "raw"})
        else:
            known = media_type if isinstance(media_type, str) else _UNKNOWN_TYPE
            chunks.append(("file", {"url": url, "mediaType": known}))
    if rest:
        chunks.append(("data-artifact", {"data": {**data, "parts": rest}}))
    return chunks


def _own(event: dict[str, Any]) -> _Chunk:
    """Return the chunk for an agent's own event; one with the name of a chunk of data is one."""
    kind = event.get("type")
    if not isinstance(kind, str) or not kind.startswith("data-"):
        return "data-event", {"data": event}
    members = {"data": event.get("data")}
    if isinstance(event.get("id"), str):
        members["id"] = event["id"]
    if isinstance(event.get("transient"), bool):
        members["transient"] = event["transient"]
    return kind, members


def _file_url(part: Mapping[str, Any]) -> str | None:
    """Return the URL of a part that is a file, None for other content and for a large file."""
    url, raw = part.get("url"), part.get("raw")
    if isinstance(url, str):
        return url
    if not isinstance(raw, str) or len(raw) > _MAX_FILE:
        return None
    return f"data:{part.get('mediaType') or _UNKNOWN_TYPE};base64,{raw}"
