"""Output items of the Responses API, and the state of a stream apart from its tool calls. Pure.

An answer is a list of items: messages, reasoning, function calls, and calls of tools that the
provider runs itself. A model that reasons continues its own reasoning only if the next request
contains the items of the earlier turns, unchanged and in order. So an assistant message carries
them in `provider_items`, by the name of the provider: other providers cannot read them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic_core import to_json

from .._answer import RawToolCall, media_of, says_the_same
from .._citations import Kind, citation, tool_result
from .._json import count, items, mapping, text
from ..types import Citation, Media, ProviderToolResult
from ._openai import url_citation

CALLS = frozenset({"function_call", "custom_tool_call"})
"""Types of items that request a call."""

# Items whose whole content is in `content` and `tool_calls` of a message.
_PLAIN = CALLS | {"message"}
# Annotations that cite; others are paths of files that the model has created.
_CITES = frozenset({"url_citation", "file_citation", "container_file_citation"})


def message_text(item: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text of a message, and True if a part of it is a refusal."""
    content = item.get("content")
    if isinstance(content, str):
        return content, False
    parts = [mapping(part) for part in items(content)]
    texts = [text(part.get("text")) or text(part.get("refusal")) for part in parts]
    return "".join(texts), any(part.get("type") == "refusal" for part in parts)


