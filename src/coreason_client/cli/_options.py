"""Options that several commands share."""

from collections.abc import Mapping
from typing import Annotated

import typer

from coreason_client import ArgumentError

from .exits import ExitCode, Failure

__all__ = ["System", "Verbose", "check_system", "given_as", "wrong_usage"]

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
        help="System prompt for --llm.",
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


def wrong_usage(error: ArgumentError, names: Mapping[str, str]) -> Failure:
    """Return a failure that names the option or the variable from which an argument comes."""
    name = names.get(error.argument, error.argument)
    return Failure(str(error.renamed(name)), ExitCode.USAGE)


def given_as(context: typer.Context, parameter: str, option: str, variable: str) -> str:
    """Return where the value of a parameter comes from: the option, or the variable."""
    source = context.get_parameter_source(parameter)
    return variable if source is not None and source.name == "ENVIRONMENT" else option
