"""`coreason chat`: ask an agent once, or talk to it."""

import logging
import random
import sys
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Annotated
from uuid import uuid4

import typer

from coreason_client import CAPError

from ._answer import ask
from ._logs import show_logs
from ._options import System, Verbose, check_system
from ._target import Target, built_in, connected, model
from .exits import EXIT_CODES_HELP, ExitCode, Failure, ending_well, say_error

__all__ = ["chat", "read_question"]

EPILOG = f"""\
\b
Examples:
  coreason chat "How do I resume a stream?"
  echo "What is a position?" | coreason chat
  coreason chat --url http://127.0.0.1:8000 --json "Hello" | jq .op
  coreason chat --chaos --seed 7 "What happens when the network fails?"
  coreason chat --llm gpt-4o --system "Answer in one sentence."

{EXIT_CODES_HELP}
"""

_PROMPT = "> "
_GREETING = "Talking to {}. /help lists the commands, Ctrl-D leaves."
_HELP = """\
/new    begin another conversation
/help   show this
/exit   leave, as Ctrl-D does
Ctrl-C  stops an answer"""


def chat(
    context: typer.Context,
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE",
            help="What to ask. Without it: a conversation in a terminal, else all of stdin.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="COREASON_URL",
            metavar="URL",
            help="The agent service. Without it the built-in agent is started in this process.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="COREASON_API_KEY",
            metavar="KEY",
            help="The key for --url.",
            show_default=False,
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Talk to a model instead; its key is in the environment or in .env.",
            show_default=False,
        ),
    ] = None,
    system: System = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Go on with a conversation, by its id.", show_default="a new one"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the packets, one JSON object per line.")
    ] = False,
    chaos: Annotated[
        bool,
        typer.Option("--chaos", help="Keep cutting the connection, and count what comes through."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Where --chaos cuts.", show_default="drawn anew, and printed"
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Seconds of silence after which a connection is lost."
        ),
    ] = 60.0,
    max_retries: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Reconnections in a row without a new packet.",
            show_default="3; 10 with --chaos",
        ),
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Ask an agent, once or in a conversation.

    Without --url and --llm the agent is a guide to this package, which works offline. It, or the
    model, is served and asked over real HTTP, on a port of this machine.
    """
    with ending_well():
        # An answer is not to be mixed with logs, unless somebody asks for them.
        show_logs(verbose, usual=logging.CRITICAL)
        if seed is not None and not chaos:
            raise Failure("--seed says where --chaos cuts: give both", ExitCode.USAGE)
        if conversation == "":
            raise Failure("--conversation is empty: leave it out to begin one", ExitCode.USAGE)
        url = _service(context, url, llm, system)
        talking = message is None and sys.stdin.isatty()
        question = message if talking or message is not None else read_question()
        with ExitStack() as stack:
            name = url or llm or "the built-in guide"
            if url is None:
                url, api_key = stack.enter_context(_own_agent(llm, system, as_json=as_json))
            target = stack.enter_context(
                connected(
                    url,
                    api_key,
                    seed=_seed(seed) if chaos else None,
                    timeout=timeout,
                    max_retries=_retries(max_retries, chaos=chaos),
                )
            )
            session = conversation or str(uuid4())
            if question is None:
                _aside(_GREETING.format(name))
                _converse(target, session, as_json=as_json)
            else:
                ask(target, question, session, as_json=as_json)


def _service(
    context: typer.Context, url: str | None, llm: str | None, system: str | None
) -> str | None:
    """Return the address to ask, None when it is an agent of our own.

    Raises:
        Failure: the options do not go together.
    """
    if llm is None:
        check_system(system)
        return url
    if url is not None and context.get_parameter_source("url").name != "ENVIRONMENT":  # type: ignore[union-attr]
        raise Failure("--url and --llm are two agents: give one of them", ExitCode.USAGE)
    return None


def _own_agent(
    llm: str | None, system: str | None, *, as_json: bool
) -> AbstractContextManager[tuple[str, str]]:
    if llm is not None:
        return model(llm, system)
    return built_in(watched=sys.stdout.isatty() and not as_json)


def _seed(given: int | None) -> int:
    if given is not None:
        return given
    drawn = random.randrange(10_000)
    _aside(f"chaos: --seed {drawn} cuts at these places again")
    return drawn


def _retries(given: int | None, *, chaos: bool) -> int:
    # Some cuts come before the first packet of a connection, which spends the budget.
    return (10 if chaos else 3) if given is None else given


def read_question() -> str:
    """Read all of stdin.

    Raises:
        Failure: there is nothing in it.
    """
    question = sys.stdin.read().strip()
    if not question:
        raise Failure(
            "there is nothing to ask: give a message, as an argument or on stdin", ExitCode.USAGE
        )
    return question


def _converse(target: Target, session: str, *, as_json: bool) -> None:
    """Ask until the user leaves; an answer that fails or is stopped is not the end."""
    _use_readline()
    while (line := _prompt()) is not None:
        if line == "/new":
            session = str(uuid4())
            _aside("A new conversation.")
        elif line == "/help":
            _aside(_HELP)
        elif line.startswith("/"):
            _aside(f"There is no command {line}; /help lists them.")
        elif line:
            try:
                ask(target, line, session, as_json=as_json)
            except KeyboardInterrupt:
                continue  # the answer was stopped, the conversation goes on
            except (CAPError, Failure) as error:
                say_error(error)


def _prompt() -> str | None:
    """Read a line; None when the user wants to leave."""
    try:
        if sys.stdout.isatty():
            line = input(f"\n{_PROMPT}").strip()
        else:
            # The prompt is no part of the output, which goes somewhere else.
            sys.stderr.write(f"\n{_PROMPT}")
            sys.stderr.flush()
            line = next(sys.stdin).strip()
    except (EOFError, StopIteration):
        sys.stderr.write("\n")
        return None
    return None if line in {"/exit", "/quit"} else line


def _use_readline() -> None:
    """Let the prompt have line editing and a history, where Python was built with them."""
    with suppress(ImportError):
        import readline  # noqa: F401


def _aside(sentence: str) -> None:
    """Say something that is no part of the answer."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
