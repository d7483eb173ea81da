"""The chunks of an answer, as `useChat` reads them. No I/O.

One answer is one step of a message, so that a client can drop all of it: on a rewind, the chunk
`reset-step` does so, and what is still valid is written once more, with one chunk for each part.
Every body ends with `finish` and the end mark, also after an error: without it, a transport of the
SDK asks again and again.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from .. import answer
from ..answer._fold import AnswerFold
from ..answer._writer import Writer, event_frame, page_usage, result_text
from ..http._chats import question_id
from . import AnswerFacts, message_id

_JSON = dict[str, Any]
_REPEATED = re.compile(r"-repeat-[0-9]+\Z", re.ASCII)
_DONE: Final = b"data: [DONE]\n\n"
FINISH_ALONE: Final = event_frame({"type": "finish"}) + _DONE
"""The body for a reader that has everything."""
_MAX_FILE: Final = 349_528  # characters: 256 KiB in base64
_UNKNOWN_TYPE: Final = "application/octet-stream"
_NAMES: Final = {answer.Part.TEXT: "text", answer.Part.THOUGHTS: "reasoning"}
_REASONS: Final = {"length": "length", "content_filter": "content-filter"}
_OWN_TOOL: Final = {"providerExecuted": True, "dynamic": True}
_REWOUND: Final = {
    "code": "rewound",
    "message": "The agent was restarted and takes back words that were sent, which this page does "
    "not allow: ask again.",
}
_USAGE: Final = (
    *("inputTokens", "outputTokens", "totalTokens"),
    *("cachedInputTokens", "cacheWriteInputTokens", "reasoningTokens"),
)


class Earlier(NamedTuple):
    """An earlier answer of the same message, for a reader that begins the message anew."""

    stream_id: UUID
    facts: AnswerFacts
    entries: Iterable[bytes]


def _repeated(call_id: str, count: int) -> str:
    return call_id if count == 1 else f"{call_id}-repeat-{count}"


def is_call_id(given: str, call_id: str) -> bool:
    """Return True if a client may know a call under this id."""
    return given == call_id or _REPEATED.sub("", given) == call_id


class _CallIds:
    """The ids of calls; an agent may use one again after its result, and a client may not."""

    def __init__(self) -> None:
        self.asked: str | None = None
        """The id of the call that a question is about."""
        self.names: dict[str, str] = {}
        """The ids of the newest calls, by those that the agent gave them."""
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()

    def begin(self, call_id: str) -> str:
        """Return the id of a new call."""
        count = self._counts.get(call_id, 0) + 1
        while (name := _repeated(call_id, count)) in self._used:
            count += 1
        self._use(call_id, name, count)
        return name

    def continues(self, call_id: str, given: str) -> bool:
        """Return True if a new call is the one that an earlier answer has asked about."""
        is_same = call_id not in self._counts and is_call_id(given, call_id)
        if is_same:
            self._use(call_id, given, 1)
        return is_same

    def _use(self, call_id: str, name: str, count: int) -> None:
        self._counts[call_id] = count
        self.names[call_id] = name
        self._used.add(name)


class ChunkWriter(Writer):
    """Writes the chunks after the number `after`, counted from 0.

    With `earlier`, the message is written from its beginning.
    """

    text_types = (answer.Markdown,)

    def __init__(
        self,
        stream_id: UUID,
        facts: AnswerFacts,
        max_tool_result: int,
        *,
        after: int = -1,
        earlier: Sequence[Earlier] | None = None,
    ) -> None:
        super().__init__()
        self._stream_id = stream_id
        self._facts = facts
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
        return "reset-step" in self._facts.capabilities

    def start(self) -> bytes:
        """Return the chunks before the first packet."""
        stream_id, facts = self._stream_id, self._facts
        self._emit("start", messageId=facts.continues or message_id(stream_id))
        self._is_earlier = True
        for one in self._earlier or ():
            self._stream_id, self._facts = one.stream_id, one.facts
            self._begin_step()
            self._add_joined(one.entries)
        self._stream_id, self._facts, self._is_earlier = stream_id, facts, False
        self._begin_step()
        return self._take()

    def _begin_step(self) -> None:
        if self._earlier is not None:  # otherwise the client itself has the approval in its message
            self._tell_approval()
        self._forget()
        self._emit("start-step")

    def _tell_approval(self) -> None:
        approval = self._facts.approval
        if approval is not None and "tool-approval-response" in self._facts.capabilities:
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

    # Text and thoughts.

    def _begin(self, event: answer.Began) -> None:
        self._parts += 1
        name = _NAMES[event.part]
        part_id = self._part_id = f"{name}-{self._parts}"
        self._emit(f"{name}-start", id=part_id)
        self._thoughts = 0
        self._paragraph_at = self._number
        self._frame = b'data: {"type":"text-delta","id":"%b","delta":%%b}\n\n' % part_id.encode()

    def _add_thought(self, thought: answer.Thought) -> None:
        before = "\n\n" if self._thoughts else ""
        self._thoughts += 1
        self._emit("reasoning-delta", id=self._part_id, delta=f"{before}{thought.text}")

    # Tool calls. The client must not execute them, so they are marked.

    def _add_call(self, call: answer.ToolCall) -> None:
        approval = self._facts.approval
        if approval is not None and self._calls.continues(call.call_id, approval.call_id):
            return  # the message has this call: the user was asked about it
        name = self._calls.begin(call.call_id)
        shown = {"toolCallId": name, "toolName": call.name, "input": call.arguments}
        self._emit("tool-input-available", **shown, **_OWN_TOOL)

    def _add_result(self, result: answer.ToolResult) -> None:
        call_id, most = self._calls.names[result.call.call_id], self._max_tool_result
        if not result.has_ended and call_id == self._calls.asked:
            return  # the call waits for the user
        text = result_text(result, most)
        if result.is_error:
            self._emit("tool-output-error", toolCallId=call_id, errorText=text, **_OWN_TOOL)
        else:
            output = result.value if len(text) <= most else text
            self._emit("tool-output-available", toolCallId=call_id, output=output, **_OWN_TOOL)

    def _ask(self, question: answer.Question) -> None:
        name, about = question_id(self._stream_id), _JSON()
        if question.call is not None:
            self._calls.asked = self._calls.names[question.call.call_id]
            about = {"toolCallId": self._calls.asked}
        if about and "tool-approval-request" in self._facts.capabilities:
            self._emit("tool-approval-request", approvalId=name, **about)
        else:
            self._emit("data-question", id=name, data={"question": question.text, **about})

    def _cite(self, event: answer.Cited) -> None:
        for one in event.citations:
            self._sources += 1
            # A message may have several answers, each with its sources.
            name = f"source-{self._stream_id.hex[:8]}-{self._sources}"
            self._emit("source-url", sourceId=name, url=one["uri"], title=one["title"])

    # The end.

    def _finish(self, event: answer.Finished) -> None:
        error = event.error
        if self._is_earlier:
            self._emit("finish-step")
            if error is None and (metadata := self._metadata(event.asks)):
                self._emit("message-metadata", **metadata)
        elif error is None:
            self._emit("finish-step")
            self._end(_REASONS.get(event.limit or "", "stop"), event.asks)
        elif error["code"] == "cancelled":
            self._emit("abort")
            self._end("other")
        else:
            self._fail(error)

    def _fail(self, error: _JSON) -> None:
        self._emit("error", errorText=error["message"], code=error["code"])
        self._end("error")

    def _end(self, reason: str, asks: str | None = None) -> None:
        self._emit("finish", finishReason=reason, **self._metadata(asks))
        self._out.append(_DONE)
        self.has_ended = True

    def _metadata(self, asks: str | None) -> _JSON:
        """Return what the end of an answer adds to the metadata of its message."""
        metadata: _JSON = {}
        if asks is not None or self._facts.continues:
            metadata["asks"] = asks  # None takes back what the message has said before
        if (usage := self.fold.usage) is not None:
            metadata["usage"] = page_usage(usage, _USAGE)
        return {"messageMetadata": metadata} if metadata else {}


# Everything else.


def _add_media(writer: ChunkWriter, event: answer.Media) -> None:
    for one in event.items:
        writer._emit("file", url=one["url"], mediaType=one["mime_type"])


def _add_artifact(writer: ChunkWriter, event: answer.Artifact) -> None:
    rest = []
    for part in event.data["parts"]:
        url, media_type = _file_url(part), part.get("mediaType")
        if url is None:
            rest.append({name: value for name, value in part.items() if name != "raw"})
        else:
            known = media_type if isinstance(media_type, str) else _UNKNOWN_TYPE
            writer._emit("file", url=url, mediaType=known)
    if rest:
        writer._emit("data-artifact", data={**event.data, "parts": rest})


def _file_url(part: _JSON) -> str | None:
    """Return the URL of a part that is a file, None for other content and for a large file."""
    url, raw = part.get("url"), part.get("raw")
    if isinstance(url, str):
        return url
    if not isinstance(raw, str) or len(raw) > _MAX_FILE:
        return None
    return f"data:{part.get('mediaType') or _UNKNOWN_TYPE};base64,{raw}"


def _add_warning(writer: ChunkWriter, event: answer.Warned) -> None:
    shown = {"code": event.error["code"], "message": event.error["message"]}
    writer._emit("data-warning", data=shown)


def _add_own(writer: ChunkWriter, event: answer.Other) -> None:
    """Write an agent's own event; one with the name of a chunk of data is one."""
    own = event.event
    kind = own.get("type")
    if isinstance(kind, str) and kind.startswith("data-"):
        members = (("id", str), ("transient", bool))
        given = {name: own[name] for name, of in members if isinstance(own.get(name), of)}
        writer._emit(kind, data=own.get("data"), **given)
    else:
        writer._emit("data-event", data=own)


ChunkWriter.handlers = {
    answer.Began: ChunkWriter._begin,
    answer.Ended: lambda writer, it: writer._emit(f"{_NAMES[it.part]}-end", id=writer._part_id),
    answer.Thought: ChunkWriter._add_thought,
    answer.ToolCall: ChunkWriter._add_call,
    answer.ToolResult: ChunkWriter._add_result,
    answer.Cited: ChunkWriter._cite,
    answer.Media: _add_media,
    answer.Artifact: _add_artifact,
    answer.Question: ChunkWriter._ask,
    answer.Progress: lambda writer, it: writer._emit("data-progress", data=it.data, transient=True),
    answer.Warned: _add_warning,
    answer.Other: _add_own,
    answer.Rewound: lambda writer, _: writer._fail(_REWOUND),
    answer.Finished: ChunkWriter._finish,
}
