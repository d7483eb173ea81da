"""The result of an MCP tool as a tool output. No I/O.

Text is sent as it is. Images are shown to the model after the results. Of what a model cannot read,
it gets a short description: audio, binary resources, links.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ._output import ToolOutput

__all__ = ["mcp_output"]


def mcp_output(result: Any) -> ToolOutput:
    """Return the output for a `CallToolResult`."""
    texts = [block.text for block in result.content if block.type == "text"]
    lines = list(_lines(result.content))
    structured = result.structured_content
    if structured is not None and not _repeats(texts, structured):
        lines.append(json.dumps(structured, ensure_ascii=False))
    text = "\n".join(lines)
    if result.is_error:
        text = f"Error: {text or 'the tool failed without a message'}"
    return ToolOutput(text, is_error=bool(result.is_error), images=tuple(_images(result.content)))


def _lines(content: Iterable[Any]) -> Iterator[str]:
    for block in content:
        if block.type == "text":
            yield block.text
        elif block.type == "resource_link":
            description = f": {block.description}" if block.description else ""
            yield f"[link to the resource {block.name}, {block.uri}{description}]"
        elif block.type == "resource":
            yield _resource(block.resource)
        elif block.type == "image":
            yield f"[an image, {block.mime_type}]"
        else:
            mime_type = getattr(block, "mime_type", None)
            yield f"[{block.type}{f', {mime_type}' if mime_type else ''}, not shown]"


def _resource(resource: Any) -> str:
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[resource {resource.uri}]\n{text}"
    return f"[resource {resource.uri}, {resource.mime_type or 'binary data'}, not shown]"


def _images(content: Iterable[Any]) -> Iterator[str]:
    for block in content:
        if block.type == "image":
            yield f"data:{block.mime_type};base64,{block.data}"


def _repeats(texts: list[str], structured: Any) -> bool:
    """Return True if the text is the structured content: servers send both, for older clients.

    A value that is not an object is wrapped in an object as its "result".
    """
    if not texts:
        return False
    values = [structured]
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        values.append(structured["result"])
    whole = "\n".join(texts)
    parsed = [_parsed(text) for text in texts]
    candidates = [whole, _parsed(whole), texts, parsed]
    return any(value == candidate for value in values for candidate in candidates)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
