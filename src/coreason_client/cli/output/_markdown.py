"""Renders a block of Markdown for a terminal without hiding any word of the source."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

Lines = list[list[Segment]]

# The language name after the fence of a code block is not part of the answer.
_LANGUAGE = re.compile(r"\s*[A-Za-z][A-Za-z0-9_+#.-]*\s*", re.ASCII)


class MarkdownBlock:
    """A block of Markdown without blank lines around it.

    If rendering would hide a part of it (a table that is too wide, the URL of an image), the source
    is shown instead, as with `as_written`.
    """

    def __init__(self, text: str, *, as_written: bool = False) -> None:
        self.text = text
        self._as_written = as_written
        self._lines: dict[int, Lines] = {}  # by the width of the terminal

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if width not in self._lines:
            self._lines = {width: self._render(console, options)}
        for line in self._lines[width]:
            yield from line
            yield Segment.line()

    def _render(self, console: Console, options: ConsoleOptions) -> Lines:
        markdown = _Markdown(self.text)
        lines = stripped_lines(console, markdown, options)
        shown = _letters(segment.text for line in lines for segment in line)
        if self._as_written or _letters(_texts(markdown.parsed)) - shown:
            lines = stripped_lines(console, Text(self.text), options)
        for end in (0, -1):
            while lines and not lines[end]:
                del lines[end]
        return lines


def stripped_lines(console: Console, part: RenderableType, options: ConsoleOptions) -> Lines:
    """Render a part; return its lines without trailing spaces."""
    return [_stripped(line) for line in console.render_lines(part, options, pad=False)]


def _stripped(line: list[Segment]) -> list[Segment]:
    line = list(line)
    while line and not line[-1].text.rstrip():
        line.pop()
    if line:
        line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
    return line


class _Markdown(Markdown):
    """Markdown that shows HTML and link reference definitions as text.

    rich omits both. But `vector<int>` is part of the answer, and a definition is useless if each
    block is rendered separately.
    """

    def __init__(self, text: str) -> None:
        # Most links are paths, which a terminal cannot open, so they are shown as text.
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
            yield token.info  # text after the fence of a code block
        yield from (str(token.attrs.get(name, "")) for name in ("href", "src", "title"))


def _letters(texts: Iterable[str]) -> "Counter[str]":
    return Counter(char for text in texts for char in text if char.isalnum())
