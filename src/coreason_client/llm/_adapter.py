"""The interfaces of an adapter, which translates one wire format, and of its readers. No I/O.

An adapter turns a `ModelCall` into a request body, and a response, complete or streamed, into an
`ModelAnswer`. It only reports what it reads: retries, prices and errors are decided elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ._answer import End, ModelAnswer, ProviderFault, RawToolCall, Tokens, new_call_id
from ._call import ModelCall
from ._frames import Framing
from ._json import parse_or_none, without_lone_surrogates
from ._profile import ProviderProfile
from .types import Citation, CitationDelta, Media, ReasoningDelta, TextDelta, ToolCallDelta

Piece: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | CitationDelta
"""A delta before the end of a stream."""

Fields: TypeAlias = dict[str, Any]
"""Fields of a request."""

Rule: TypeAlias = str | Callable[[ModelCall, Any, ProviderProfile], Fields | None]
"""The path of the field for an argument, or a function that returns the fields for its value, None
if the call cannot have the argument."""


@dataclass(slots=True)
class _OpenCall:
    """A tool call that is not complete yet."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    signature: str | None = None
    custom: bool = False
    generated_id: bool = False

    def received(self) -> RawToolCall:
        """Return the call as far as it was received."""
        given = "".join(self.arguments)
        arguments = {"input": given} if self.custom else given
        return RawToolCall(self.id, self.name, arguments, self.signature, self.custom)


class AnswerReader(ABC):
    """Reads the events of one stream; each wire format implements `read`.

    Attributes:
        end: the reason why the answer ended, None until it is received.
        done: True once the stream has announced its end.
        begun: True once an event without a delta was received, such as the role of the answer.
        started: True once a delta was returned.
        tokens: the token counts so far.
        media: the images and audio received so far.
        citations: the sources received so far.
    """

    __slots__ = (
        "_calls",
        "_high_surrogate",
        "_reasoning",
        "_text",
        "_unnamed",
        "begun",
        "citations",
        "done",
        "end",
        "media",
        "started",
        "tokens",
    )

    def __init__(self) -> None:
        self.end: End | None = None
        self.done = False
        self.begun = False
        self.started = False  # stored, because it is read after every chunk
        self.tokens: Tokens | None = None
        self.media: list[Media] = []
        self.citations: list[Citation] = []
        self._text: list[str] = []
        self._high_surrogate = ""  # first half of a pair; the second half was not received yet
        self._reasoning: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self._unnamed: dict[int, _OpenCall] = {}  # ignored unless a name is received

    @abstractmethod
    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Read the data and the name of one event, or one line of NDJSON with an empty name.

        Raises:
            FaultReceived: the event is an error.
            Malformed: the event does not follow the wire format.
            EventsLost: events before it are missing.
        """

    @property
    def response_id(self) -> str | None:
        """The provider's id of the response, if a lost stream can be resumed by it."""
        return None

    @property
    def sequence(self) -> int | None:
        """The number of the last event, after which a lost stream can be resumed."""
        return None

    @property
    def billed(self) -> bool:
        """True if the provider is sure to have read the prompt: it has begun to answer."""
        return self.begun or self.started or self.tokens is not None

    @property
    def has_answer(self) -> bool:
        """True if a part of an answer was received, or the reason why it ended."""
        return self.started or bool(self.media) or self.end is not None

    def answer(self) -> ModelAnswer:
        """Return the answer received so far."""
        return ModelAnswer(
            content="".join(self._text) if self._text else None,
            calls=[call.received() for _, call in sorted(self._calls.items())],
            end=self.end or "stop",
            reasoning="".join(self._reasoning),
            tokens=self.tokens,
            media=list(self.media),
            citations=list(self.citations),
        )

    # Methods that `read` calls for each part of an event.

    def add_text(self, text: str) -> TextDelta:
        """Add text; half of a surrogate pair at its end is held back for the other half."""
        # Not in a separate function: this runs for every piece that is not ASCII.
        if self._high_surrogate or (
            not text.isascii() and ("\ud7ff" < text[0] < "\ue000" or "\ud7ff" < text[-1] < "\ue000")
        ):
            text = self._with_joined_pairs(text)
        self.started = True
        self._text.append(text)
        return TextDelta(text)

    def flush(self) -> Sequence[Piece]:
        """Return the text that was held back, at the end of the answer."""
        if not self._high_surrogate:
            return ()
        self._high_surrogate = ""
        return (self.add_text("\ufffd"),)

    def _with_joined_pairs(self, text: str) -> str:
        joined, self._high_surrogate = self._high_surrogate + text, ""
        if "\ud800" <= joined[-1:] <= "\udbff":
            joined, self._high_surrogate = joined[:-1], joined[-1]
        return without_lone_surrogates(joined)

    def add_reasoning(self, text: str) -> ReasoningDelta:
        """Add a piece of reasoning."""
        text = without_lone_surrogates(text)
        self.started = True
        self._reasoning.append(text)
        return ReasoningDelta(text)

    def add_citations(self, found: Iterable[Citation]) -> list[Piece]:
        """Add citations; those that were received before are left out."""
        new = [citation for citation in found if citation and citation not in self.citations]
        self.citations += new
        self.started = self.started or bool(new)
        return [CitationDelta(citation) for citation in new]

    def add_tool_call(
        self,
        index: int,
        *,
        id: str | None = None,  # noqa: A002 - its name in every wire format
        name: str | None = None,
        arguments: str = "",
        signature: str | None = None,
        custom: bool = False,
    ) -> Sequence[ToolCallDelta]:
        """Add a piece of the tool call with an index; the first id and name are used.

        The pieces of a call are held back until its name is received.
        """
        call = self._calls.get(index) or self._unnamed.setdefault(index, _OpenCall())
        call.signature = call.signature or signature
        call.custom = call.custom or custom
        call.arguments.append(arguments)
        if call.name:
            if id and call.generated_id:  # the real id was received late
                call.id, call.generated_id = id, False
            return (ToolCallDelta(index, id, name, arguments),)
        call.id = call.id or id or ""
        if not name:
            return ()
        call.generated_id = not call.id
        call.id, call.name = call.id or new_call_id(), name
        self._calls[index] = self._unnamed.pop(index)
        self.started = True
        return (ToolCallDelta(index, call.id, name, "".join(call.arguments)),)


