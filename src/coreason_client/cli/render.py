"""How packets become output: live Markdown in a terminal, plain text in a pipe, or JSON lines."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from coreason_manifest.definitions.presentation import (
    CitationBlock,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    MediaCarousel,
    Packet,
    PresentationEvent,
    PresentationEventType,
    StreamError,
)

from ._clean import Cleaner, clean, escaped_json
from ._contents import Sources, text_of

__all__ = ["JsonRenderer", "PlainRenderer", "Renderer", "renderer"]


class Renderer(Protocol):
    """Shows one answer: a context manager around it, and each packet as it comes."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def show(self, packet: Packet) -> None:
        """Show a packet."""

    def report(self, sentence: str) -> None:
        """Say something about the answer, after it."""


def renderer(*, as_json: bool, status: Callable[[], str]) -> Renderer:
    """Return what suits the output: JSON when asked for, drawing only where it can be seen.

    `status` gives a line to show while somebody watches, or nothing.
    """
    if as_json:
        return JsonRenderer(sys.stdout)
    from ._live import LiveRenderer, live_console

    if (console := live_console()) is not None:
        return LiveRenderer(console, status)
    return PlainRenderer(sys.stdout)


class JsonRenderer:
    """One packet per line, as JSON; everything else goes to stderr."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, packet: Packet) -> None:
        """Write the packet."""
        self._out.write(escaped_json(packet.to_json()) + "\n")
        self._out.flush()

    def report(self, sentence: str) -> None:
        """Say it where it does not get between the packets."""
        sys.stderr.write(sentence + "\n")


class PlainRenderer:
    """The text as it comes, without any control characters of ours, then the sources.

    Thoughts and progress are for people who watch, and nobody watches a pipe.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._sources = Sources()
        self._cleaner = Cleaner()
        self._last = ""  # the last characters written: how the output stands

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self._list_sources()
        elif not (exc_type is BrokenPipeError or not self._last):
            self._end_line()

    def show(self, packet: Packet) -> None:
        """Write what a reader of the answer wants."""
        if isinstance(packet, DeltaPacket):
            self._write(self._cleaner.feed(packet.p))
        elif isinstance(packet, EventPacket) and isinstance(packet.p, PresentationEvent):
            self._event(packet.p)
        elif isinstance(packet, ErrorPacket):
            _warn(packet.p)

    def report(self, sentence: str) -> None:
        """Write a paragraph of its own."""
        self._new_paragraph()
        self._write(clean(sentence) + "\n")

    def _event(self, event: PresentationEvent) -> None:
        data: Any = event.data
        if event.type is PresentationEventType.MARKDOWN_BLOCK:
            self._new_paragraph()
            self._write(clean(text_of(data)) + "\n")
            self._last = "\n\n"  # what follows a block starts on a line of its own anyway
        elif isinstance(data, CitationBlock):
            self._sources.add(data.citations)
        elif isinstance(data, MediaCarousel):
            self._new_paragraph()
            for item in data.items:
                self._write(clean(f"{item.alt_text or item.mime_type}: {item.url}\n"))

    def _list_sources(self) -> None:
        sources = self._sources.numbered()
        if sources:
            self._last = self._last and self._last[-1]
            self._new_paragraph()
            self._write("Sources:\n")
            for number, item in sources:
                self._write(clean(f"[{number}] {item.title}: {item.uri}\n"))
        self._end_line()

    def _new_paragraph(self) -> None:
        self._end_line()
        if self._last and not self._last.endswith("\n\n"):
            self._write("\n")

    def _end_line(self) -> None:
        self._write(self._cleaner.finish())
        if self._last and not self._last.endswith("\n"):
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._last = (self._last + text)[-2:]


def _warn(error: StreamError) -> None:
    sys.stderr.write(clean(f"warning: {error.code}: {error.message}") + "\n")
