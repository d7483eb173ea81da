"""The output of a model and its tools as readers get it.

Text is written in pieces that readers accept, and reasoning by paragraph. Of arguments and results
that are longer than such a piece, readers get the beginning.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json, to_jsonable_python

from ..llm._answer import Tokens
from ..llm._reply import dump_tokens

if TYPE_CHECKING:
    from ..server import AgentStream, AnsweredQuestion

MAX_PIECE = 100_000
"""The characters of one packet, far below what readers accept."""
PARAGRAPH = "\n\n"
_AS_JSON: Any = {"bytes_mode": "base64", "inf_nan_mode": "null", "fallback": str}


def shown(value: Any) -> Any:
    """Return what readers see of a value: JSON, or the beginning of its text if that is long."""
    text = as_text(value)
    if len(text) > MAX_PIECE:
        return f"{text[:MAX_PIECE]}… ({len(text)} characters)"
    return to_jsonable_python(value, **_AS_JSON)


def as_text(value: Any) -> str:
    """Return text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else to_json(value, **_AS_JSON).decode()


def approval_question(name: str, arguments: Any) -> str:
    """Return the question whether a tool may be called."""
    from ..server._names import approval_question as asked  # there is a server, and only now

    return asked(name, shown(as_text(arguments)))


class TurnOutput:
    """Writes what a model and its tools do: texts, reasoning, tool calls and questions.

    A blank line separates the texts of two answers. Reasoning precedes the text that follows it; it
    is written if `thoughts` is True, see `Reasoning` for `limit`.

    Attributes:
        has_text: an answer has text, which an earlier process may have written.
        reasoning: that of the model.
        pieces: the texts of the packets that an earlier run of the current step has written.
    """

    def __init__(self, stream: "AgentStream", *, thoughts: bool = True, limit: int = 4_000) -> None:
        self._stream = stream
        self.reasoning = Reasoning(stream if thoughts else None, limit)
        self._before = ""
        self.has_text = False
        self.pieces: list[str] = []

    def begin(self) -> None:
        """Begin another answer."""
        self._before = PARAGRAPH if self.has_text else ""

    async def write(self, text: str) -> None:
        """Write text of any length, in the pieces in which an earlier run has written it."""
        if text:
            await self.reasoning.flush()
            text, self._before, self.has_text = self._before + text, "", True
        while text:
            is_known = self.pieces and text.startswith(self.pieces[0])
            size = len(self.pieces.pop(0)) if is_known else MAX_PIECE
            await self._stream.write(text[:size])
            text = text[size:]

    async def call(self, name: str, arguments: Any, call_id: str) -> None:
        """Report a call of a tool; arguments as text are JSON, if they can be parsed."""
        if isinstance(arguments, str):
            with suppress(ValueError):
                arguments = from_json(arguments)
        await self._stream.tool_call(name, shown(arguments), call_id)

    async def result(self, name: str, value: Any, call_id: str, failed: bool) -> None:
        """Report the result of a call, or its error."""
        await self._stream.tool_result(call_id, shown(value), failed, name=name)

    async def usage(
        self, prompt: int, completion: int, cached: int, written: int, reasoning: int, **about: Any
    ) -> None:
        """Report the tokens of requests to the model; `about` is what else `usage` accepts.

        `cached` were read from a cache, `written` to one; all are part of the first two.
        """
        tokens = Tokens(prompt, completion, cached, written, reasoning=reasoning)
        await self._stream.usage(**{**dump_tokens(tokens), **about})

    async def answered(self) -> "AnsweredQuestion | None":
        """Return the question of this agent that the turn answers, None if there is none."""
        answered = await self._stream.answered_question()
        return answered if answered and answered.state else None

    async def ask(self, name: str, arguments: Any, call_id: str, state: Any) -> None:
        """Ask whether a tool may be called, and end the stream."""
        await self.ask_text(approval_question(name, arguments), call_id, state)

    async def ask_text(self, question: str, call_id: str | None, state: Any) -> None:
        """Ask a question, and end the stream."""
        if self.has_text:
            await self._stream.write(PARAGRAPH)
        await self._stream.ask(question, call_id=call_id, state=state)


class Reasoning:
    """Collects the reasoning of the model and sends it by paragraph; without a stream, nothing.

    A paragraph ends at a blank line, or where the answer continues. One that is longer than `limit`
    is sent as far as it is known.
    """

    def __init__(self, stream: "AgentStream | None", limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._text = ""

    async def add(self, text: str) -> None:
        """Add a piece."""
        if self._stream is None:
            return
        *paragraphs, rest = (self._text + text).split(PARAGRAPH)
        if len(rest) > self._limit:
            paragraphs, rest = [*paragraphs, rest], ""
        for self._text in paragraphs:
            await self.flush()
        self._text = rest

    async def flush(self) -> None:
        """Send the collected text."""
        text, self._text = self._text.strip(), ""
        if text and self._stream is not None:
            await self._stream.thought(shown(text))
