"""Citations, and results of the provider's own tools, as adapters build them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from pydantic_core import to_json

from ._json import count, text
from .types import Citation, ProviderToolResult

Kind: TypeAlias = Literal[
    "web_search", "web_fetch", "file_search", "code_execution", "mcp", "other"
]

_NUMBERS = frozenset({"start", "end", "document", "source_start", "source_end"})
_SOURCE = frozenset({"title", "url", "source_id", "cited_text", "document"})
_RANGES = (("start", "end"), ("source_start", "source_end"))


def citation(**fields: Any) -> Citation:
    """Return the citation with these fields; those that are missing or wrong are left out.

    Empty if they do not say what the source is.
    """
    read = {key: count(one) if key in _NUMBERS else text(one) for key, one in fields.items()}
    found: dict[str, Any] = {key: one for key, one in read.items() if one not in (None, "")}
    for start, end in _RANGES:
        if start not in found or found[start] > found.get(end, -1):
            found.pop(start, None)
            found.pop(end, None)
    if "source_start" not in found:
        found.pop("unit", None)
    return cast("Citation", {} if _SOURCE.isdisjoint(found) else found)


def sources_of(citations: Iterable[Citation]) -> dict[str, Citation]:
    """Return the first citation of each source, by its URL, its id, its title or its number."""
    found: dict[str, Citation] = {}
    for one in citations:
        number = f"document {one['document']}" if "document" in one else ""
        names = (one.get("url"), one.get("source_id"), one.get("title"), number)
        if name := next(filter(None, names), ""):
            found.setdefault(name, one)
    return found


def tool_result(
    kind: Kind,
    name: str,
    given: Iterable[str],
    *,
    id: Any = None,  # noqa: A002 - its name in every wire format
    sources: Iterable[Citation] = (),
    output: Any = None,
    error: Any = None,
) -> ProviderToolResult:
    """Return the use of a tool; what is empty is left out. `given` is its input."""
    result: ProviderToolResult = {"kind": kind, "name": name, "input": [*filter(None, given)]}
    if id_ := text(id):
        result["id"] = id_
    if found := [source for source in sources if source]:
        result["sources"] = found
    if output := joined(output):
        result["output"] = output
    if error := joined(error):
        result["error"] = error
    return result


def joined(value: Any) -> str:
    """Return the text in a value, which may be text, a list of parts with text, or any JSON."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(joined, value)))
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    if not value:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()


def texts(value: Any, *keys: str) -> list[str]:
    """Return the texts under some keys of an object: its own JSON if there are none of them."""
    if not isinstance(value, Mapping):
        return [text(value)]
    found = [joined(value[key]) for key in keys if value.get(key)]
    return found or ([joined(dict(value))] if value else [])
