"""The Responses API: the numbered events of a stream, and the object of a response. No I/O."""

from typing import Any, Final

from pydantic_core import to_json

from .. import answer
from ..answer._writer import arguments_json, cut, result_text
from ..log.base import StreamMeta
from ._stored import response_id
from ._wire import REWOUND, TextWriter, annotation

_JSON = dict[str, Any]
_MAX_REPEATED: Final = 8_000_000  # characters of the output that the last event repeats
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_DELTA: Final = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":%%d,"item_id":"%b",'
    b'"output_index":%d,"content_index":0,"delta":%%b,"logprobs":[]}\n\n'
)


class _Items:
    """The items of the output, and the numbered events that tell of them.

    Events up to the number `after` are counted, and not written.
    """

    def __init__(self, stream: str, out: list[bytes], after: int) -> None:
        self.output: list[_JSON] = []
        self.index = 0
        """The index of the item that began last."""
        self.number = 0
        """The number of the next event."""
        self.after = after
        self.out = out
        self._stream = stream

    @property
    def current(self) -> _JSON:
        """The item that began last."""
        return self.output[self.index]

    def begin(self, prefix: str, item: _JSON) -> None:
        self.index = len(self.output)
        item = {"id": f"{prefix}_{self._stream}_{self.index}", **item}
        self.output.append(item)
        self.emit("response.output_item.added", output_index=self.index, item=item)

    def change(self, index: int | None = None, **members: Any) -> _JSON:
        index = self.index if index is None else index
        # A new object: the one before may be part of a response that was returned.
        item = self.output[index] = {**self.output[index], **members}
        return item

    def end(self, index: int | None = None, **members: Any) -> None:
        index = self.index if index is None else index
        item = self.change(index, **members)
        self.emit("response.output_item.done", output_index=index, item=item)

    def tell(self, kind: str, index: int | None = None, **members: Any) -> None:
        """Write an event about an item."""
        index = self.index if index is None else index
        self.emit(kind, item_id=self.output[index]["id"], output_index=index, **members)

    def emit(self, kind: str, **members: Any) -> None:
        number = self.number
        self.number = number + 1
        if number > self.after:
            event = {"type": kind, "sequence_number": number, **members}
            self.out.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), to_json(event)))


