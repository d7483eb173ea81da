"""Options that several commands share, and what they mean."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Annotated, Any

import typer

from coreason_client import ArgumentError

from .exits import ExitCode, Failure

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)", re.ASCII)


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration: seconds, or a number with a unit, as 90, 15m or 7d.

    Raises:
        typer.BadParameter: it is not a duration.
    """
    match = _DURATION.fullmatch(str(text))
    if match is None:
        raise typer.BadParameter(
            f"must be seconds, or a number with s, m, h or d, such as 90, 15m or 7d; got {text!r}"
        )
    return float(match[1]) * _UNITS[match[2]]


Attach = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        "-a",
        metavar="FILE|URL|-",
        help="File, URL, or stdin (-) to attach; repeatable.",
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

System = Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt for --llm.")]


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


def option(*names: str, default: Any = None, secret: bool = False, **about: Any) -> Any:
    """Return the field of an option, for `set_parameters`; `about` is what Typer is told of it."""
    about.setdefault("show_default", default is not None)
    parameter = typer.Option(default, *names, **about)
    return field(default=default, repr=not secret, metadata={"parameter": parameter})


def flag(*names: str, **about: Any) -> Any:
    """Return the field of an option that has no value, as `option`."""
    return option(*names, default=False, **about)


def argument(**about: Any) -> Any:
    """Return the field of an argument that can be left out, as `option`."""
    return field(default=None, metadata={"parameter": typer.Argument(None, **about)})


def set_parameters(command: Callable[..., None], options: type) -> None:
    """Give a command the context and the fields of a dataclass as its parameters.

    A field is an `option` or an `argument`, or its type is an `Annotated` of Typer.
    """
    parameters: list[tuple[str, Any, Any]] = [("context", typer.Context, inspect.Parameter.empty)]
    parameters += [
        (one.name, one.type, one.metadata.get("parameter", one.default)) for one in fields(options)
    ]
    command.__annotations__ = {name: kind for name, kind, _ in parameters}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
            )
            for name, kind, default in parameters
        ]
    )


def is_given(context: typer.Context, parameter: str) -> bool:
    """Return True if an option is on the command line."""
    return _source(context, parameter) == "COMMANDLINE"


def is_from_environment(context: typer.Context, parameter: str) -> bool:
    """Return True if the value of a parameter is that of its environment variable."""
    return _source(context, parameter) == "ENVIRONMENT"


def _source(context: typer.Context, parameter: str) -> str | None:
    return getattr(context.get_parameter_source(parameter), "name", None)
