"""A block of Markdown as lines for a terminal, in which every word of the source is shown."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

__all__ = ["Block", "Lines", "stripped_lines"]

Lines = list[list[Segment]]

# The name of a language behind the fence of a code block is no word of the answer.
_LANGUAGE = re.compile(r"\s*[A-Za-z][A-Za-z0-9_+#.-]*\s*", re.ASCII)


class Block:
    """A block of Markdown without blank lines around it.

    Where the drawing would not show all of it (a table that is too wide, the address of an image),
    the source is shown instead.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines: dict[int, Lines] = {}  # by the width of the terminal

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if width not in self._lines:
            self._lines = {width: self._drawn(console, options)}
        for line in self._lines[width]:
            yield from line
            yield Segment.line()

    def _drawn(self, console: Console, options: ConsoleOptions) -> Lines:
        markdown = _Markdown(self.text)
        lines = stripped_lines(console, markdown, options)
        shown = _letters(segment.text for line in lines for segment in line)
        if _letters(_texts(markdown.parsed)) - shown:
            lines = stripped_lines(console, Text(self.text), options)
        for end in (0, -1):
            while lines and not lines[end]:
                del lines[end]
        return lines


def stripped_lines(console: Console, what: RenderableType, options: ConsoleOptions) -> Lines:
    """Return the lines of something without the blanks at their ends."""
    return [_stripped(line) for line in console.render_lines(what, options, pad=False)]


def _stripped(line: list[Segment]) -> list[Segment]:
    line = list(line)
    while line and not line[-1].text.rstrip():
        line.pop()
    if line:
        line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
    return line


class _Markdown(Markdown):
    """Markdown in which HTML is text, and definitions of references are too.

    rich leaves both out, but `vector<int>` is what an agent wrote, and a reference is of no use
    where each block is drawn for itself.
    """

    def __init__(self, text: str) -> None:
        # Links as text: most of them are paths, which a terminal could not open.
        super().__init__(text, hyperlinks=False, code_theme="ansi_dark")
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.disable("reference").parse(text)


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.children:
            yield from _texts(token.children)
        else:
            yield token.content
        if not _LANGUAGE.fullmatch(token.info):
            yield token.info  # words behind the fence of a code block
        yield from (str(token.attrs.get(name, "")) for name in ("href", "src", "title"))


def _letters(texts: Iterable[str]) -> "Counter[str]":
    return Counter(char for text in texts for char in text if char.isalnum())
