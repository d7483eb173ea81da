"""The code blocks of a Markdown page, and what the page says about running them.

Blocks are run from the top of a page to its end, in one folder. What a page can say:

- ```` ```python ```` is a complete program. A ```` ```text ```` block directly after it is what it
  prints; a line `...` stands for any lines, and `...` in a line for any text.
- ```` ```python title="agent.py" ```` is a file. Later blocks import it or run it; if none does, it
  is imported at the end of the page. `test_*.py` is run with pytest.
- ```` ```sh ```` are commands for one shell, which lasts for the whole page: its variables, its
  folder and its background jobs are there in the next block. A server in the foreground is started
  in the background.
- ```` ```js ```` is a module for Node.js; any other language with a title is a file.
- `<!-- not run: REASON -->` before a block: it cannot be run.
- `<!-- model says: TEXT -->`, `<!-- model calls: NAME {ARGUMENTS} -->` before a block: the next
  answers of the model, in this order; otherwise it says "Hello.".
- `<!-- set: NAME=VALUE -->` before a block: a variable of the environment, from here on.
- `<!-- notebook -->` before a block: a cell of a notebook, with `await` at the top and the names
  of the cells above.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["DATA", "RUN", "Block", "BlockError", "matches", "parse"]

RUN = {"python", "sh", "js"}
# Without a title they only show something.
DATA = {
    *("text", "json", "yaml", "toml", "ini", "html", "xml", "css", "http", "nginx", "dockerfile"),
    *("diff", "caddyfile", "promql", "jsx", "ts", "csv", "sql"),
}

_FENCE = re.compile(r"( *)(`{3,})([\w+-]*)(.*)")
_TITLE = re.compile(r'\btitle="([^"]+)"')
_COMMENT = re.compile(r" *<!-- (.*) -->")
_NOT_RUN = "not run:"
_KNOWN = (_NOT_RUN, "model says:", "model calls:", "set:", "notebook")


class BlockError(Exception):
    """A block that the page does not explain, with the page and the line."""


@dataclass(frozen=True)
class Block:
    """A code block; `line` is the line of the first line of its code."""

    line: int
    language: str
    code: str
    title: str | None = None
    comments: tuple[str, ...] = ()
    output: str | None = None
    indent: int = 0

    @property
    def not_run(self) -> str | None:
        """The reason why the block is not run, if there is one."""
        for comment in self.comments:
            if comment.startswith(_NOT_RUN):
                return comment.removeprefix(_NOT_RUN).strip()
        return None

    @property
    def is_notebook(self) -> bool:
        return "notebook" in self.comments


def parse(text: str, page: str) -> list[Block]:
    """Return the blocks of a page, those of output joined to the program that prints it.

    Raises:
        BlockError: a block has no language or an unknown one, or a reason is missing.
    """
    found: list[Block] = []
    after = -1  # the line after the last block
    for block, end in _blocks(text.splitlines(), page):
        gap = text.splitlines()[after : block.line - 2] if found else ["-"]
        last = found[-1] if found else block
        is_output = block.language == "text" and block.title is None
        if is_output and last.language in RUN and last.output is None and not any(gap):
            found[-1] = Block(**{**vars(last), "output": block.code})
        else:
            _check(block, page)
            found.append(block)
        after = end
    return found


def _blocks(lines: list[str], page: str) -> Iterator[tuple[Block, int]]:
    number = 0
    while number < len(lines):
        opened = _FENCE.fullmatch(lines[number])
        number += 1
        if opened is None:
            continue
        indent, fence, language, rest = opened.groups()
        start = number
        while number < len(lines) and lines[number].strip() != fence:
            number += 1
        if number == len(lines):
            raise BlockError(f"{page}:{start}: the block is not closed")
        code = "".join(line.removeprefix(indent) + "\n" for line in lines[start:number])
        number += 1
        title = _TITLE.search(rest)
        comments = tuple(_comments(lines[: start - 1]))
        named = title[1] if title else None
        yield Block(start + 1, language, code, named, comments, indent=len(indent)), number


def _comments(above: list[str]) -> Iterator[str]:
    """Return the comments directly above a block, the first one first."""
    found: list[str] = []
    for line in reversed(above):
        comment = _COMMENT.fullmatch(line)
        if comment is not None:
            found.append(comment[1].strip())
        elif line.strip():
            break
    return reversed(found)


def _check(block: Block, page: str) -> None:
    where = f"{page}:{block.line - 1}"
    if not block.language:
        raise BlockError(f"{where}: the block has no language; say `text` if nothing runs it")
    if block.language not in RUN | DATA:
        raise BlockError(f"{where}: the language {block.language!r} is not known: see tests/docs")
    if block.not_run is not None and len(block.not_run) < 5:
        raise BlockError(f"{where}: say why the block is not run")
    for comment in block.comments:
        if not comment.startswith(_KNOWN):
            raise BlockError(f"{where}: the comment {comment!r} is not known: see tests/docs")
    if block.title and (block.title.startswith("/") or ".." in block.title):
        raise BlockError(f"{where}: the title {block.title!r} is not a file of the page's folder")


_BUSY = "this process did not run for"


def matches(expected: str, printed: str) -> bool:
    """Return True if a program printed what a page shows; `...` stands for anything.

    What a server says about a machine that is too busy does not count.
    """
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    printed_lines = printed.strip("\n").splitlines()
    got = "\n".join(line.rstrip() for line in printed_lines if _BUSY not in line)
    pattern = ""
    for number, line in enumerate(lines):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?" if number < len(lines) - 1 else r"(?:.*\n?)*"
        else:
            pattern += ".*?".join(map(re.escape, line.split("...")))
            pattern += "\n" if number < len(lines) - 1 else ""
    # A page may end with `...` where the program printed nothing more.
    return re.fullmatch(pattern, got) is not None or (
        bool(lines) and lines[-1].strip() == "..." and re.fullmatch(pattern, got + "\n") is not None
    )
