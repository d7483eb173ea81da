"""`--mcp`: MCP servers whose tools the model may call, and what they ask the user."""

import asyncio
import json
import os
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from coreason_client import ArgumentError

from .._options import usage_error
from ..exits import ExitCode, Failure
from ..output import Output, print_stderr
from ._schema import schema_problem

if TYPE_CHECKING:
    from coreason_client.llm import MCPServer

_YES_OR_NO = {"y": True, "yes": True, "n": False, "no": False}


class TerminalQuestions:
    """Asks the user what MCP servers want to know, one question at a time.

    `output` shows the answer of the model, and is paused for a question.
    """

    def __init__(self) -> None:
        self.output = Output()
        self._one_at_a_time = asyncio.Lock()

    def server(self, given: str) -> "MCPServer":
        """Return the server for a command or a URL.

        Raises:
            Failure: it is neither.
        """
        from coreason_client.llm import MCPServer

        is_url = given.startswith(("http://", "https://"))
        try:
            name, *arguments = [given] if is_url else shlex.split(given)
            place: dict[str, Any] = {"url": name} if is_url else {"command": name}
            ask = partial(self.ask, name.partition("?")[0])  # a query may contain a key
            return MCPServer(args=arguments, **place, on_elicitation=ask)
        except ArgumentError as error:
            raise usage_error(error, {"url": "--mcp"}) from None
        except ValueError:
            rule = "must be a URL, or a command whose quotes are closed"
            raise Failure(f"--mcp {rule}", ExitCode.USAGE) from None

    async def ask(self, server: str, message: str, schema: dict[str, Any]) -> Any:
        """Return what the user types; None after Ctrl-D, and if stdin is not a terminal."""
        if sys.stdin is None or not sys.stdin.isatty():
            return None
        async with self._one_at_a_time:
            with self.output.paused():
                print_stderr(f"{server} asks: {message} (Ctrl-D declines)")
                try:
                    return await _content(schema)
                except EOFError:
                    print_stderr("")
                    return None


async def _content(schema: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    fields = schema.get("properties") or {}
    for name, field in fields.items() or [("Enter", {"description": "to accept"})]:
        while True:
            value = field_value(await _line(name, field), field)
            if value is None:
                problem = "a value is needed" if name in schema.get("required", ()) else None
            else:
                problem = schema_problem(value, field)
            if problem is None:
                break
            print_stderr(problem)
        if value is not None and fields:
            content[name] = value
    return content


async def _line(name: str, field: dict[str, Any]) -> str:
    from coreason_client.llm.tools._perform import run_in_thread

    hints = field.get("enum") or [field.get("description") or field.get("type")]
    print_stderr(f"{name} ({', '.join(map(str, hints))}): ", end="")
    # Not `sys.stdin`: Ctrl-C ends the command while the thread waits, which holds its lock.
    data = await run_in_thread(lambda: os.read(sys.stdin.fileno(), 4096), "coreason-question")
    if not data:
        raise EOFError
    return str(data.decode(errors="replace").strip())


def field_value(text: str, field: dict[str, Any]) -> Any:
    """Return the value for a field of a form; text that does not fit its type stays text."""
    kind = field.get("type")
    if not text:
        return field.get("default")
    if kind == "array":
        return [part.strip() for part in text.split(",")]
    if kind not in {"integer", "number", "boolean"}:
        return text
    try:
        return _YES_OR_NO[text.lower()] if kind == "boolean" else json.loads(text)
    except (KeyError, ValueError, RecursionError):
        return text
