"""`coreason chat`: one question to an agent, or a conversation."""

import logging
import random
import sys
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from ._logs import show_logs
from ._options import System, Verbose, reject_system, value_source
from ._question import TextArguments, question
from .exits import EXIT_CODES_HELP, ExitCode, Failure, exit_codes
from .output import print_stderr

if TYPE_CHECKING:
    from ._chat_service import ChatService

__all__ = ["chat"]

EPILOG = f"""\
\b
Examples:
  coreason chat "How do I resume a stream?"
  git diff | coreason chat "Explain this change:"
  coreason chat --url http://127.0.0.1:8000 --json "Hello" | jq .op
  coreason chat --chaos --seed 7 "What happens when the network fails?"
  coreason chat --chaos --kill "What happens when the agent dies?"
  coreason chat --llm gpt-4o --system "Answer in one sentence."

{EXIT_CODES_HELP}
"""


def chat(
    context: typer.Context,
    arguments: TextArguments = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="COREASON_URL",
            metavar="URL",
            help="URL of the agent service. Without it, the built-in agent runs in this process.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="COREASON_API_KEY",
            metavar="KEY",
            help="API key for --url.",
            show_default=False,
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Talk to a model instead; its key is read from the environment or .env.",
            show_default=False,
        ),
    ] = None,
    system: System = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="ID of the conversation to continue.", show_default="a new one"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the packets, one JSON object per line.")
    ] = False,
    chaos: Annotated[
        bool,
        typer.Option(
            "--chaos", help="Cut the connection repeatedly, and check that nothing gets lost."
        ),
    ] = False,
    kill: Annotated[
        bool,
        typer.Option(
            "--kill",
            help="With --chaos: also kill the process of the built-in agent or of --llm (SIGKILL), "
            "and start it again.",
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Random seed for the cuts of --chaos and the kills of --kill.",
            show_default="random, printed",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Time without data after which a connection counts as lost."
        ),
    ] = 60.0,
    max_retries: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Limit for reconnections in a row without a new packet.",
            show_default="3, but retry for at least 30 s once an answer has begun; 10 with --chaos",
        ),
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Ask an agent one question, or have a conversation.

    Without --url or --llm the agent is a built-in guide to this package, which works offline. The
    guide or the model is served on a local port and asked over real HTTP.
    """
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(verbose, default_level=logging.CRITICAL)
        _check_chaos(chaos=chaos, kill=kill, seed=seed)
        if conversation == "":
            raise Failure("--conversation must not be empty: omit it to start one", ExitCode.USAGE)
        url = _service_url(context, url, llm, system, kill=kill)
        interactive = not arguments and sys.stdin is not None and sys.stdin.isatty()
        text = None if interactive else question(arguments)
        names = {
            "base_url": value_source(context, "url", "--url", "COREASON_URL"),
            "api_key": value_source(context, "api_key", "--api-key", "COREASON_API_KEY"),
            "max_retries": "--max-retries",
            "timeout": "--timeout",
        }
        command = None if url is None else _command(names["base_url"], url)
        # The clients are loaded only now, so that `coreason --help` is quick.
        from ._chat_service import connect, serve_killable

        with ExitStack() as stack:
            name = url or llm or "the built-in guide"
            chaos_seed = _seed(seed, kill=kill) if chaos else None
            killer = None
            if kill and chaos_seed is not None:
                killer = stack.enter_context(
                    serve_killable(llm, system, seed=chaos_seed, verbose=verbose)
                )
                url, api_key = killer.url, killer.key
            elif url is None:
                url, api_key = stack.enter_context(_serve_locally(llm, system, as_json=as_json))
            service = stack.enter_context(
                connect(
                    url,
                    api_key,
                    seed=chaos_seed,
                    timeout=timeout,
                    max_retries=_retries(max_retries, chaos=chaos),
                    names=names,
                    killer=killer,
                )
            )
            _talk(service, name, text, conversation or str(uuid4()), command, as_json=as_json)


def _talk(
    service: "ChatService",
    name: str,
    text: str | None,
    session: str,
    command: list[str] | None,
    *,
    as_json: bool,
) -> None:
    """Ask one question, or have a conversation if there is none."""
    from ._answer import ServicePartner, ask
    from ._conversation import converse

    if text is None:
        converse(ServicePartner(service, session, command, as_json=as_json), name)
    else:
        ask(service, text, session, as_json=as_json)


def _command(source: str, url: str) -> list[str]:
    """Return the command that asks the same service; an environment variable need not be given."""
    return ["coreason", "chat", *(["--url", url] if source == "--url" else [])]


def _service_url(
    context: typer.Context, url: str | None, llm: str | None, system: str | None, *, kill: bool
) -> str | None:
    """Return the URL to ask; None for the built-in agent or a model.

    Raises:
        Failure: the options contradict each other.
    """
    source = value_source(context, "url", "--url", "COREASON_URL")
    if llm is None:
        reject_system(system)
        if kill and url is not None:
            raise Failure(
                f"--kill and {source} cannot be used together: only the built-in agent or a model "
                "of --llm runs in a process that this command may kill",
                ExitCode.USAGE,
            )
        return url
    if url is not None and source == "--url":
        raise Failure("--url and --llm cannot be used together: give one of them", ExitCode.USAGE)
    return None


def _serve_locally(
    llm: str | None, system: str | None, *, as_json: bool
) -> AbstractContextManager[tuple[str, str]]:
    from ._chat_service import serve_built_in, serve_model

    if llm is not None:
        return serve_model(llm, system)
    return serve_built_in(at_reading_speed=sys.stdout.isatty() and not as_json)


def _check_chaos(*, chaos: bool, kill: bool, seed: int | None) -> None:
    """Reject options that have no effect without --chaos.

    Raises:
        Failure: there is such an option.
    """
    for option, is_given in (("--seed", seed is not None), ("--kill", kill)):
        if is_given and not chaos:
            raise Failure(f"{option} needs --chaos", ExitCode.USAGE)


def _seed(given: int | None, *, kill: bool) -> int:
    if given is not None:
        return given
    drawn = random.randrange(10_000)
    repeated = "cuts and kills" if kill else "cuts"
    print_stderr(f"chaos: --seed {drawn} repeats the same {repeated}")
    return drawn


def _retries(given: int | None, *, chaos: bool) -> int | None:
    # A cut before the first packet of a connection counts as a retry without progress.
    return 10 if given is None and chaos else given
