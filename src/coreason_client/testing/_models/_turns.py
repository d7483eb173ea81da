"""The turns of a fake model: what it answers, in terms that belong to no provider."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from ...errors import ArgumentError
from ...llm.types import Citation
from .._secret_names import HiddenHeaders

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "filtered"]
Break: TypeAlias = int | Literal["content"]

_USAGE: Mapping[str, int] = MappingProxyType({"prompt_tokens": 10, "completion_tokens": 5})
_COUNTS = (
    *("prompt_tokens", "completion_tokens", "cached_tokens"),
    *("cache_write_tokens", "reasoning_tokens"),
)
_WORDS = re.compile(r"\S+\s*|\s+")
_PIECE = 8  # characters of arguments that are not given in pieces


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A call of a tool in a turn.

    Attributes:
        name: the name of the tool.
        arguments: an object, its JSON text, or pieces of that text, which are streamed as given.
            Text that is not JSON is sent as it is, for a test of that error.
        id: the id of the call; by default the calls of a fake model are numbered.

    Raises:
        ArgumentError: a value cannot be sent.
    """

    name: str
    arguments: Mapping[str, Any] | str | Sequence[str] = field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name:
            raise ArgumentError("name", "must be the name of a tool", self.name)
        _ = self.pieces

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return "".join(self.pieces)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces of that text in a stream."""
        given = self.arguments
        if isinstance(given, Mapping):
            try:
                given = json.dumps(dict(given), ensure_ascii=False)
            except (TypeError, ValueError) as error:
                raise ArgumentError("arguments", f"must be JSON: {error}") from None
        if isinstance(given, str):
            return tuple(given[at : at + _PIECE] for at in range(0, len(given), _PIECE)) or ("",)
        return _texts("arguments", given) or ("",)

    @property
    def value(self) -> Any:
        """The arguments as an object; as text if they are not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """An error of the provider: a whole turn, or the end of a turn that has begun.

    Attributes:
        status: the HTTP status, from 400 to 599.
        message: the provider's explanation.
        code: the provider's code; by default the usual one of the wire for this status.
        retry_after: seconds for the header `Retry-After`.
        headers: further headers of the response.

    Raises:
        ArgumentError: a value cannot be sent.
    """

    status: int = 500
    message: str = "the fake model fails here"
    code: str | None = None
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        status: Any = self.status
        if not isinstance(status, int) or not 400 <= status <= 599:
            raise ArgumentError("status", "must be from 400 to 599", self.status)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One answer of a fake model.

    A piece is a piece of text, of reasoning, or of the arguments of a call. Providers that send a
    call as a whole send it with the last of its pieces. Reasoning comes first, calls come last.

    Attributes:
        text: the text, which is streamed word by word, or its pieces.
        tool_calls: the calls of tools.
        reasoning: the reasoning, or its pieces.
        citations: the sources that the answer cites: `url` or `source_id`, `title`, `cited_text`,
            and `start` and `end` in the text, by default the whole text. Ollama has no citations.
        usage: `prompt_tokens`, `completion_tokens`, `cached_tokens`, `cache_write_tokens` and
            `reasoning_tokens` as in our responses; None to send no usage.
        finish: why the answer ends; by default "tool_calls" if there are any, otherwise "stop".
        failure: an error instead of the end, after the content. A request without streaming gets
            only the error.
        disconnect_after: the connection breaks after that many pieces, or after the whole
            "content": before the reason of the end and the end marker.
        end_after: the same, but the response ends as if it were complete.
        stall_after: the same, but the connection stays open and nothing more is sent.

    Raises:
        ArgumentError: a value cannot be sent.
    """

    text: str | Sequence[str] = ""
    tool_calls: ModelToolCall | Sequence[ModelToolCall] = ()
    reasoning: str | Sequence[str] = ""
    citations: Sequence[Citation] = field(default=(), kw_only=True)
    usage: Mapping[str, int] | None = field(default_factory=lambda: _USAGE, kw_only=True)
    finish: FinishReason | None = field(default=None, kw_only=True)
    failure: ModelFailure | None = field(default=None, kw_only=True)
    disconnect_after: Break | None = field(default=None, kw_only=True)
    end_after: Break | None = field(default=None, kw_only=True)
    stall_after: Break | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_usage(self.usage)
        if self.finish is not None and self.finish not in get_args(FinishReason):
            rule = f"must be None or one of {', '.join(get_args(FinishReason))}"
            raise ArgumentError("finish", rule, self.finish)
        for call in self.calls:
            if not isinstance(call, ModelToolCall):
                raise ArgumentError("tool_calls", "must have a ModelToolCall for each call", call)
        pieces = self.pieces  # also checks them
        _check_citations(self.citations, len("".join(self.text_pieces)))
        breaks = {name: getattr(self, name) for name in _BREAKS}
        given = [name for name, after in breaks.items() if after is not None]
        if len(given) + (self.failure is not None) > 1:
            names = " and ".join([*given, *(["failure"] if self.failure else [])])
            raise ArgumentError(names, "must not be combined: an answer breaks off once")
        for name in given:
            _check_break(name, breaks[name], pieces)

    @property
    def calls(self) -> tuple[ModelToolCall, ...]:
        """The calls, always as a sequence."""
        given = self.tool_calls
        return (given,) if isinstance(given, ModelToolCall) else tuple(given)

    @property
    def text_pieces(self) -> tuple[str, ...]:
        """The pieces of the text."""
        return _pieces("text", self.text)

    @property
    def reasoning_pieces(self) -> tuple[str, ...]:
        """The pieces of the reasoning."""
        return _pieces("reasoning", self.reasoning)

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        arguments = sum(len(call.pieces) for call in self.calls)
        return len(self.text_pieces) + len(self.reasoning_pieces) + arguments

    @property
    def finish_reason(self) -> FinishReason:
        """The reason of the end."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def break_after(self) -> Break | None:
        """The point at which the answer breaks off, in whatever way; None if it does not."""
        return next(filter(lambda at: at is not None, (getattr(self, n) for n in _BREAKS)), None)


