"""`coreason a2a`: cards, messages and tasks of agents that use the A2A protocol."""

import logging
import shlex
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit

import typer

from coreason_client import ArgumentError

from ._logs import show_logs
from ._options import Verbose, usage_error
from ._question import TextArguments, question
from .exits import EXIT_CODES_HELP, ExitCode, Failure, exit_codes
from .output import open_output, print_stderr

# The A2A client is imported when a command runs, so that other commands start faster.
if TYPE_CHECKING:
    from coreason_client.a2a import A2AClient, AgentCard, Event, Options

    from ._events import EventPresenter

    Operation: TypeAlias = Callable[[A2AClient, str], Generator[Event]]

__all__ = ["app"]

_EPILOG = f"""\
\b
Examples:
  coreason a2a card https://agent.example
  coreason a2a stream https://agent.example "What is the weather in Rome?"
  coreason a2a send https://agent.example --json "Hello" | jq .task.status
  coreason a2a task watch https://agent.example 6f1d

{EXIT_CODES_HELP}
"""
_CARD_TIMEOUT = 30.0

Url = Annotated[
    str, typer.Argument(metavar="URL", help="Base URL of the agent, or URL of its card.")
]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="ID of the task.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print protocol JSON, one object per line.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="COREASON_A2A_TOKEN",
        metavar="TOKEN",
        help="Bearer token, or another credential that the card requires.",
        show_default=False,
    ),
]
Timeout = Annotated[
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
        show_default=False,
    ),
]
Extensions = Annotated[
    list[str] | None,
    typer.Option(
        "--extension",
        metavar="URI",
        help="URI of a protocol extension to request; repeatable.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class _Agent:
    """The options that all commands use to reach an agent."""

    url: str
    token: str | None
    timeout: float | None
    origins: list[str] | None = None
    extensions: list[str] | None = None


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=_EPILOG,
    help="Talk to agents that use the A2A protocol, version 0.3 or 1.0.",
)
task = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=_EPILOG,
    help="Show, cancel or watch a task of an agent.",
)
app.add_typer(task, name="task")


@app.command(epilog=_EPILOG)
def card(
    url: Url,
    as_json: AsJson = False,
    token: Token = None,
    timeout: Timeout = None,
    verbose: Verbose = 0,
) -> None:
    """Show the card of an agent: its name, skills and interfaces."""
    with exit_codes():
        show_logs(verbose, default_level=logging.CRITICAL)
        _check_options(token, timeout)
        from ._events import show_card

        show_card(_fetch_card(url, token, timeout), as_json=as_json)


def _message_command(operation: "Operation") -> "Operation":
    """Register an operation on a message as a command; its docstring is the help."""

    @app.command(operation.__name__, help=operation.__doc__, epilog=_EPILOG)
    def command(
        url: Url,
        arguments: TextArguments = None,
        as_json: AsJson = False,
        token: Token = None,
        timeout: Timeout = None,
        origins: Origins = None,
        extensions: Extensions = None,
        verbose: Verbose = 0,
    ) -> None:
        agent = _Agent(url, token, timeout, origins, extensions)
        _run(
            operation,
            agent,
            lambda: question(arguments),
            verbose,
            as_json=as_json,
            tracks_task=True,
        )

    return operation


def _task_command(*, tracks_task: bool) -> "Callable[[Operation], Operation]":
    """Register an operation on a task as a command; its docstring is the help."""

    def decorate(operation: "Operation") -> "Operation":
        @task.command(operation.__name__, help=operation.__doc__, epilog=_EPILOG)
        def command(
            url: Url,
            task_id: TaskId,
            as_json: AsJson = False,
            token: Token = None,
            timeout: Timeout = None,
            origins: Origins = None,
            extensions: Extensions = None,
            verbose: Verbose = 0,
        ) -> None:
            agent = _Agent(url, token, timeout, origins, extensions)
            _run(
                operation, agent, lambda: task_id, verbose, as_json=as_json, tracks_task=tracks_task
            )

        return operation

    return decorate


@_message_command
def send(client: "A2AClient", text: str) -> "Generator[Event]":
    """Send a message and show the complete answer."""
    yield client.send_message(text)


@_message_command
def stream(client: "A2AClient", text: str) -> "Generator[Event]":
    """Send a message and show the answer as it arrives.

    A lost connection is replaced, and the stream continues without loss.
    """
    with client.send_message_stream(text) as events:
        yield from events


