"""One question to a model: its answer is shown as it arrives, and saved."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._text import usage_line
from ..exits import ExitCode, Failure
from ..output import Output, Source, open_output, print_dimmed, print_stderr
from ._history import without_query
from ._mcp import TerminalQuestions

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, LLMError, Message, Response

_WAKE_INTERVAL = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Shown:
    """The form in which an answer is shown."""

    stream: bool
    as_json: bool
    as_value: bool
    """True: only the value of `--schema` is printed."""

    def open(self) -> Output:
        """Return the output for it."""
        return open_output(as_json=self.as_json or self.as_value)

    def record(self, response: "Response") -> str:
        """Return the JSON to print; in a terminal a value is indented."""
        if self.as_json or not self.as_value:
            return json.dumps(response, ensure_ascii=False)
        indent = 2 if sys.stdout.isatty() else None
        return json.dumps(response["data"].get("parsed"), ensure_ascii=False, indent=indent)


def _wake_often(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop notice Ctrl-C that was pressed in the instant before it began to wait.

    Python runs the handler of a signal when the loop wakes, and that signal does not wake it.
    """
    loop.call_later(_WAKE_INTERVAL, _wake_often, loop)


@dataclass(slots=True)
class ModelExchange:
    """A call, and its answer as far as it was received."""

    client: "AsyncLLMClient"
    call: dict[str, Any]
    tools: Sequence[Any] = ()
    questions: TerminalQuestions = field(default_factory=TerminalQuestions)
    notes: bool = False
    """True: calls of tools are shown on stderr if stdout is not a terminal."""

    texts: list[str] = field(default_factory=list)
    response: "Response | None" = None
    followed: "Sequence[Message]" = ()
    """The messages that followed those of the call; the last one is the answer."""

    usage: "Mapping[str, Any]" = field(default_factory=dict)
    """The tokens of an answer that is incomplete."""

    def run(self, shown: Shown) -> "Response":
        """Ask, and show the answer.

        Raises:
            LLMError, Failure: there is no answer, or it is incomplete.
        """
        from coreason_client.llm import LLMError

        from .._load import with_option_names

        try:
            with shown.open() as output:
                self.questions.output = output
                # Ctrl-C cancels the task, which closes the connection.
                response = asyncio.run(self._ask(output, stream=shown.stream))
                if not shown.stream:
                    output.write(response["data"]["content"] or "")
                output.record(lambda: shown.record(response))
            _show_sources(output, response)
        except LLMError as error:
            self._keep(error)
            raise _invalid_answer(error) or with_option_names(error) from None
        return response

    def turn(self, user: "Message") -> dict[str, Any] | None:
        """Return the fields of the turn to save, None if nothing was received."""
        text = "".join(self.texts)
        followed = self.followed or ([{"role": "assistant", "content": text}] if text else [])
        if not followed:
            return None
        received: Mapping[str, Any] = self.response or {}
        return {
            "model": received.get("model", self.call["model"]),
            "provider": received.get("provider"),
            "messages": [user, *followed],
            "usage": spent(received) or self.usage,
            "seconds": received.get("seconds"),
            "complete": self.response is not None,
        }

    async def _ask(self, output: Output, *, stream: bool) -> "Response":
        _wake_often(asyncio.get_running_loop())
        async with self.client:
            if self.tools:
                response = await self._run_tools(output, stream=stream)
            elif stream:
                response = await self._stream(output)
            else:
                response = await self.client.generate(**self.call)
        response = _as_json(response)
        if not self.followed and response["data"]["content"]:
            self.followed = [_storable({"role": "assistant", **response["data"]})]
        self.response = response
        return response

    async def _stream(self, output: Output) -> "Response":
        # A value is printed when it is complete, so an answer may begin again.
        restarts: dict[str, Any] = {"on_break": "restart"} if self.call["response_format"] else {}
        async with self.client.stream(**self.call, **restarts) as answer:
            async for delta in answer:
                self._show_event(output, delta)
            return await answer.result()

    async def _run_tools(self, output: Output, *, stream: bool) -> "Response":
        call = {**self.call, "tools": self.tools}
        if stream:
            async with self.client.run_stream(**call) as events:
                async for event in events:
                    self._show_event(output, event)
                result = await events.result()
        else:
            result = await self.client.run(**call)
        self._follow(result.messages)
        return {**result.response, "usage": result.usage}

    def _show_event(self, output: Output, event: Any) -> None:
        from coreason_client.llm import Restarted, TextDelta, ToolCallFinished, ToolCallStarted

        if isinstance(event, TextDelta):
            self.texts.append(event.text)
            output.write(event.text)
        elif isinstance(event, Restarted):
            self.texts.clear()
        elif isinstance(event, ToolCallStarted):
            output.end_text()
            arguments = json.dumps(event.arguments, ensure_ascii=False)
            self._note(output, f"→ {event.name} {arguments}")
        elif isinstance(event, ToolCallFinished) and event.is_error:
            self._note(output, f"← {event.result}")

    def _note(self, output: Output, text: str) -> None:
        if sys.stdout.isatty():
            output.detail(text)
        elif self.notes:
            output.info(text)

    def _follow(self, conversation: "Sequence[Message]") -> None:
        """Keep what a run added to the messages of the call."""
        new = conversation[len(self.call["messages"]) :]
        self.followed = [_storable(message) for message in new]

    def _keep(self, error: "LLMError") -> None:
        """Keep what was received before an error, and its usage."""
        if error.partial is not None:
            self.usage = error.spent or error.partial["usage"]
            if not self.texts and error.partial["data"]["content"]:
                self.texts.append(error.partial["data"]["content"])
        if error.conversation is not None:
            self.usage = error.usage or self.usage
            self._follow(error.conversation)