_BREAKS = ("disconnect_after", "end_after", "stall_after")

ModelTurnLike: TypeAlias = (
    "str | ModelTurn | ModelFailure | Callable[[ModelRequest], str | ModelTurn | ModelFailure]"
)
"""A turn: text, a `ModelTurn`, a `ModelFailure`, or a function of the request that returns one."""


def turn_of(given: Any, argument: str) -> ModelTurn | ModelFailure:
    """Return a turn for text or a turn.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(given, str):
        return ModelTurn(given)
    if isinstance(given, ModelTurn | ModelFailure):
        return given
    raise ArgumentError(argument, "must be text, a ModelTurn or a ModelFailure", given)


def _pieces(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(_WORDS.findall(given)) if isinstance(given, str) else _texts(argument, given)


def _texts(argument: str, given: Any) -> tuple[str, ...]:
    found = tuple(given) if isinstance(given, Sequence) else ()
    if not isinstance(given, Sequence) or not all(isinstance(piece, str) for piece in found):
        raise ArgumentError(argument, "must be text or a sequence of texts", given)
    return tuple(filter(None, found))


def _check_citations(citations: Sequence[Any], length: int) -> None:
    for index, one in enumerate(citations):
        if not isinstance(one, Mapping) or not {"url", "source_id"} & one.keys():
            raise ArgumentError(f"citations[{index}]", "must have a url or a source_id", one)
        if not 0 <= one.get("start", 0) <= one.get("end", length) <= length:
            rule = f"must have start and end from 0 to {length}, the length of the text"
            raise ArgumentError(f"citations[{index}]", rule, one)


def _check_usage(usage: Mapping[str, Any] | None) -> None:
    for name, count in (usage or {}).items():
        if name not in _COUNTS:
            raise ArgumentError("usage", f"must have only the keys {', '.join(_COUNTS)}", name)
        if not isinstance(count, int) or count < 0:
            raise ArgumentError(f"usage[{name!r}]", "must be 0 or a greater whole number", count)


def _check_break(name: str, after: Any, pieces: int) -> None:
    if after == "content":
        return
    if not isinstance(after, int) or not 0 <= after <= pieces:
        rule = f'must be "content" or from 0 to {pieces}, the number of pieces of this turn'
        raise ArgumentError(name, rule, after)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for an answer, as the fake model has read it.

    Attributes:
        wire: "chat", "responses", "anthropic", "gemini", "ollama" or "bedrock".
        model: the name of the model.
        stream: True if the answer is to be streamed.
        messages: the conversation, on every wire in the form of chat completions: `role` and
            `content`, `tool_calls` of the assistant, `tool_call_id` of a result. The content is
            text; if it has other parts, it is the list that was sent.
        tools: `name`, `description` and `parameters` of each tool.
        path: the path of the request.
        headers: the headers by name in lower case; the representation has no credentials.
        json: the body that was sent.
    """

    wire: str
    model: str
    stream: bool
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    path: str
    headers: HiddenHeaders
    json: dict[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the last user message, empty if there is none."""
        for message in reversed(self.messages):
            if message["role"] == "user":
                return _text(message["content"])
        return ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
