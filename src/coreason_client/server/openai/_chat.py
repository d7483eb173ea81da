"""Chat completions: the chunks of a stream, and the object of an answer. No I/O."""

from typing import Any, Final

from pydantic_core import to_json

from ..answer import Cited, Finished, Rewound, Thought
from ..answer._writer import event_frame
from ..log.base import StreamMeta
from ._wire import REWOUND, TextWriter, annotation, error_object

CHAT_PREFIX: Final = "chatcmpl-"
"""The prefix of the ids of chat completions."""
_DONE: Final = b"data: [DONE]\n\n"
_MARK: Final = "\0"  # stands for the text in the prepared frame


class ChatWriter(TextWriter):
    """Writes chunks; `completion` is the whole answer.

    `includes_usage` is that of the request: then every chunk has a usage.
    """

    def __init__(self, meta: StreamMeta, model: str, *, includes_usage: bool = False) -> None:
        super().__init__()
        self._about = {
            "id": f"{CHAT_PREFIX}{meta.stream_id.hex}",
            "created": int(meta.opened_at),
            "model": model,
        }
        self._includes_usage = includes_usage
        chunk = self._chunk({"content": _MARK}).replace(b"%", b"%%")
        self._frame = chunk.replace(to_json(_MARK), b"%b")
        self._thoughts: list[str] = []
        self._annotations: list[dict[str, Any]] = []
        self.finished = Finished()
        """The end, once it was read."""

    def start(self) -> bytes:
        """Return the chunk with the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def completion(self) -> dict[str, Any]:
        """Return the answer as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text(), "refusal": None}
        if self._annotations:
            message["annotations"] = self._annotations
        if self._thoughts:
            message["reasoning_content"] = "\n\n".join(self._thoughts)
        reason = self.finished.limit or "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        usage = _usage(self.fold.usage)
        return {**self._about, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _piece(self, text: bytes) -> bytes:
        self._texts.append(text)
        return self._frame % text

    def _add_thought(self, thought: Thought) -> None:
        before = "\n\n" if self._thoughts else ""
        self._thoughts.append(thought.text)
        self._out.append(self._chunk({"reasoning_content": f"{before}{thought.text}"}))

    def _cite(self, event: Cited) -> None:
        position = self._length()
        for one in event.citations:
            cited = {"type": "url_citation", "url_citation": annotation(one, position)}
            self._annotations.append(cited)

    def _finish(self, event: Finished) -> None:
        self.finished = event
        if event.error is not None:
            self._fail(event.error)
            return
        self._add_annotations()
        self._out.append(self._chunk({}, event.limit or "stop"))
        if self._includes_usage and (usage := _usage(self.fold.usage)) is not None:
            chunk = {"object": "chat.completion.chunk", "choices": [], "usage": usage}
            self._out.append(event_frame({**self._about, **chunk}))
        self._end()

    def _add_annotations(self) -> None:
        """Write all citations in one chunk: the helpers of the SDKs cannot join several."""
        if self._annotations:
            self._out.append(self._chunk({"annotations": self._annotations}))

    def _fail(self, error: dict[str, Any]) -> None:
        self.finished = Finished(error=error)
        self._add_annotations()
        shown = error_object(error["message"], error["code"], status=500)
        self._out.append(event_frame({"error": shown}))
        self._end()

    def _end(self) -> None:
        self._out.append(_DONE)
        self.has_ended = True

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._about, "object": "chat.completion.chunk", "choices": [choice]}
        return event_frame({**chunk, "usage": None} if self._includes_usage else chunk)


ChatWriter.handlers = {
    Thought: ChatWriter._add_thought,
    Cited: ChatWriter._cite,
    Rewound: lambda writer, _: writer._fail(REWOUND),
    Finished: ChatWriter._finish,
}


def _usage(usage: dict[str, int] | None) -> dict[str, Any] | None:
    """Return the usage of an answer, None if it is not known."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage.get("cached_tokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
    }
