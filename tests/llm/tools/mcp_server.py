"""A server of the official MCP package, for the tests: over stdio, or over HTTP with a port."""

import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, ElicitationResult, Image, Resolve
from mcp.types import CallToolResult, EmbeddedResource, ResourceLink, TextContent
from mcp.types import TextResourceContents as TextResource
from pydantic import BaseModel

PIXEL = bytes.fromhex("89504e470d0a1a0a")

server = MCPServer("weather station", log_level="CRITICAL")
calls = 0


class Sky(BaseModel):
    colour: str
    clouds: int


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def sky(city: str) -> Sky:
    """Return the sky as structured content."""
    return Sky(colour="blue", clouds=len(city))


@server.tool()
def words() -> list[str]:
    """Return several pieces of text."""
    return ["one", "two"]


@server.tool()
def photo() -> Image:
    """Return an image."""
    return Image(data=PIXEL, format="png")


@server.tool()
def documents() -> CallToolResult:
    """Return a link and an embedded resource."""
    text = TextResource(uri="memo://1", text="remember", mime_type="text/plain")
    return CallToolResult(
        content=[
            TextContent(type="text", text="two documents"),
            ResourceLink(type="resource_link", name="report", uri="https://x.example/report"),
            EmbeddedResource(type="resource", resource=text),
        ]
    )


@server.tool()
def broken(reason: str) -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)


class Booking(BaseModel):
    nights: int


def ask_nights() -> Elicit[Booking]:
    return Elicit("How many nights?", Booking)


@server.tool()
def book(answer: Annotated[ElicitationResult[Booking], Resolve(ask_nights)]) -> str:
    """Ask the user for the number of nights."""
    return f"accept {answer.data.nights}" if answer.action == "accept" else answer.action


@server.tool()
def count() -> int:
    """Return the number of calls of this tool in this process."""
    global calls
    calls += 1
    return calls


if __name__ == "__main__":
    options: dict[str, Any] = {"port": int(sys.argv[1])} if sys.argv[1:] else {}
    server.run("streamable-http" if options else "stdio", **options)
