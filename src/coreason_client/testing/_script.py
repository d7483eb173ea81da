"""The script of a fake agent: what it writes, where it waits and where it is disconnected."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ErrorSeverity,
    MediaCarousel,
    MediaItem,
    PresentationEvent,
    ProgressUpdate,
    StreamError,
    StreamPacket,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..errors import ArgumentError, MissingExtraError

try:
    from ..server import AgentStream
    from ..server.engine._agent import as_runner
    from ..server.parts import PartContent, dump_parts
except MissingExtraError:
    raise MissingExtraError("coreason_client.testing.fake_agent", "server") from None


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The server ends the connection here, once."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The agent waits here."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ScriptFailure:
    """The agent writes an ERROR packet here."""

    error: StreamError


Item: TypeAlias = (
    "str | Disconnect | Delay | ScriptFailure | PresentationEvent | CitationBlock | CitationItem | "
    "MediaCarousel | MediaItem | ProgressUpdate | StreamError | StreamPacket | dict[str, Any] | "
    "Callable[..., Any]"
)
Script: TypeAlias = "Item | Iterable[Any]"  # a list of items has the type list[object]
Player: TypeAlias = Callable[
    [ServiceRequest, AgentStream, Callable[[AgentStream], None]], Awaitable[None]
]


def disconnect() -> Disconnect:
    """Return an item at which the server ends the connection, without the end of the response.

    It happens once: a client that connects again receives the rest.
    """
    return Disconnect()


def delay(seconds: float) -> Delay:
    """Return an item at which the agent waits, in real time.

    Raises:
        ArgumentError: `seconds` is negative.
    """
    if seconds < 0:
        raise ArgumentError("seconds", "must not be negative", seconds)
    return Delay(seconds)


def fail(
    message: str = "the agent has failed",
    *,
    code: str = "agent_failed",
    severity: str = "FATAL",
    details: dict[str, Any] | None = None,
) -> ScriptFailure:
    """Return an item with which the agent writes an ERROR packet.

    `FATAL` ends the stream, `WARNING` does not. After `TRANSIENT` a client connects again, and the
    stream ends with the same error as `FATAL`, because an agent cannot recover from it; the faults
    `transient_error` and `transient_always` of `FaultServer` show a server that does.

    Raises:
        ArgumentError: the severity does not exist.
    """
    if severity not in ErrorSeverity.__members__:
        raise ArgumentError("severity", f"must be one of {', '.join(ErrorSeverity)}", severity)
    error = StreamError(
        code=code, message=message, severity=ErrorSeverity(severity), details=details
    )
    return ScriptFailure(error)


def as_player(script: Script, number: int = 1) -> Player:
    """Return a function that plays a script on a stream; `number` is for messages.

    Raises:
        TypeError: an item cannot be in a script.
    """
    if isinstance(script, str | dict | StreamPacket) or callable(script) or _is_item(script):
        items: list[Any] = [script]
    elif isinstance(script, Iterable):
        items = list(script)
    else:
        raise TypeError(_message(script, f"script {number}"))
    steps = [_step(item, f"item {place} of script {number}") for place, item in enumerate(items, 1)]

    async def play(
        request: ServiceRequest, stream: AgentStream, cut: Callable[[AgentStream], None]
    ) -> None:
        for step in steps:
            if stream.ended:
                return
            await step(request, stream, cut)

    return play


_MODELS = (
    PresentationEvent,
    CitationBlock,
    CitationItem,
    MediaCarousel,
    MediaItem,
    ProgressUpdate,
    StreamError,
)


def _is_item(value: object) -> bool:
    return isinstance(value, (*_MODELS, StreamPacket, Disconnect, Delay, ScriptFailure))


def _step(item: Any, where: str) -> Player:
    """Return a function that performs one item."""
    if isinstance(item, Disconnect):
        return _cut
    if isinstance(item, Delay):
        return lambda request, stream, cut: asyncio.sleep(item.seconds)
    if isinstance(item, str):
        return lambda request, stream, cut: stream.write(item)
    if _is_item(item) or isinstance(item, dict):
        return lambda request, stream, cut: _write(stream, item)
    if callable(item):
        runner = as_runner(item)
        return lambda request, stream, cut: runner(request, stream)
    raise TypeError(_message(item, where))


async def _cut(
    request: ServiceRequest, stream: AgentStream, cut: Callable[[AgentStream], None]
) -> None:
    cut(stream)


async def _write(stream: AgentStream, item: Any) -> None:
    """Write an item that is neither text nor an instruction."""
    match item:
        case ScriptFailure(error) | (StreamError() as error):
            await stream.write_packet("ERROR", error)
        case StreamPacket(op=op, p=p):
            await stream.write_packet(op, p)
        case CitationItem():
            await stream.cite(item)
        case CitationBlock(citations=citations):
            await stream.cite(*citations)
        case MediaItem():
            await stream.media(item)
        case MediaCarousel(items=items):
            await stream.media(*items)
        case ProgressUpdate(label=label, status=status, progress_percent=percent):
            await stream.progress(label, percent, status=status)
        case _:
            await stream.write_packet("EVENT", item)


def _message(item: object, where: str) -> str:
    return (
        f"{where} must be text, an event, a packet, an agent, delay(…), disconnect() or fail(…), "
        f"got {type(item).__name__}"
    )


# Items of A2A. They are agents of one step each, so that `fake_agent` can play them too.

AgentStep: TypeAlias = Callable[[ServiceRequest, AgentStream], Awaitable[None]]


def artifact(
    name: str, *parts: PartContent, append: bool = False, last_chunk: bool = True
) -> AgentStep:
    """Return an item with which the agent writes a result beside its text.

    A part is text, data (a dict or a list), a `File` or a `Link`. A result in several pieces has
    one name; all but the first have `append`, and all but the last `last_chunk=False`.

    Raises:
        ArgumentError: there is no part, or one has another type.
    """
    dump_parts(parts)  # checked here, where the script is written

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.artifact(name, *parts, append=append, last_chunk=last_chunk)

    return write


def ask(question: str, *, auth: bool = False) -> AgentStep:
    """Return an item with which the agent asks back: the task is in the state INPUT_REQUIRED.

    It ends the script; the next script answers the next message. With `auth` the state is
    AUTH_REQUIRED.
    """

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.ask(question, auth=auth)

    return write


def message(*parts: PartContent) -> AgentStep:
    """Return an item with which the agent answers with a message instead of a task.

    It must be the only item of its script.

    Raises:
        ArgumentError: there is no part, or one has another type.
    """
    dump_parts(parts)

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.message(*parts)

    return write


def reject(reason: str) -> AgentStep:
    """Return an item with which the agent refuses: the task is in the state REJECTED."""

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.reject(reason)

    return write


def status(text: str) -> AgentStep:
    """Return an item with which the agent sends its state: WORKING, with a message."""

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought(text)

    return write
