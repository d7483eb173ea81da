"""`coreason chat`: ask an agent once, or talk to it."""

import logging
import random
import sys
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated
from uuid import uuid4

import typer

from ._answer import ask
from ._chat_service import built_in, connected, model
from ._conversation import converse
from ._logs import show_logs
from ._options import System, Verbose, check_system, given_as
from ._question import Words, question
from .exits import EXIT_CODES_HELP, ExitCode, Failure, ending_well
from .output import note

__all__ = ["chat"]

EPILOG = f"""\
\b
Examples:
  coreason chat "How do I resume a stream?"
  git diff | coreason chat "Explain this change:"
  coreason chat --url http://127.0.0.1:8000 --json "Hello" | jq .op
  coreason chat --chaos --seed 7 "What happens when the network fails?"
  coreason chat --llm gpt-4o --system "Answer in one sentence."

{EXIT_CODES_HELP}
"""


def chat(
    context: typer.Context,
    words: Words = None,
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
            show_default="3, and for at least 30 s once an answer has begun; 10 with --chaos",
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
        talking = not words and sys.stdin is not None and sys.stdin.isatty()
        asked = None if talking else question(words)
        names = {
            "base_url": given_as(context, "url", "--url", "COREASON_URL"),
            "api_key": given_as(context, "api_key", "--api-key", "COREASON_API_KEY"),
            "max_retries": "--max-retries",
            "timeout": "--timeout",
        }
        command = None if url is None else _command(names["base_url"], url)
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
                    names=names,
                )
            )
            session = conversation or str(uuid4())
            if asked is None:
                converse(target, session, name, as_json=as_json, command=command)
            else:
                ask(target, asked, session, as_json=as_json)


def _command(name: str, url: str) -> list[str]:
    """Return the command for the same service; a variable of the environment is still there."""
    return ["coreason", "chat", *(["--url", url] if name == "--url" else [])]


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
    if url is not None and given_as(context, "url", "--url", "COREASON_URL") == "--url":
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
    note(f"chaos: --seed {drawn} cuts at these places again")
    return drawn


def _retries(given: int | None, *, chaos: bool) -> int | None:
    # Some cuts come before the first packet of a connection, which spends the budget.
    return 10 if given is None and chaos else given
