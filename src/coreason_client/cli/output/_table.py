"""Names and values in columns."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._clean import clean
from ._lines import say

__all__ = ["show_table"]


def show_table(title: str, about: str, rows: Iterable[tuple[str, str]]) -> None:
    """Show a title, a text below it if there is one, and the rows."""
    title, about = clean(title).strip(), clean(about).strip()
    if not sys.stdout.isatty():
        # Not by way of rich, which would wrap the lines.
        lines = [title, *([about] if about else []), *(f"{name:<13}{text}" for name, text in rows)]
        say("\n".join(lines))
        return
    console = Console(highlight=False, emoji=False)
    console.print(Text(title, style="bold"))
    if about:
        console.print(Text(about))
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(Text(clean(name), style="dim"), Text(clean(text), overflow="fold"))
    console.print(table)
