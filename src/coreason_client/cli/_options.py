"""Options that several commands share."""

from collections.abc import Mapping
from typing import Annotated

import typer

from coreason_client import ArgumentError

from .exits import ExitCode, Failure

__all__ = [
    "Attach",
    "BaseUrl",
    "System",
    "Verbose",
    "is_from_environment",
    "reject_system",
    "usage_error",
    "value_source",
]

Attach = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        "-a",
        metavar="FILE|URL|-",
        help="File, URL, or stdin (-) to attach; repeatable.",
        show_default=False,
    ),
]

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Show logs on stderr; -vv includes those of libraries.",
    ),
]

BaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="LLM_API_BASE_URL",
        metavar="URL",
        help="Base URL of the API that the key is for.",
        show_default="the provider's",
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


def reject_system(system: str | None) -> None:
    """Reject a system prompt that is given without --llm.

    Raises:
        Failure: there is a system prompt.
    """
    if system is not None:
        raise Failure("--system needs --llm", ExitCode.USAGE)


def usage_error(error: ArgumentError, names: Mapping[str, str]) -> Failure:
    """Return a failure that names the option or environment variable of an invalid argument."""
    name = names.get(error.argument, error.argument)
    return Failure(str(error.renamed(name)), ExitCode.USAGE)


def is_from_environment(context: typer.Context, parameter: str) -> bool:
    """Return True if the value of a parameter is that of its environment variable."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "ENVIRONMENT"


def value_source(context: typer.Context, parameter: str, option: str, variable: str) -> str:
    """Return the source of a parameter's value: the option or the environment variable."""
    return variable if is_from_environment(context, parameter) else option
