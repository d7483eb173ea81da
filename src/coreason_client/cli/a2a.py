"""`coreason a2a`: the card, the answers and the tasks of an agent that speaks A2A."""

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
from ._options import Verbose, wrong_usage
from ._question import Words, question
from .exits import EXIT_CODES_HELP, ExitCode, Failure, ending_well
from .output import note, open_output

# What speaks the protocol is loaded by the commands of this file only, when they run.
if TYPE_CHECKING:
    from coreason_client.a2a import A2AClient, AgentCard, Event, Options

    from ._events import EventPresenter

    Job: TypeAlias = Callable[[A2AClient, str], Generator[Event]]

__all__ = ["app"]

_EPILOG = f"""\
\b
Examples:
  coreason a2a card https://agent.example
  coreason a2a stream https://agent.example "What is the weather in Rome?"
  coreason a2a stream https://agent.example --json "Hello" | jq -c .artifactUpdate
  coreason a2a task watch https://agent.example 6f1d

{EXIT_CODES_HELP}
"""
_CARD_TIMEOUT = 30.0

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The agent's base address, or that of its card.")
]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the protocol's JSON, one object per line.")
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="COREASON_A2A_TOKEN",
        metavar="TOKEN",
        help="A bearer token, or whatever credential the card asks for.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="The limit of a call, and of the silence in a stream.",
        show_default="180 and 60",
    ),
]

Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--interface-origin",
        metavar="ORIGIN",
        help="An origin, such as https://api.example, that the card may lead to; repeatable.",
        show_default=False,
    ),
]
Extensions = Annotated[
    list[str] | None,
    typer.Option(
        "--extension",
        metavar="URI",
        help="An extension of the protocol to ask for; repeatable.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class _Agent:
    """How to reach an agent: the options that all commands share."""

    url: str
    token: str | None
    timeout: float | None
    origins: list[str] | None = None
    extensions: list[str] | None = None


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=_EPILOG,
    help="Talk to agents that speak A2A, in either version of the protocol.",
)
task = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=_EPILOG,
    help="See, cancel or watch a task of an agent.",
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
    """Show what an agent says about itself."""
    with ending_well():
        show_logs(verbose, usual=logging.CRITICAL)
        _check(token, timeout)
        from ._events import show_card

        show_card(_card(url, token, timeout), as_json=as_json)


def _message_command(job: "Job") -> "Job":
    """Make a command of a job whose text is a message; its docstring is the help."""

    @app.command(job.__name__, help=job.__doc__, epilog=_EPILOG)
    def command(
        url: Url,
        words: Words = None,
        as_json: AsJson = False,
        token: Token = None,
        timeout: Timeout = None,
        origins: Origins = None,
        extensions: Extensions = None,
        verbose: Verbose = 0,
    ) -> None:
        agent = _Agent(url, token, timeout, origins, extensions)
        _run(job, agent, lambda: question(words), verbose, as_json=as_json, follows=True)

    return job


def _task_command(*, follows: bool) -> "Callable[[Job], Job]":
    """Make a command of a job whose text is the id of a task; its docstring is the help."""

    def decorate(job: "Job") -> "Job":
        @task.command(job.__name__, help=job.__doc__, epilog=_EPILOG)
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
            _run(job, agent, lambda: task_id, verbose, as_json=as_json, follows=follows)

        return job

    return decorate


@_message_command
def send(client: "A2AClient", text: str) -> "Generator[Event]":
    """Send a message and show the answer when it is complete."""
    yield client.send_message(text)


@_message_command
def stream(client: "A2AClient", text: str) -> "Generator[Event]":
    """Send a message and show the answer as it comes; lost connections are made again."""
    with client.send_message_stream(text) as events:
        yield from events


@_task_command(follows=False)
def get(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Show how a task stands; however that is, the exit code is 0."""
    yield client.get_task(task_id)


@_task_command(follows=False)
def cancel(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Cancel a task, and show how it stands then."""
    yield client.cancel_task(task_id)


@_task_command(follows=True)
def watch(client: "A2AClient", task_id: str) -> "Generator[Event]":
    """Show a task so far, and what it does until it is over or needs an answer."""
    with client.resubscribe(task_id) as events:
        yield from events


def _run(
    job: "Job",
    agent: _Agent,
    said: Callable[[], str],
    verbose: int,
    *,
    as_json: bool,
    follows: bool,
) -> None:
    """Run a job and show its events.

    `said` gives its text or id; `follows`: the end of the task is the end of the command.
    """
    with ending_well():
        # An answer is not to be mixed with logs, unless somebody asks for them.
        show_logs(verbose, usual=logging.CRITICAL)
        _check(agent.token, agent.timeout)
        text = _sendable(said())
        from ._events import EventPresenter

        with _connected(agent) as client:
            shown = EventPresenter(open_output(as_json=as_json), follows=follows)
            try:
                _show(job(client, text), shown)
            except KeyboardInterrupt:
                _tell_that_it_goes_on(agent.url, shown)
                raise
        if follows:
            _judge(shown)
            _tell_that_it_goes_on(agent.url, shown)


def _show(events: "Generator[Event]", shown: "EventPresenter") -> None:
    from coreason_client.a2a import A2AJSONRPCError

    try:
        with closing(events), shown:
            for event in events:
                shown.show(event)
    except A2AJSONRPCError as error:
        words = error.message.strip() or "an error without words"
        raise Failure(f"the agent answered: {words} ({error.code})") from None


def _connected(agent: _Agent) -> "A2AClient":
    """Make a client from the card, as `A2AClient.connect` does, within the limit for it too."""
    from coreason_client.a2a import A2AClient, A2AOriginError, ExtensionSupportRequiredError

    found = _card(agent.url, agent.token, agent.timeout)
    try:
        for interface in found.supported_interfaces:
            urlsplit(interface.url)
        return A2AClient.from_agent_card(found, **_options(agent))
    except A2AOriginError as error:
        places = " ".join(f"--interface-origin {origin}" for origin in error.found)
        sentence = (
            f"the card of {found.name!r} leads to another origin than {error.named}, which would"
            f" get your token, or an https address to http; to allow it, add {places}"
        )
        raise Failure(sentence, ExitCode.PROTOCOL) from None
    except ExtensionSupportRequiredError as error:
        needed = " ".join(f"--extension {uri}" for uri in (error.data or {}).get("extensions", ()))
        sentence = f"the card of {found.name!r} requires extensions: add {needed}"
        raise Failure(sentence, ExitCode.PROTOCOL) from None
    except ValueError as error:
        sentence = f"the card of {found.name!r} cannot be used: {error}"
        raise Failure(sentence, ExitCode.PROTOCOL) from None


def _options(agent: _Agent) -> "Options":
    options: Options = {"auth": agent.token}
    if agent.timeout is not None:
        options |= {"timeout": agent.timeout, "stream_timeout": agent.timeout}
    if agent.origins:
        options["interface_origins"] = agent.origins
    if agent.extensions:
        options["extensions"] = agent.extensions
    return options


def _card(url: str, token: str | None, timeout: float | None) -> "AgentCard":
    from coreason_client.a2a import AgentCardResolver

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with AgentCardResolver(headers=headers, timeout=timeout or _CARD_TIMEOUT) as resolver:
        try:
            return resolver.resolve(url)
        except ArgumentError as error:
            raise wrong_usage(error, {"base_url": "URL"}) from None


def _check(token: str | None, timeout: float | None) -> None:
    """Refuse what cannot work before anybody is asked anything."""
    if token is not None and (
        not token.isascii() or not token.isprintable() or token != token.strip() or not token
    ):
        raise ArgumentError("--token", "must be printable ASCII without spaces around it")
    if timeout is not None and not timeout > 0:
        raise ArgumentError("--timeout", "must be greater than 0", timeout)


def _sendable(text: str) -> str:
    """Return an argument as it can go into JSON, also where its bytes were no UTF-8."""
    if not text:
        raise ArgumentError("ID", "must not be empty")
    return text.encode("utf-8", "replace").decode()


def _judge(shown: "EventPresenter") -> None:
    """Raise what the last state of a task means for the command."""
    from coreason_client.a2a import TaskState

    bad = {
        TaskState.FAILED: "the task failed",
        TaskState.REJECTED: "the agent rejected the task",
        TaskState.CANCELED: "the task was canceled",
    }
    status = shown.status
    if status is not None and isinstance(status.state, TaskState) and status.state in bad:
        words = bad[status.state]
        raise Failure(f"{words}: {status.text}" if status.text else words)


def _tell_that_it_goes_on(url: str, shown: "EventPresenter") -> None:
    status = shown.status
    over = status is not None and (status.is_terminal or status.is_interrupted)
    if shown.task_id is None or over:
        return
    command = shlex.join(["coreason", "a2a", "task", "watch", url, shown.task_id])
    with suppress(OSError):
        note(f"the task goes on: {command}")