class ResponseWriter(TextWriter):
    """Writes the events after the number `after`; `response` is the object as it stands."""

    def __init__(
        self, meta: StreamMeta, model: str, max_tool_result: int, *, after: int = -1
    ) -> None:
        super().__init__()
        self._items = _Items(meta.stream_id.hex, self._out, after)
        self._model = model
        self._max_tool_result = max_tool_result
        self._calls: dict[str, int] = {}  # the indexes of open calls
        self._annotations: list[_JSON] = []
        self._delta = b""
        self._response: _JSON = {
            "id": response_id(meta.stream_id),
            "object": "response",
            "created_at": int(meta.opened_at),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": model,
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
        }

    @property
    def number(self) -> int:
        """The number of the next event."""
        return self._items.number

    def start(self) -> bytes:
        """Return the first two events."""
        for name in ("created", "in_progress"):
            self._items.emit(f"response.{name}", response=self.response())
        return self._take()

    def response(self) -> _JSON:
        """Return the response as it stands."""
        output = [dict(item) for item in self._items.output]
        if self.fold.part is answer.Part.TEXT:
            output[self._items.index] |= self._message(self._text(), "in_progress")
        return {**self._response, "output": output}

    # Text.

    def _piece(self, text: bytes) -> bytes:
        self._texts.append(text)
        items = self._items
        number = items.number
        items.number = number + 1
        return self._delta % (number, text) if number > items.after else b""

    def _begin_part(self, event: answer.Began) -> None:
        if event.part is answer.Part.TEXT:
            self._begin_text()
        else:
            item = {"type": "reasoning", "summary": [], "status": "in_progress"}
            self._items.begin("rs", item)

    def _end_part(self, event: answer.Ended) -> None:
        if event.part is answer.Part.TEXT:
            self._end_text()
        else:
            self._items.end(status="completed")

    def _begin_text(self) -> None:
        self._texts, self._annotations, self._paragraph_at = [], [], 0
        self._items.begin("msg", self._message("", "in_progress") | {"content": []})
        self._delta = _DELTA % (self._items.current["id"].encode(), self._items.index)
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._items.tell("response.content_part.added", content_index=0, part=part)

    def _end_text(self) -> None:
        text = self._text()
        item = self._message(text, "completed")
        self._items.tell("response.output_text.done", content_index=0, text=text, logprobs=[])
        part = item["content"][0]
        self._items.tell("response.content_part.done", content_index=0, part=part)
        self._items.end(**item)

    def _message(self, text: str, status: str) -> _JSON:
        annotations = list(self._annotations)
        part = {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}
        return {"type": "message", "status": status, "role": "assistant", "content": [part]}

    def _cite(self, event: answer.Cited) -> None:
        self._add_all(self.fold.begin_text())
        position = self._length()
        for source in event.citations:
            cited = {"type": "url_citation", **annotation(source, position)}
            self._items.tell(
                "response.output_text.annotation.added",
                content_index=0,
                annotation_index=len(self._annotations),
                annotation=cited,
            )
            self._annotations.append(cited)

    # Thoughts.

    def _add_thought(self, event: answer.Thought) -> None:
        text = event.text
        summary = self._items.current["summary"]
        where = {"summary_index": len(summary)}
        part = {"type": "summary_text", "text": text}
        name = "response.reasoning_summary"
        self._items.tell(f"{name}_part.added", **where, part={**part, "text": ""})
        self._items.tell(f"{name}_text.delta", **where, delta=text)
        self._items.tell(f"{name}_text.done", **where, text=text)
        self._items.tell(f"{name}_part.done", **where, part=part)
        self._items.change(summary=[*summary, part])

    # Tools of the agent, in the form of calls that a client does not execute.

    def _begin_call(self, call: answer.ToolCall) -> None:
        arguments = arguments_json(call.arguments)
        item = {
            "type": "mcp_call",
            "name": call.name,
            "server_label": self._model,
            "arguments": "",
            "status": "in_progress",
            "output": None,
            "error": None,
        }
        self._items.begin("mcp", item)
        self._calls[call.call_id] = self._items.index
        self._items.tell("response.mcp_call.in_progress")
        self._items.tell("response.mcp_call_arguments.done", arguments=arguments)
        self._items.change(arguments=arguments)

    def _end_call(self, result: answer.ToolResult) -> None:
        index = self._calls.pop(result.call.call_id)
        text = result_text(result, self._max_tool_result)
        name = "failed" if result.is_error else "completed"
        self._items.tell(f"response.mcp_call.{name}", index)
        status = name if result.has_ended else "incomplete"
        # The error of a call is its output too: `error` is text in some versions of the SDKs and an
        # object in others.
        self._items.end(index, status=status, output=text)

    # The end.

    def _finish(self, event: answer.Finished) -> None:
        if event.error is not None and event.error["code"] != "cancelled":
            self._fail(event.error)
            return
        status, name = "completed", "completed"
        if event.error is not None:
            status, name = "cancelled", "incomplete"
        elif event.limit is not None:
            status = name = "incomplete"
            self._response["incomplete_details"] = {"reason": _INCOMPLETE[event.limit]}
        if event.asks is not None:
            self._response["metadata"] = {"waiting_for": event.asks}
        self._end(status, name)

    def _fail(self, error: _JSON) -> None:
        code = error["code"]
        known = "rate_limit_exceeded" if "rate_limit" in code else "server_error"
        self._response["error"] = {"code": known, "message": f"{code}: {error['message']}"}
        self._response["metadata"] = {"problem": code}
        self._end("failed", "failed")

    def _end(self, status: str, name: str) -> None:
        self._response["status"] = status
        self._response["usage"] = _usage(self.fold.usage)
        response = self.response()
        _shorten(response["output"])
        self._items.emit(f"response.{name}", response=response)
        self.has_ended = True


ResponseWriter.handlers = {
    answer.Began: ResponseWriter._begin_part,
    answer.Ended: ResponseWriter._end_part,
    answer.Thought: ResponseWriter._add_thought,
    answer.Cited: ResponseWriter._cite,
    answer.ToolCall: ResponseWriter._begin_call,
    answer.ToolResult: ResponseWriter._end_call,
    answer.Rewound: lambda writer, _: writer._fail(REWOUND),
    answer.Finished: ResponseWriter._finish,
}


def _usage(usage: dict[str, int] | None) -> _JSON | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": usage.get("cached_tokens", 0),
            "cache_write_tokens": usage.get("cache_write_tokens", 0),
        },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
        "total_tokens": usage["total_tokens"],
    }


def _shorten(output: list[_JSON]) -> None:
    """Leave out the results of tools if the whole output is too large to be repeated."""
    results = [item for item in output if item.get("output") is not None]
    texts = [part["text"] for item in output for part in item.get("content", ())]
    if sum(map(len, texts)) + sum(len(item["output"]) for item in results) > _MAX_REPEATED:
        for item in results:
            item["output"] = cut(item["output"], 0)
