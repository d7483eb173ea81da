"""An answer drawn in a terminal: finished blocks once and for good, the rest anew as it grows."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from coreason_manifest.definitions.presentation import (
    CitationBlock,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    MediaCarousel,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
)

from ._blocks import Blocks
from ._contents import Sources, clean, text_of, usage_of

__all__ = ["LiveRenderer"]

_REDRAWS_PER_SECOND = 12
_BAR_WIDTH = 24
_MARKS = {"running": " ", "complete": "✓", "failed": "✗"}


class LiveRenderer:
    """Shows one answer in a terminal."""

    def __init__(self, console: Console, status: Callable[[], str] = str) -> None:
        self._console = console
        self._status = status
        self._blocks = Blocks()
        self._running: dict[str, ProgressUpdate] = {}
        self._sources = Sources()
        self._spinner = Spinner("dots", style="dim")
        self._silent = True  # until the first thing that stays on the screen
        self._loose = False  # whether a blank line is due before the next paragraph
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=_REDRAWS_PER_SECOND,
            transient=True,
            vertical_overflow="visible",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        rest, self._running, self._silent = self._blocks.finish(), {}, False
        self._live.stop()
        self._paragraph(rest)
        if exc_type is None:
            self._list_sources()
        elif exc_type is KeyboardInterrupt:
            self._print(Text("stopped", style="dim"))

    def show(self, packet: Packet) -> None:
        """Show a packet."""
        if isinstance(packet, DeltaPacket):
            self.write(packet.p)
        elif isinstance(packet, EventPacket):
            self._event(packet.p)
        elif isinstance(packet, ErrorPacket):
            words = f"warning: {packet.p.code}: {packet.p.message}"
            self._print(Text(clean(words), style="yellow"))

    def write(self, text: str) -> None:
        """Go on with the text."""
        for block in self._blocks.feed(clean(text)):
            self._paragraph(block)
        self._silent = self._silent and not self._blocks.rest

    def end_text(self) -> None:
        """Let what follows begin anew."""
        self._flush()

    def line(self, text: str) -> None:
        """Show something that is no Markdown."""
        self._flush()
        self._print(Text(clean(text)))

    def aside(self, text: str) -> None:
        """Show something that is no part of the answer."""
        self._print(Text(clean(text), style="dim"))

    def report(self, sentence: str) -> None:
        """Say something about the answer, after it."""
        self._print(Text())
        self._print(Text(sentence, style="bold"))

    # What is on the screen for now

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._blocks.rest:
            parts += [Text()] if self._loose else []
            parts.append(_Block(self._blocks.rest, growing=True))
        parts += [_bar(update) for update in list(self._running.values())]
        if status := self._status():
            parts.append(Text(status, style="dim"))
        if self._silent and not parts:
            parts.append(self._spinner)
        return Group(*parts)

    # What stays

    def _event(self, event: PresentationEvent | dict[str, Any]) -> None:
        if not isinstance(event, PresentationEvent):
            usage = usage_of(event)
            if usage is not None:
                self._flush()  # it tells of the text before it
            self._print(_one_line(usage or text_of(event)))
            return
        data: Any = event.data
        match data:
            case ProgressUpdate():
                self._progress(data)
            case CitationBlock():
                self._sources.add(data.citations)
            case MediaCarousel():
                for item in data.items:
                    words = f"{item.alt_text or item.mime_type}: {item.url}"
                    self._print(Text(clean(words)))
            case _ if event.type is PresentationEventType.MARKDOWN_BLOCK:
                self._flush()
                self._paragraph(clean(text_of(data)))
            case _ if event.type is PresentationEventType.THOUGHT_TRACE:
                self._print(Text(clean(text_of(data)), style="dim italic"))
            case _:
                self._print(_one_line(text_of(data)))

    def _progress(self, update: ProgressUpdate) -> None:
        self._running[update.label] = update
        if update.status != "running":
            del self._running[update.label]
            self._print(_bar(update))

    def _list_sources(self) -> None:
        sources = self._sources.numbered()
        if not sources:
            return
        table = Table.grid(padding=(0, 1))
        for number, item in sources:
            line = Text.assemble(clean(item.title), "  ", (clean(item.uri), "dim"))
            table.add_row(Text(f"[{number}]", style="cyan"), line)
        self._print(Text())
        self._print(Text("Sources", style="bold"))
        self._print(table)

    def _flush(self) -> None:
        self._paragraph(self._blocks.finish())

    def _paragraph(self, text: str) -> None:
        if text:
            if self._loose:
                self._print(Text())
            self._print(_Block(text))
            self._loose = True

    def _print(self, what: RenderableType) -> None:
        self._loose = True
        self._console.print(what)


class _Block:
    """A block of Markdown without blank lines around it.

    While it is being drawn again and again it must not be higher than the screen, which could not
    take back what has scrolled away: then only its end is shown.
    """

    def __init__(self, text: str, *, growing: bool = False) -> None:
        # Links as text: most of them are paths, which a terminal could not open.
        self._markdown = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
        self._growing = growing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._markdown, options, pad=False)
        for end in (0, -1):
            while lines and _is_blank(lines[end]):
                del lines[end]
        if self._growing:
            lines = lines[-max(options.size.height - 4, 1) :]
        for line in lines:
            yield from line
            yield Segment.line()


def _is_blank(line: list[Segment]) -> bool:
    return not "".join(segment.text for segment in line).strip()


def _bar(update: ProgressUpdate) -> RenderableType:
    percent = update.progress_percent
    style = "red" if update.status == "failed" else "dim"
    bar = ProgressBar(
        total=100,
        completed=percent or 0,
        width=_BAR_WIDTH,
        pulse=percent is None and update.status == "running",
        finished_style="dim green",
    )
    table = Table.grid(padding=(0, 1))
    told = "" if percent is None else f"{percent:3.0f} %"
    mark = _MARKS[update.status]
    table.add_row(Text(clean(update.label), style=style), bar, Text(f"{told} {mark}", style=style))
    return table


def _one_line(text: str) -> Text:
    return Text(clean(text).replace("\n", " "), style="dim", overflow="ellipsis", no_wrap=True)