def _show_sources(output: Output, response: "Response") -> None:
    from coreason_client.llm._citations import sources_of

    cited = sources_of(response["data"].get("citations", ()))
    rows = [(one.get("title") or uri, uri) for uri, one in cited.items()]
    if rows:
        output.sources([Source(number, *row) for number, row in enumerate(rows, 1)])


def _invalid_answer(error: "LLMError") -> Failure | None:
    """Return the error for an answer that does not match --schema, None for any other error."""
    if error.invalid_because is None:
        return None
    cut = error.partial is not None and error.partial["data"].get("truncated")
    reason = " ".join(error.invalid_because.split())
    reason = reason.replace("does not match schema: - answer:", "does not match --schema:", 1)
    remedy = ", because it was cut off; increase --max-tokens" if cut else ""
    return Failure(f"the answer {reason}{remedy}", ExitCode.PROTOCOL)


def spent(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tokens and the cost of all attempts; empty if there is no response."""
    usage: Mapping[str, Any] = response.get("spent") or response.get("usage") or {}
    return usage


def _as_json(response: "Response") -> "Response":
    """Return a response whose parsed answer is a JSON value."""
    data = response["data"]
    if "parsed" not in data:
        return response
    parsed = getattr(data["parsed"], "root", data["parsed"])
    return {**response, "data": {**data, "parsed": parsed}}


def _storable(message: Mapping[str, Any]) -> "Message":
    """Return a message without the parsed value, which `content` contains as text."""
    return {key: value for key, value in message.items() if key != "parsed"}


def print_notes(response: "Response", model: str, *, usage: bool) -> None:
    """Print what is not part of the answer: warnings if it is incomplete, tokens and cost."""
    if response["data"]["finish_reason"] == "length":
        print_dimmed(
            "warning: the answer is truncated: it reached --max-tokens or the limit of the model"
        )
    if response["data"].get("filtered"):
        print_dimmed("warning: the provider's content filter removed a part of the answer")
    if usage:
        print_dimmed(usage_line(response.get("model", model), spent(response)))


def print_continue(conversation: str, base_url: str | None) -> None:
    """Print the command that continues a conversation; `base_url` is the option, if any."""
    # The environment need not be repeated.
    is_set = base_url is None or base_url == os.environ.get("LLM_API_BASE_URL")
    place = [] if is_set else ["--base-url", str(without_query(base_url))]
    command = shlex.join(["coreason", "llm", "--cid", conversation, *place])
    with suppress(OSError):
        print_stderr(f"To continue this conversation: {command}")
