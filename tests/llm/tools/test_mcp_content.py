"""Results of MCP tools as tool outputs."""

from typing import Any

import pytest
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from coreason_client.llm.tools._mcp_connection import mcp_output

TEXT = TextContent(type="text", text="hello")
IMAGE = ImageContent(type="image", data="AAAA", mime_type="image/png")
AUDIO = AudioContent(type="audio", data="AAAA", mime_type="audio/wav")
LINK = ResourceLink(type="resource_link", name="r", uri="file:///r", description="a report")
NOTE = EmbeddedResource(
    type="resource", resource=TextResourceContents(uri="memo://1", text="remember")
)
BLOB = EmbeddedResource(type="resource", resource=BlobResourceContents(uri="memo://2", blob="AA=="))


def text(*content: Any, **options: Any) -> str:
    return mcp_output(CallToolResult(content=list(content), **options)).text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], ""),
        ([TEXT], "hello"),
        ([TEXT, TEXT], "hello\nhello"),
        ([AUDIO], "[audio, audio/wav, not shown]"),
        ([LINK], "[link to the resource r, file:///r: a report]"),
        ([NOTE], "[resource memo://1]\nremember"),
        ([BLOB], "[resource memo://2, binary data, not shown]"),
    ],
)
def test_content(content: list[Any], expected: str) -> None:
    assert text(*content) == expected


def test_images() -> None:
    output = mcp_output(CallToolResult(content=[TEXT, IMAGE]))
    assert output.text == "hello\n[an image, image/png]"
    assert output.images == ("data:image/png;base64,AAAA",)


def block(value: str) -> TextContent:
    return TextContent(type="text", text=value)


@pytest.mark.parametrize(
    ("texts", "structured", "expected"),
    [
        ([], {"a": 1}, '{"a": 1}'),
        (['{"a":1}'], {"a": 1}, '{"a":1}'),
        (["42"], {"result": 42}, "42"),
        (["hello"], {"result": "hello"}, "hello"),
        (["a", "b"], {"result": ["a", "b"]}, "a\nb"),
        (["1", "2"], {"result": [1, 2]}, "1\n2"),
        (["see the data"], {"a": "é"}, 'see the data\n{"a": "é"}'),
    ],
)
def test_structured_content_is_sent_once(texts: list[str], structured: Any, expected: str) -> None:
    assert text(*map(block, texts), structured_content=structured) == expected


def test_errors() -> None:
    output = mcp_output(CallToolResult(content=[TEXT], is_error=True))
    assert (output.text, output.is_error) == ("Error: hello", True)
    assert text(is_error=True) == "Error: the tool failed without a message"
