"""Reads the events of one streamed answer of the Responses API. Pure.

* The type in the data of an event decides; unknown events are ignored. A stream ends with
  `response.completed`, `.incomplete`, `.failed` or an `error` event; `[DONE]` means nothing.
* Events are numbered. A resumed stream may repeat events: those are dropped. If the stream skips
  numbers, events were lost, and with them the connection: it may be resumed before the gap.
* Text and arguments arrive as deltas. Complete texts, items and the complete answer repeat them;
  whatever they contain beyond the deltas is delivered too, because some servers send no deltas.
  Where the complete answer contradicts the deltas, the answer is what it says.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from .._adapter import AnswerReader, Piece
from .._answer import End, EventsLost, FaultReceived, Malformed, ModelAnswer, ProviderFault, Tokens
from .._cost import with_billing
from .._json import codes, count, items, mapping, parse, text
from ._openai import described_error, error_of
from ._responses_items import (
    CALLS,
    EventSequence,
    ItemText,
    Thoughts,
    call_of,
    carried_items,
    citations_of,
    cited,
    image_of,
    item_key,
    message_text,
    reasoning_text,
    texts_of,
    tool_results_of,
)

_TEXT_DELTA = "response.output_text.delta"
_FAILED = frozenset({"failed", "cancelled"})
# Read whatever their number is: gateways that add them do not know the numbers of the provider.
_FINAL = ("response.completed", "response.incomplete", "response.failed", "error")
_DONE = b"[DONE]"
_ID = re.compile(r"[A-Za-z0-9_=-]{1,1000}", re.ASCII)  # it becomes a part of a URL


def end_of(response: Mapping[str, Any]) -> End:
    """Return the reason why a response ended."""
    if response.get("status") != "incomplete":
        return "stop"
    reason = mapping(response.get("incomplete_details")).get("reason")
    return "filtered" if reason == "content_filter" else "length"


def error_in(reply: Any) -> ProviderFault | None:
    """Return the error in a body of any status, or in a response that failed."""
    status = mapping(reply).get("status")
    fault = error_of(reply)
    if fault is None and isinstance(status, str) and status in _FAILED:
        return ProviderFault(f"the answer has the status {status}, without a reason")
    return fault


def tokens_of(response: Mapping[str, Any]) -> Tokens | None:
    """Return the token counts of a response, None if it has none."""
    usage = mapping(response.get("usage"))
    prompt, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if prompt is None and completion is None:
        return None
    asked = mapping(usage.get("input_tokens_details"))
    answered = mapping(usage.get("output_tokens_details"))
    return Tokens(
        prompt=prompt,
        completion=completion,
        cached=count(asked.get("cached_tokens")) or 0,
        cache_write=count(asked.get("cache_write_tokens")) or 0,
        reasoning=count(answered.get("reasoning_tokens")) or 0,
    )


class ResponsesReader(AnswerReader):
    """Reads the events of one stream, which may continue after a lost connection.

    Attributes:
        response_id: the id of the response; None until it is received, or if it is not valid.
    """

    __slots__ = (
        "_arguments",
        "_items",
        "_message",
        "_numbers",
        "_refused",
        "_sequence",
        "_starts",
        "_thoughts",
        "response_id",
    )

    def __init__(self) -> None:
        super().__init__()
        self.response_id: str | None = None
        self._sequence = EventSequence()
        self._message = ItemText()
        self._thoughts = Thoughts()
        self._refused = False
        self._numbers = CallNumbers()
        self._arguments: dict[int, ItemText] = {}  # by call number
        self._items: Sequence[Mapping[str, Any]] = []  # complete
        self._starts: dict[Any, int] = {}  # where the text of a part begins

    @property
    def sequence(self) -> int | None:
        """The number of the last event, None if the events have none."""
        return self._sequence.last

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        try:
            value = from_json(data)
        except ValueError:
            if data.strip() in (b"", _DONE):
                return ()
            value = _parse_lenient(data, event)
        if value.__class__ is not dict:
            raise Malformed("an event must be a JSON object, got another JSON value")
        kind = value.get("type")
        place = self._sequence.place(value.get("sequence_number"))
        if place is not None and kind not in _FINAL:
            if place == "skipping":
                number, last = value["sequence_number"], self._sequence.last
                raise EventsLost(f"events of the stream are missing: {number} came after {last}")
            return ()
        if kind == _TEXT_DELTA:
            return self._text_delta(value)
        if not isinstance(kind, str):
            kind = event.decode(errors="replace")
        handle = _EVENTS.get(kind)
        if handle is not None:
            return handle(self, value)
        fault = _event_fault(value, kind, event)
        if fault is not None:
            raise FaultReceived(fault)
        return ()

    def answer(self) -> ModelAnswer:
        """Return the answer received so far, with the items that must be sent back."""
        answer = super().answer()
        answer.items = carried_items(self._items)
        answer.citations = citations_of(self._items) or answer.citations
        answer.tool_results = tool_results_of(self._items)
        return answer

    # Text and reasoning.

    def _text_delta(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        piece = value.get("delta")
        if not piece or piece.__class__ is not str:
            return ()
        self._message.add(piece)
        return (self.add_text(piece),)

    def _refusal(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        self._refused = True
        return self._text_delta(value)

    def _text_done(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        whole = text(value.get("text")) or text(value.get("refusal"))
        self._refused = self._refused or "refusal" in value
        rest = self._message.missing(item_key(value), whole)
        return (self.add_text(rest),) if rest else ()

    def _annotation(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        """Read an annotation, or the beginning of the part that annotations count from."""
        key = item_key(value), count(value.get("content_index"))
        if "annotation" not in value:
            self._starts[key] = sum(map(len, self._text))
            return ()
        return self.add_citations([cited(value["annotation"], self._starts.get(key, 0))])

    def _reasoning_delta(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        piece = text(value.get("delta"))
        return (self.add_reasoning(self._thoughts.add(value, piece)),) if piece else ()

    # Items.

    def _item_added(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        item = mapping(value.get("item"))
        kind = item.get("type")
        if kind == "message":
            self._message.begin()
        if kind == "reasoning":
            self._thoughts.begin()
        if text(kind) not in CALLS:
            return ()
        # Its arguments are not used: they are empty, or the deltas repeat them.
        call = call_of(item)
        number = self._numbers.of_item(item, count(value.get("output_index")))
        return self._add_call(number, call.id, call.name, "", custom=call.custom)

    def _item_done(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        item, index = mapping(value.get("item")), count(value.get("output_index"))
        self._items = [*self._items, item]
        kind = item.get("type")
        if kind == "message":
            whole, refused = message_text(item)
            self._refused = self._refused or refused
            rest = self._message.missing(item_key({**item, "output_index": index}), whole)
            return (self.add_text(rest),) if rest else ()
        if kind == "reasoning":
            rest = self._thoughts.missing(item_key({**item, "output_index": index}), item)
            return (self.add_reasoning(rest),) if rest else ()
        if text(kind) in CALLS:
            return self._call_done(self._numbers.of_item(item, index), item)
        self.media += [image for image in image_of(item) if image not in self.media]
        return ()

    # Tool calls.

    def _arguments_delta(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        piece = text(value.get("delta"))
        number = self._numbers.of_event(value)
        self._arguments.setdefault(number, ItemText()).add(piece)
        return self._add_call(number, None, None, piece)

    def _arguments_done(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        return self._call_done(self._numbers.of_event(value), {**value, "id": None})

    def _call_done(self, number: int, item: Mapping[str, Any]) -> Sequence[Piece]:
        call = call_of(item)
        received = self._arguments.setdefault(number, ItemText())
        rest = received.missing(None, _given(item))
        self._numbers.close(number)
        return self._add_call(number, call.id, call.name, rest, custom=call.custom)

    def _add_call(
        self,
        number: int,
        id_: str | None,
        name: str | None,
        arguments: str,
        *,
        custom: bool = False,
    ) -> Sequence[Piece]:
        known = self._calls.get(number)
        if known is None:
            return self.add_tool_call(
                number, id=id_, name=name or None, arguments=arguments, custom=custom
            )
        if arguments or (id_ and known.generated_id):
            new_id = id_ if known.generated_id else None
            return self.add_tool_call(number, id=new_id, arguments=arguments)
        return ()

    # The response.

    def _response(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        response = mapping(value.get("response"))
        id_ = text(response.get("id"))
        if self.response_id is None and _ID.fullmatch(id_):
            self.response_id = id_
        tokens = with_billing(tokens_of(response), response)
        if tokens is not None:
            self.tokens = tokens
        return ()

    def _failed(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        response = mapping(value.get("response"))
        self._response(value)
        raise FaultReceived(error_in({"status": "failed", **response}) or _NO_REASON)

    def _incomplete(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        response = {"status": "incomplete", **mapping(value.get("response"))}
        return self._completed({**value, "response": response})

    def _completed(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        response = mapping(value.get("response"))
        self._response(value)
        fault = error_in(response)
        if fault is not None:
            raise FaultReceived(fault)
        pieces = self._missing([mapping(item) for item in items(response.get("output"))])
        pieces += self.add_citations(citations_of(self._items))
        self.end = "filtered" if self._refused else end_of(response)
        self.done = True
        return pieces

    def _missing(self, output: Sequence[Mapping[str, Any]]) -> list[Piece]:
        """Return what the complete output has beyond what was received before."""
        if not output:
            return []
        self._items = output
        pieces: list[Piece] = []
        thoughts = [reasoning_text(item) for item in output if item.get("type") == "reasoning"]
        if rest := _rest_of("\n\n".join(filter(None, thoughts)), self._reasoning):
            pieces.append(self.add_reasoning(rest))
        whole, refused = texts_of(output)
        self._refused = self._refused or refused
        if rest := _rest_of(whole, self._text):
            pieces.append(self.add_text(rest))
        calls = [item for item in output if text(item.get("type")) in CALLS]
        for position, item in enumerate(calls):
            number = self._numbers.of_final(item, position)
            pieces += self._call_done(number, item)
            if (call := self._calls.get(number)) and (arguments := _given(item)):
                call.arguments = [arguments]
        for item in output:
            self.media += [image for image in image_of(item) if image not in self.media]
        return pieces


def _given(item: Mapping[str, Any]) -> str:
    """Return the arguments of a call as text, or the text that is the input of a custom tool."""
    return text(item.get("input")) or text(call_of(item).arguments)


def _rest_of(whole: str, received: list[str]) -> str:
    """Return what a complete text has beyond the received pieces; replace those if they differ."""
    known = "".join(received)
    if whole.startswith(known):
        return whole[len(known) :]
    if whole:
        received[:] = [whole]
    return ""


_NO_REASON = ProviderFault("the provider failed, without a reason")

_EVENTS: Mapping[str, Callable[[ResponsesReader, Mapping[str, Any]], Sequence[Piece]]] = {
    "response.created": ResponsesReader._response,
    "response.queued": ResponsesReader._response,
    "response.in_progress": ResponsesReader._response,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    _TEXT_DELTA: ResponsesReader._text_delta,
    "response.output_text.done": ResponsesReader._text_done,
    "response.refusal.delta": ResponsesReader._refusal,
    "response.refusal.done": ResponsesReader._text_done,
    "response.reasoning.delta": ResponsesReader._reasoning_delta,
    "response.reasoning_text.delta": ResponsesReader._reasoning_delta,
    "response.reasoning_summary_text.delta": ResponsesReader._reasoning_delta,
    "response.function_call_arguments.delta": ResponsesReader._arguments_delta,
    "response.function_call_arguments.done": ResponsesReader._arguments_done,
    "response.custom_tool_call_input.delta": ResponsesReader._arguments_delta,
    "response.custom_tool_call_input.done": ResponsesReader._arguments_done,
    "response.content_part.added": ResponsesReader._annotation,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.completed": ResponsesReader._completed,
    "response.incomplete": ResponsesReader._incomplete,
    "response.failed": ResponsesReader._failed,
    "response.cancelled": ResponsesReader._failed,
}


def _event_fault(value: Mapping[str, Any], kind: str, event: bytes) -> ProviderFault | None:
    """Return the error in an event that is not part of an answer, None if it is none."""
    if kind != "error" and event != b"error" and not value.get("error"):
        return None if kind else error_of(value)
    error = value.get("error")
    if isinstance(error, str) and error:
        return ProviderFault(error, codes(value.get("code")))
    own_kind = None if kind == "error" else kind  # "error" is the type of the event
    return described_error(mapping(error) or {**value, "type": own_kind})


def _parse_lenient(data: bytes, event: bytes) -> Any:
    """Parse JSON that a strict parser rejects.

    Raises:
        FaultReceived: it is an error, not as JSON.
        Malformed: it is not JSON.
    """
    try:
        value = parse(data, keep_edge_surrogates=True)
        # Only in deltas, half of a surrogate pair may belong to the next one.
        is_delta = text(mapping(value).get("type")).endswith(".delta")
        return value if is_delta else parse(data)
    except ValueError:
        pass
    if event == b"error":
        raise FaultReceived(ProviderFault(data.decode(errors="replace")))
    raise Malformed("an event of the stream is not JSON")


# The calls that pieces of tool calls belong to.
#
# Servers differ in how they identify a call: OpenAI by `output_index` and the id of the item, both
# in every event; llama.cpp has no index and no id of the item, but its `call_id`; some gateways
# give every call the index 0, and others change the id of the item from event to event. The
# `call_id` is reliable, but only items have it.


class CallNumbers:
    """The numbers of the calls of one stream, in the order in which they began."""

    __slots__ = ("_by_call_id", "_by_index", "_by_item_id", "_count", "_open")

    def __init__(self) -> None:
        self._by_call_id: dict[str, int] = {}
        self._by_item_id: dict[str, int] = {}
        self._by_index: dict[int, int] = {}
        self._count = 0
        self._open: int | None = None  # the latest call, if it is not complete

    def of_item(self, item: Mapping[str, Any], index: int | None) -> int:
        """Return the number of the call in an item, which may be a new one."""
        call_id, item_id = text(item.get("call_id")), text(item.get("id"))
        number = self._by_call_id.get(call_id)
        if number is None:
            number = self._known(item_id, index)
            if call_id and number in self._by_call_id.values():
                number = None  # another call at the same index
        if number is None and not call_id and not item_id and index is None:
            number = self._open
        return self._recorded(number, call_id, item_id, index)

    def of_event(self, event: Mapping[str, Any]) -> int:
        """Return the number of the call that an event with arguments belongs to."""
        item_id, index = text(event.get("item_id")), count(event.get("output_index"))
        number = self._known(item_id, index)
        return self._recorded(self._open if number is None else number, "", item_id, index)

    def of_final(self, item: Mapping[str, Any], position: int) -> int:
        """Return the number of the call at a position among the calls of the complete answer."""
        call_id, item_id = text(item.get("call_id")), text(item.get("id"))
        number = self._by_call_id.get(call_id)
        if number is None:
            number = self._by_item_id.get(item_id)
        if number is None and position < self._count:
            number = position
        if call_id and call_id not in self._by_call_id and number in self._by_call_id.values():
            number = None  # that is another call
        return self._recorded(number, call_id, item_id, None)

    def close(self, number: int) -> None:
        """Record that a call is complete."""
        if self._open == number:
            self._open = None

    def _known(self, item_id: str, index: int | None) -> int | None:
        number = self._by_item_id.get(item_id)
        return self._by_index.get(-1 if index is None else index) if number is None else number

    def _recorded(self, number: int | None, call_id: str, item_id: str, index: int | None) -> int:
        if number is None:
            number = self._open = self._count
            self._count += 1
        if call_id:
            self._by_call_id.setdefault(call_id, number)
            self._by_item_id.setdefault(call_id, number)  # llama.cpp has only this id
        if item_id:
            self._by_item_id.setdefault(item_id, number)
        if index is not None:
            self._by_index[index] = number
        return number