@_task_command(tracks_task=False)
def get(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Show the state of a task.

    The exit code is 0 whatever the state is.
    """
    yield client.get_task(task_id)


@_task_command(tracks_task=False)
def cancel(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Cancel a task and show its new state."""
    yield client.cancel_task(task_id)


@_task_command(tracks_task=True)
def watch(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Show a task and follow it until it ends.

    Also stops when the task needs an answer. What it has produced so far is presenter first.
    """
    with client.resubscribe(task_id) as events:
        yield from events


def _run(
    operation: "Operation",
    agent: _Agent,
    read_text: Callable[[], str],
    verbose: int,
    *,
    as_json: bool,
    tracks_task: bool,
) -> None:
    """Run an operation and show its events.

    `read_text` returns the message or the task id. With `tracks_task`, the command follows the
    task and fails if the task fails.
    """
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(verbose, default_level=logging.CRITICAL)
        _check_options(agent.token, agent.timeout)
        text = _encodable(read_text())
        from ._events import EventPresenter

        with _connect(agent) as client:
            presenter = EventPresenter(open_output(as_json=as_json), tracks_task=tracks_task)
            try:
                _show(operation(client, text), presenter)
            except KeyboardInterrupt:
                _print_watch_command(agent.url, presenter)
                raise
        if tracks_task:
            _raise_if_failed(presenter)
            _print_watch_command(agent.url, presenter)


def _show(events: "Generator[Event]", presenter: "EventPresenter") -> None:
    from coreason_client.a2a import A2AJSONRPCError

    try:
        with closing(events), presenter:
            for event in events:
                presenter.show(event)
    except A2AJSONRPCError as error:
        message = error.message.strip() or "an error without a message"
        raise Failure(f"the agent answered: {message} ({error.code})") from None


def _connect(agent: _Agent) -> "A2AClient":
    """Create a client from the card, like `A2AClient.connect` but with a timeout for the card."""
    from coreason_client.a2a import A2AClient, A2AOriginError, ExtensionSupportRequiredError

    card = _fetch_card(agent.url, agent.token, agent.timeout)
    try:
        for interface in card.supported_interfaces:
            urlsplit(interface.url)
        return A2AClient.from_agent_card(card, **_client_options(agent))
    except A2AOriginError as error:
        options = " ".join(f"--interface-origin {origin}" for origin in error.found)
        message = (
            f"the card of {card.name!r} refers to an origin other than {error.named}, or from https"
            f" to http; your token would be sent there. To allow it, add {options}"
        )
        raise Failure(message, ExitCode.PROTOCOL) from None
    except ExtensionSupportRequiredError as error:
        options = " ".join(f"--extension {uri}" for uri in (error.data or {}).get("extensions", ()))
        message = f"the card of {card.name!r} requires extensions: add {options}"
        raise Failure(message, ExitCode.PROTOCOL) from None
    except ValueError as error:
        message = f"the card of {card.name!r} cannot be used: {error}"
        raise Failure(message, ExitCode.PROTOCOL) from None


def _client_options(agent: _Agent) -> "Options":
    options: Options = {"auth": agent.token}
    if agent.timeout is not None:
        options |= {"timeout": agent.timeout, "stream_timeout": agent.timeout}
    if agent.origins:
        options["interface_origins"] = agent.origins
    if agent.extensions:
        options["extensions"] = agent.extensions
    return options


def _fetch_card(url: str, token: str | None, timeout: float | None) -> "AgentCard":
    from coreason_client.a2a import AgentCardResolver

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with AgentCardResolver(headers=headers, timeout=timeout or _CARD_TIMEOUT) as resolver:
        try:
            return resolver.resolve(url)
        except ArgumentError as error:
            raise usage_error(error, {"base_url": "URL"}) from None


def _check_options(token: str | None, timeout: float | None) -> None:
    """Reject invalid options before any request is sent."""
    if token is not None and (
        not token.isascii() or not token.isprintable() or token != token.strip() or not token
    ):
        raise ArgumentError("--token", "must be printable ASCII without spaces around it")
    if timeout is not None and not timeout > 0:
        raise ArgumentError("--timeout", "must be greater than 0", timeout)


def _encodable(text: str) -> str:
    """Return an argument that JSON can encode, also if its bytes were not UTF-8."""
    if not text:
        raise ArgumentError("ID", "must not be empty")
    return text.encode("utf-8", "replace").decode()


def _raise_if_failed(presenter: "EventPresenter") -> None:
    """Raise a Failure if the task ended in a failure."""
    from coreason_client.a2a import TaskState

    failed = {
        TaskState.FAILED: "the task failed",
        TaskState.REJECTED: "the agent rejected the task",
        TaskState.CANCELED: "the task was canceled",
    }
    status = presenter.status
    if status is not None and isinstance(status.state, TaskState) and status.state in failed:
        message = failed[status.state]
        raise Failure(f"{message}: {status.text}" if status.text else message)


def _print_watch_command(url: str, presenter: "EventPresenter") -> None:
    status = presenter.status
    ended = status is not None and (status.is_terminal or status.is_interrupted)
    if presenter.task_id is None or ended:
        return
    command = shlex.join(["coreason", "a2a", "task", "watch", url, presenter.task_id])
    with suppress(OSError):
        print_stderr(f"the task has not ended; to watch it: {command}")
