"""Options that several commands share."""

from typing import Annotated

import typer

__all__ = ["Verbose"]

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Show logs on stderr; -vv shows those of libraries too.",
    ),
]
