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
except MissingExtraError:
    raise MissingExtraError("coreason_client.testing.fake_agent", "server") from None

__all__ = ["Item", "Player", "Script", "as_player", "delay", "disconnect", "fail"]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The server ends the connection here, once."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The agent waits here."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """The agent writes an ERROR packet here."""

    error: StreamError


Item: TypeAlias = (
    "str | Disconnect | Delay | Failure | PresentationEvent | CitationBlock | CitationItem | "
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
) -> Failure:
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
    return Failure(error)


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
    return isinstance(value, (*_MODELS, StreamPacket, Disconnect, Delay, Failure))


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
        case Failure(error) | (StreamError() as error):
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
