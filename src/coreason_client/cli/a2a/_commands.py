"""The groups of `coreason a2a`, and what its commands share: options, files, running."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from coreason_client import CoreasonError

from .._logs import show_logs
from .._options import Verbose, is_from_environment
from ..exits import ExitCode, Failure, epilog, exit_codes
from ..profiles import complete_profile, looks_like_name
from ._agent import AgentOptions, agent_of_profile, parse_headers, redacting

# The A2A client is imported when a command runs, so that other commands start faster.
if TYPE_CHECKING:
    from coreason_client.a2a import A2AClient, Event

    from ._files import SavedFiles

    Operation: TypeAlias = Callable[[A2AClient], Iterable[Event]]

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="ID of the task.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print protocol JSON, one object per line.")]

_Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Base URL of the agent, URL of its card, or a profile.",
        autocompletion=complete_profile,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="COREASON_A2A_TOKEN",
        metavar="TOKEN",
        help="Bearer token, or another credential that the card requires.",
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="'NAME: VALUE'",
        help="Header for every request; its value is treated as a secret. Repeatable.",
    ),
]
_Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Limit for a call, and for the time between two events of a stream.",
        show_default="180 for a call, 60 for a stream, 30 for the card",
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--interface-origin",
        metavar="ORIGIN",
        help="Origin that the card may refer to, such as https://api.example; repeatable.",
    ),
]
Extensions = Annotated[
    list[str] | None,
    typer.Option(
        "--extension", metavar="URI", help="URI of a protocol extension to request; repeatable."
    ),
]
_OPTIONS: dict[str, tuple[Any, Any]] = {  # of every command: annotation and default
    "token": (Token, None),
    "headers": (Headers, None),
    "timeout": (_Timeout, None),
    "origins": (Origins, None),
    "extensions": (Extensions, None),
    "verbose": (Verbose, 0),
}

_Command = TypeVar("_Command", bound=Callable[..., None])


def agent_command(
    group: typer.Typer, examples: Sequence[str], *, without: Sequence[str] = ()
) -> Callable[[_Command], _Command]:
    """Register a function as a command; its docstring is the help.

    The first parameter of the function is an `AgentOptions`. The command has the argument URL and
    the options for it, except those in `without`, and all other parameters of the function.
    """

    def decorate(function: _Command) -> _Command:
        names = [name for name in _OPTIONS if name not in without]

        def command(context: typer.Context, **values: Any) -> None:
            with exit_codes():
                # Logs must not be mixed with the answer unless -v asks for them.
                show_logs(values.pop("verbose"))
                options = {name: values.pop(name, None) for name in _OPTIONS if name != "verbose"}
                agent = given_agent(context, values.pop("url"), **options)
                if looks_like_name([agent.url]):
                    agent = agent_of_profile(agent)
                with redacting(*agent.secrets), _naming_token():
                    function(agent, **values)

        parameters = _parameters(function, names)
        command.__doc__ = function.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        name = function.__name__.rstrip("_")
        group.command(name, epilog=epilog(*examples))(command)
        return function

    return decorate


@contextmanager
def _naming_token() -> Iterator[None]:
    """Add to a 401 how to set the token."""
    try:
        yield
    except CoreasonError as error:
        if getattr(error, "status", None) != 401:
            raise
        advice = "set the token of the agent with --token or COREASON_A2A_TOKEN"
        raise Failure(f"{error}: {advice}") from None


def _parameters(function: Callable[..., None], names: Sequence[str]) -> list[inspect.Parameter]:
    """Return the parameters of a command, in the order of its arguments."""
    _, *own = inspect.signature(function).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("url", keyword, annotation=_Url),
        *(one.replace(kind=keyword) for one in own),
        *(
            inspect.Parameter(
                name, keyword, annotation=_OPTIONS[name][0], default=_OPTIONS[name][1]
            )
            for name in names
        ),
    ]


def given_agent(
    context: typer.Context, url: str, headers: Any, origins: Any, extensions: Any, **others: Any
) -> AgentOptions:
    """Return the options to reach an agent, as they are given.

    Raises:
        ArgumentError: an option is invalid; the message contains no secret.
    """
    return AgentOptions(
        url,
        headers=parse_headers(headers or ()),
        origins=tuple(origins or ()),
        extensions=tuple(extensions or ()),
        token_from_option=not is_from_environment(context, "token"),
        **others,
    )


# The groups

EXAMPLES = (
    "coreason a2a card https://agent.example",
    'coreason a2a stream https://agent.example "What is the weather in Rome?"',
    "coreason a2a chat https://agent.example",
    "coreason a2a list https://agent.example --state input-required",
    "coreason a2a push add https://agent.example 6f1d https://me.example/hook",
)
TASK_EXAMPLES = (
    "coreason a2a task get https://agent.example 6f1d",
    "coreason a2a task watch https://agent.example 6f1d",
    "coreason a2a task cancel https://agent.example 6f1d",
)
PUSH_EXAMPLES = (
    "coreason a2a push add https://agent.example 6f1d https://me.example/hook",
    "coreason a2a push list https://agent.example 6f1d",
    "coreason a2a push remove https://agent.example 6f1d 77aa",
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(*EXAMPLES),
    help="Talk to agents that use the A2A protocol, version 0.3 or 1.0.",
)
task = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(*TASK_EXAMPLES),
    help="Show, cancel or watch a task of an agent.",
)

push = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(*PUSH_EXAMPLES),
    help="Add, list or remove the webhooks of a task.",
)
app.add_typer(task, name="task")
app.add_typer(push, name="push")


# Commands that show an answer


Save = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for the files of the answer.")
]
Force = Annotated[bool, typer.Option("--force", help="With --save: replace existing files.")]


def saved_files(folder: Path | None, *, force: bool) -> "SavedFiles | None":
    """Return the store for the files of an answer, None without --save.

    Raises:
        Failure: the folder cannot be created, or --force is given without it.
    """
    from ._files import SavedFiles

    if folder is not None:
        return SavedFiles(folder, overwrite=force)
    if force:
        raise Failure("--force needs --save", ExitCode.USAGE)
    return None


def run(
    agent: AgentOptions,
    operation: "Operation",
    verb: str,
    files: "SavedFiles | None",
    *,
    as_json: bool,
) -> None:
    """Run an operation, show its events, and fail if its task fails.

    `verb` is the command that answers the task if it needs an answer.
    """
    from ._connect import connect
    from ._show import AnswerView

    with connect(agent) as client:
        view = AnswerView(agent, as_json=as_json, files=files)
        try:
            view.show(operation(client))
        except KeyboardInterrupt:
            view.print_next_step(verb)
            raise
    view.raise_if_failed()
    view.print_next_step(verb)