def texts_of(output: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return the text of all messages, and True if a part of it is a refusal."""
    read = [message_text(item) for item in output if item.get("type") == "message"]
    return "".join(content for content, _ in read), any(refused for _, refused in read)


def reasoning_text(item: Mapping[str, Any]) -> str:
    """Return the reasoning in an item: its text, or the summary of it, as paragraphs."""
    parts = [*items(item.get("content")), *items(item.get("summary"))]
    return "\n\n".join(filter(None, (text(mapping(part).get("text")) for part in parts)))


def call_of(item: Mapping[str, Any]) -> RawToolCall:
    """Return the tool call in an item of a type of `CALLS`, or in the event for its end."""
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        arguments = to_json(arguments).decode()
    id_ = text(item.get("call_id")) or text(item.get("id"))
    custom = item.get("type") == "custom_tool_call"
    given = {"input": text(item.get("input"))} if custom else text(arguments)
    return RawToolCall(id_ or None, text(item.get("name")), given, custom=custom)


def image_of(item: Mapping[str, Any]) -> list[Media]:
    """Return the image in an item, empty if it has none."""
    data = text(item.get("result"))
    if item.get("type") != "image_generation_call" or not data:
        return []
    return [media_of(f"image/{text(item.get('output_format')) or 'png'}", data=data)]


def citations_of(output: Iterable[Mapping[str, Any]]) -> list[Citation]:
    """Return the citations of all messages, with ranges in the text of all messages."""
    found: list[Citation] = []
    offset = 0
    for item in output:
        for part in map(
            mapping, items(item.get("content")) if item.get("type") == "message" else ()
        ):
            annotations = items(part.get("annotations"))
            found += [one for one in (cited(note, offset) for note in annotations) if one]
            offset += len(text(part.get("text")) or text(part.get("refusal")))
    return found


def cited(annotation: Any, offset: int) -> Citation:
    """Return the citation in an annotation, empty if it cites nothing."""
    known = mapping(annotation)
    return url_citation(known, offset) if text(known.get("type")) in _CITES else {}


def tool_results_of(output: Iterable[Mapping[str, Any]]) -> list[ProviderToolResult]:
    """Return the uses of the provider's own tools."""
    return [_TOOLS[kind](item) for item in output if (kind := text(item.get("type"))) in _TOOLS]


def _web_search(item: Mapping[str, Any]) -> ProviderToolResult:
    action = mapping(item.get("action"))
    asked = [text(one) for one in items(action.get("queries")) or [action.get("query")]]
    asked += [text(action.get("url")), text(action.get("pattern"))]
    sources = [citation(url=mapping(one).get("url")) for one in items(action.get("sources"))]
    kind: Kind = "web_search" if action.get("type", "search") == "search" else "web_fetch"
    failed = "failed" if item.get("status") == "failed" else None
    return tool_result(kind, "web_search", asked, id=item.get("id"), sources=sources, error=failed)


def _file_search(item: Mapping[str, Any]) -> ProviderToolResult:
    sources = [
        citation(
            title=one.get("filename"), source_id=one.get("file_id"), cited_text=one.get("text")
        )
        for one in map(mapping, items(item.get("results")))
    ]
    asked = map(text, items(item.get("queries")))
    return tool_result("file_search", "file_search", asked, id=item.get("id"), sources=sources)


def _code(item: Mapping[str, Any]) -> ProviderToolResult:
    outputs = [mapping(one) for one in items(item.get("outputs"))]
    output = [text(one.get("logs")) or text(one.get("url")) for one in outputs]
    given = [text(item.get("code"))]
    return tool_result(
        "code_execution", "code_interpreter", given, id=item.get("id"), output=output
    )


def _mcp(item: Mapping[str, Any]) -> ProviderToolResult:
    output, error = item.get("output"), item.get("error")
    name, given = text(item.get("name")), [text(item.get("arguments"))]
    return tool_result("mcp", name, given, id=item.get("id"), output=output, error=error)


_TOOLS: Mapping[str, Callable[[Mapping[str, Any]], ProviderToolResult]] = {
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code,
    "mcp_call": _mcp,
}


def carried_items(output: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the items that the next request must contain.

    Empty if `content` and `tool_calls` say the same. Reasoning that is only stored by the provider
    is left out, because our requests do not store anything.
    """
    carried = [
        _input_item(item)
        for item in output
        if isinstance(item, dict) and text(item.get("type")) and _is_complete(item)
    ]
    needed = any(item.get("type") not in _PLAIN or "phase" in item for item in carried)
    return carried if needed else []


def items_of_message(message: Mapping[str, Any], provider: str) -> Sequence[dict[str, Any]]:
    """Return the items that an assistant message carries for a provider.

    Empty if there are none, or if the text or the calls of the message were changed since.
    """
    carried: Sequence[dict[str, Any]] = message.get("provider_items", {}).get(provider, ())
    content, _ = texts_of(carried)
    calls = [call_of(item) for item in carried if text(item.get("type")) in CALLS]
    return carried if says_the_same(message, content, calls) else ()


def _input_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in the form of requests, which reject nulls and require a summary."""
    sent = {key: value for key, value in item.items() if value is not None}
    return {**sent, "summary": sent.get("summary", [])} if item["type"] == "reasoning" else sent


def _is_complete(item: Mapping[str, Any]) -> bool:
    """Return True if the item contains what it stands for, and not only its id."""
    if item.get("type") != "reasoning":
        return True
    return bool(item.get("encrypted_content") or item.get("content"))


_PARAGRAPH = "\n\n"


def item_key(value: Mapping[str, Any]) -> Any:
    """Return the identity of the item of an event: its index, which never changes, or its id."""
    index = count(value.get("output_index"))
    return index if index is not None else text(value.get("item_id") or value.get("id"))


class ItemText:
    """The text of the current item, which finds out what a complete item adds to its deltas."""

    __slots__ = ("_complete", "_key", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._key: Any = None
        self._complete = False

    def begin(self) -> None:
        """Begin another item."""
        self._pieces = []
        self._complete = False

    def add(self, piece: str) -> None:
        """Add a delta."""
        if self._complete:
            self.begin()
        self._pieces.append(piece)

    def missing(self, key: Any, whole: str) -> str:
        """Return what the whole text of the item `key` has beyond the deltas.

        Empty if the deltas are not the beginning of it: what was delivered stays.
        """
        if self._complete and key != self._key:
            self.begin()
        received = "".join(self._pieces)
        self._complete, self._key = True, key
        rest = whole[len(received) :] if whole.startswith(received) else ""
        self._pieces.append(rest)
        return rest


class Thoughts:
    """The reasoning of a stream: its parts are separated as paragraphs."""

    __slots__ = ("_is_new", "_part", "_started", "_text")

    def __init__(self) -> None:
        self._text = ItemText()
        self._part: tuple[Any, ...] | None = None  # the item and the index of the latest part
        self._is_new = False
        self._started = False  # some reasoning was delivered

    def begin(self) -> None:
        """Begin another item."""
        self._is_new = True

    def add(self, event: Mapping[str, Any], piece: str) -> str:
        """Add a delta, and return it with the separator before it."""
        part = (item_key(event), event.get("summary_index"), event.get("content_index"))
        separator = self._separator(part)
        self._text.add(piece if self._enter(part) else separator + piece)
        self._started = True
        return separator + piece

    def missing(self, key: Any, item: Mapping[str, Any]) -> str:
        """Return what a complete item has beyond the deltas, with the separator before it."""
        part = self._part if self._part and self._part[0] == key else (key,)
        separator = self._separator(part)
        is_new = self._enter(part)
        rest = self._text.missing(key, reasoning_text(item))
        if not rest:
            return ""
        self._started = True
        return separator + rest if is_new else rest

    def _separator(self, part: tuple[Any, ...]) -> str:
        """Return the separator between the latest part and this one."""
        same = part == self._part and not self._is_new
        return _PARAGRAPH if self._started and not same else ""

    def _enter(self, part: tuple[Any, ...]) -> bool:
        """Make this part the latest one, and return True if its item is new."""
        is_new = self._is_new or self._part is None or self._part[0] != part[0]
        if is_new:
            self._text.begin()
        self._part, self._is_new = part, False
        return is_new


class EventSequence:
    """Recognises by their numbers events that are repeated, and events that are missing."""

    __slots__ = ("_increasing", "_unusable", "last")

    def __init__(self) -> None:
        self.last: int | None = None
        self._increasing = False
        self._unusable = False

    def place(self, number: Any) -> Literal["repeated", "skipping"] | None:
        """Record the number of an event; return None if it is the next one, or has no number.

        "repeated": the event was read before. "skipping": events before it are missing, and the
        number is not recorded.
        """
        number = count(number)
        if number is None or self._unusable:
            return None
        if self.last is None or number == self.last + 1:
            self._increasing = self.last is not None
            self.last = number
            return None
        if number > self.last:
            return "skipping"
        if not self._increasing:  # a server that gives all events the same number
            self._unusable, self.last = True, None
        return "repeated" if self._increasing else None
