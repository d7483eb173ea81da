"""Shows tables: of names and values, and of rows that arrive one by one."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._lines import clean, print_stdout

__all__ = ["show_rows", "show_table"]


def show_table(title: str, description: str, rows: Iterable[tuple[str, str]]) -> None:
    """Show a title, a description if there is one, and the rows."""
    title, description = clean(title).strip(), clean(description).strip()
    if not sys.stdout.isatty():
        # rich would wrap the lines.
        lines = [
            title,
            *([description] if description else []),
            *(f"{name:<13}{text}" for name, text in rows),
        ]
        print_stdout("\n".join(lines))
        return
    console = Console(highlight=False, emoji=False)
    console.print(Text(title, style="bold"))
    if description:
        console.print(Text(description))
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(Text(clean(name), style="dim"), Text(clean(text), overflow="fold"))
    if table.row_count:  # rich prints a blank line for an empty table
        console.print(table)


def show_rows(rows: Iterable[tuple[str, ...]]) -> None:
    """Show rows as they arrive; the last text of a row may be long."""
    if sys.stdout.isatty():
        _draw_rows(rows)
    else:
        for row in rows:
            print_stdout("\t".join(_one_line(text) for text in row).rstrip("\t"))


def _draw_rows(rows: Iterable[tuple[str, ...]]) -> None:
    console = Console(highlight=False, emoji=False)
    for first, *others, last in rows:
        line = Text.assemble((_one_line(first), "bold"))
        for other in filter(None, others):
            line.append(f"  {_one_line(other)}")
        console.print(line, soft_wrap=True)
        if last:
            text = Text(f"  {_one_line(last)}", "dim")
            console.print(text, no_wrap=True, overflow="ellipsis")


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
