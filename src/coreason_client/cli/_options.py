"""Options that several commands share."""

from typing import Annotated

import typer

from .exits import ExitCode, Failure

__all__ = ["System", "Verbose", "check_system"]

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

System = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="What the model of --llm is told before every conversation.",
        show_default=False,
    ),
]


def check_system(system: str | None) -> None:
    """Refuse instructions where there is no model to follow them.

    Raises:
        Failure: there are some.
    """
    if system is not None:
        raise Failure("--system is for the model of --llm: give both", ExitCode.USAGE)