class Adapter(ABC):
    """One wire format. Instances have no state; one serves all calls."""

    framing: ClassVar[Framing] = "sse"
    arguments: ClassVar[Mapping[str, Rule]] = {}
    """The rules for arguments by name."""
    has_betas: ClassVar[bool] = False
    """True if headers depend on the body: `request_headers`."""

    @abstractmethod
    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL for a call; `base` does not end with a slash."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the format, besides the key and the content type."""
        return {}

    def request_headers(self, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:
        """Return the headers of a request with this body, given those of all requests."""
        return headers

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part of a message cannot be sent and what to do instead, None if it can.

        The text continues a sentence such as "messages[0].content[1] has the type 'file', …".
        Called before `body`, for every part that is not text.
        """
        return None

    @abstractmethod
    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call; `call.extra` is merged into it later."""

    @abstractmethod
    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: the reply does not follow the format.
        """

    @abstractmethod
    def reader(self) -> AnswerReader:
        """Return a new reader for one stream."""

    @abstractmethod
    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body of any status, None if there is none."""


def own_items(
    message: Mapping[str, Any],
    provider: str,
    read: Callable[[Sequence[dict[str, Any]]], tuple[str, Sequence[RawToolCall]]],
) -> Sequence[dict[str, Any]]:
    """Return the items of an answer that a message carries for its provider.

    Empty if there are none, or if the text or the calls of the message were changed since. `read`
    returns the text and the calls in items.
    """
    items: Sequence[dict[str, Any]] = message.get("provider_items", {}).get(provider, ())
    if not items:
        return ()
    (content, calls), known = read(items), message.get("tool_calls", ())
    same = (content or "") == (message.get("content") or "") and len(calls) == len(known)
    return items if same and all(map(_is_same_call, calls, known)) else ()


def _is_same_call(call: RawToolCall, known: Mapping[str, Any]) -> bool:
    function, given = known["function"], call.arguments
    if (call.id, call.name) != (known["id"], function["name"]):
        return False
    if not isinstance(given, dict):
        given = parse_or_none((given or "{}").encode("utf-8", "replace"))
    return bool(given == parse_or_none(function["arguments"].encode()))
