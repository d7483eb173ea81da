"""`coreason chat`: one question to an agent, or a conversation."""

import logging
import random
import sys
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from .._logs import show_logs
from .._options import Attach, System, Verbose, is_from_environment
from .._question import question
from ..exits import EXIT_CODES_HINT, ExitCode, Failure, exit_codes
from ..llm import complete_model
from ..output import print_dimmed, print_stderr
from ..profiles import (
    complete_profile,
    complete_profile_word,
    load_profiles,
    looks_like_name,
    profile_key,
    split_profile,
)
from ._settings import ChatSettings, Options, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._attached import Attached
    from ._service import ChatService

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
  coreason chat -a report.pdf "Summarise this."
  coreason chat prod "Hello"

A first word that is the name of a profile selects it; coreason profiles lists them.

{EXIT_CODES_HINT}
"""


def chat(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROFILE] [TEXT] [-]",
            help="The name of a profile; the question; piped text is appended. - reads all of "
            "stdin.",
            show_default=False,
            autocompletion=complete_profile_word,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Profile with the settings of an agent or a model.",
            show_default=False,
            autocompletion=complete_profile,
        ),
    ] = None,
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
            autocompletion=complete_model,
        ),
    ] = None,
    system: System = None,
    attach: Attach = None,
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
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time without data after which a connection counts as lost.",
            show_default="60",
        ),
    ] = None,
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
        name, texts = split_profile(arguments or (), profile, lambda: load_profiles().tables)
        to_guide = name is None and url is None and llm is None
        if to_guide and len(texts) == 1 and looks_like_name(texts) and load_profiles().tables:
            print_dimmed(f"There is no profile {texts[0]!r}: it is asked as a question.")
        settings = resolve(
            Options(
                **_by_source(context, "url", url),
                **_by_source(context, "api_key", api_key),
                llm=llm,
                system=system,
                timeout=timeout,
                max_retries=max_retries,
            ),
            None if name is None else load_profiles().get(name),
            profile_key,
        )
        _check_kill(settings, kill=kill)
        # The clients are loaded only now, so that `coreason --help` is quick.
        from .._attached import read_attached
        from ._service import connect, serve_killable

        attached = read_attached(attach or ())
        text = _text(texts, attach or ())
        with ExitStack() as stack:
            chaos_seed = _seed(seed, kill=kill) if chaos else None
            killer = None
            service_url, key = settings.url, settings.api_key
            if kill and chaos_seed is not None:
                killer = stack.enter_context(
                    serve_killable(settings.llm, settings.system, seed=chaos_seed, verbose=verbose)
                )
                service_url, key = killer.url, killer.key
            elif service_url is None:
                service_url, key = stack.enter_context(_serve_locally(settings, as_json=as_json))
            service = stack.enter_context(
                connect(
                    service_url,
                    key,
                    seed=chaos_seed,
                    timeout=settings.timeout,
                    max_retries=_retries(settings.max_retries, chaos=chaos),
                    names=settings.names,
                    killer=killer,
                )
            )
            _talk(service, settings, text, attached, conversation, as_json=as_json)


def _by_source(context: typer.Context, name: str, value: str | None) -> dict[str, str | None]:
    """Return the value under the name of an option, or under that of an environment variable."""
    return {f"env_{name}" if is_from_environment(context, name) else name: value}


def _text(texts: list[str], attach: "Sequence[str]") -> str | None:
    """Return the question, None for a conversation."""
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not texts and at_terminal and "-" not in attach:
        return None
    return question(texts, optional=bool(attach), stdin_is_used="-" in attach)


def _talk(
    service: "ChatService",
    settings: ChatSettings,
    text: str | None,
    attached: "Sequence[Attached]",
    conversation: str | None,
    *,
    as_json: bool,
) -> None:
    """Ask one question, or have a conversation if there is none."""
    from .._conversation import converse
    from ._answer import ServicePartner, ask, chat_message

    session = conversation or str(uuid4())
    if text is not None:
        ask(service, chat_message(text, attached), session, as_json=as_json)
        return
    for one in attached:
        chat_message("", [one])  # an unknown type is reported before the conversation begins
    partner = ServicePartner(
        service, session, settings.command, as_json=as_json, known=conversation is not None
    )
    name = settings.url or settings.llm or "the built-in guide"
    converse(partner, name, as_json=as_json, attached=attached)


def _check_kill(settings: ChatSettings, *, kill: bool) -> None:
    """Reject --kill for an agent that runs elsewhere.

    Raises:
        Failure: there is a URL.
    """
    if kill and settings.url is not None:
        raise Failure(
            f"--kill and {settings.names['base_url']} cannot be used together: only the built-in "
            "agent or a model of --llm runs in a process that this command may kill",
            ExitCode.USAGE,
        )


def _serve_locally(
    settings: ChatSettings, *, as_json: bool
) -> AbstractContextManager[tuple[str, str]]:
    from ._service import serve_built_in, serve_model

    if settings.llm is not None:
        return serve_model(settings.llm, settings.system)
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
