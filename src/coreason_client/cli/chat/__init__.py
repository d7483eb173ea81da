"""`coreason chat`: one question to an agent, or a conversation."""

import random
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import typer

from .._logs import show_logs
from .._options import is_from_environment, set_parameters
from .._question import question
from ..exits import ExitCode, Failure, epilog, exit_codes
from ..output import print_dimmed, print_stderr
from ..profiles import load_profiles, looks_like_name, profile_key, split_profile
from ._settings import ChatOptions, ChatSettings, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._attached import Attached
    from ._service import ChatService

__all__ = ["chat"]

EPILOG = epilog(
    'coreason chat "How do I resume a stream?"',
    'git diff | coreason chat "Explain this change:"',
    'coreason chat --url http://127.0.0.1:8000 --json "Hello" | jq .op',
    'coreason chat --chaos --seed 7 "What happens when the network fails?"',
    'coreason chat --chaos --kill "What happens when the agent dies?"',
    'coreason chat --llm gpt-4o --system "Answer in one sentence."',
    'coreason chat -a report.pdf "Summarise this."',
    "coreason chat --url http://127.0.0.1:8000 --conversation team --follow",
    'coreason chat prod "Hello"',
    about="A first word that is the name of a profile selects it; coreason profiles lists them.",
)


def chat(context: typer.Context, **values: Any) -> None:
    """Ask an agent one question, or have a conversation.

    Without --url or --llm the agent is a built-in guide to this package, which works offline. The
    guide or the model is served on a local port and asked over real HTTP.
    """
    options = ChatOptions(**values)
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(options.verbose)
        _check_chaos(options)
        _check_follow(options)
        if options.conversation == "":
            raise Failure("--conversation must not be empty: omit it to start one", ExitCode.USAGE)
        settings, texts = _resolve_settings(context, options)
        # The clients are loaded only now, so that `coreason --help` is quick.
        from .._attached import read_attached

        attached = read_attached(options.attach or ())
        if options.follow and texts:
            raise Failure("--follow asks nothing: omit the text", ExitCode.USAGE)
        text = None if options.follow else _text(texts, options.attach or ())
        with _open_service(options, settings) as service:
            _talk(service, settings, text, attached, options)


set_parameters(chat, ChatOptions)


def _resolve_settings(
    context: typer.Context, options: ChatOptions
) -> tuple[ChatSettings, list[str]]:
    """Return the settings, and the arguments that are the question.

    Raises:
        Failure: the options contradict each other, or there is no such profile.
    """
    name, texts = split_profile(
        options.arguments or (), options.profile, lambda: load_profiles().tables
    )
    to_guide = name is None and options.url is None and options.llm is None
    if to_guide and len(texts) == 1 and looks_like_name(texts) and load_profiles().tables:
        print_dimmed(f"There is no profile {texts[0]!r}: it is asked as a question.")
    env = {
        one: getattr(options, one)
        for one in ("url", "api_key")
        if is_from_environment(context, one)
    }
    profile = None if name is None else load_profiles().get(name)
    not_given: dict[str, Any] = dict.fromkeys(env)
    settings = resolve(replace(options, **not_given), env, profile, profile_key)
    if options.kill and settings.url is not None:
        raise Failure(
            f"--kill and {settings.names['base_url']} cannot be used together: only the built-in "
            "agent or a model of --llm runs in a process that this command may kill",
            ExitCode.USAGE,
        )
    return settings, texts


@contextmanager
def _open_service(options: ChatOptions, settings: ChatSettings) -> "Iterator[ChatService]":
    """Connect to the service; without a URL it is started first, and stopped at the end."""
    from ._service import connect, serve_agent, serve_killable

    with ExitStack() as stack:
        seed = _seed(options) if options.chaos else None
        killer = None
        url, key = settings.url, settings.api_key
        if options.kill and seed is not None:
            killer = stack.enter_context(
                serve_killable(settings.llm, settings.system, seed=seed, verbose=options.verbose)
            )
            url, key = killer.url, killer.key
        elif url is None:
            at_reading_speed = sys.stdout.isatty() and not options.as_json
            url, key = stack.enter_context(
                serve_agent(settings.llm, settings.system, at_reading_speed=at_reading_speed)
            )
        # A cut before the first packet of a connection counts as a retry without progress.
        retries = 10 if settings.max_retries is None and options.chaos else settings.max_retries
        yield stack.enter_context(
            connect(
                url,
                key,
                seed=seed,
                timeout=settings.timeout,
                max_retries=retries,
                names=settings.names,
                killer=killer,
            )
        )


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
    options: ChatOptions,
) -> None:
    """Ask one question, or have a conversation if there is none."""
    from .._conversation import converse, print_continue_command
    from ._answer import ServicePartner
    from ._follow import OtherTurns, follow

    as_json, conversation = options.as_json, options.conversation
    session = conversation or str(uuid4())
    if options.follow:
        follow(service, session, as_json=as_json)
        return
    partner = ServicePartner(
        *(service, session, settings.command),
        as_json=as_json,
        known=conversation is not None,
        others=None if conversation is None else OtherTurns(service, session, as_json=as_json),
    )
    if text is not None:
        if partner.ask(text, attached, None):
            print_continue_command(partner)
        return
    for one in attached:
        partner.check(one)  # an unknown type is reported before the conversation begins
    name = settings.url or settings.llm or "the built-in guide"
    converse(partner, name, as_json=as_json, attached=attached)


def _check_chaos(options: ChatOptions) -> None:
    """Reject options that have no effect without --chaos.

    Raises:
        Failure: there is such an option.
    """
    for name, is_given in (("--seed", options.seed is not None), ("--kill", options.kill)):
        if is_given and not options.chaos:
            raise Failure(f"{name} needs --chaos", ExitCode.USAGE)


def _check_follow(options: ChatOptions) -> None:
    """Reject options that contradict --follow.

    Raises:
        Failure: there is such an option, or no conversation.
    """
    if options.follow and options.conversation is None:
        raise Failure("--follow needs --conversation", ExitCode.USAGE)
    for name, is_given in (("--chaos", options.chaos), ("--attach", bool(options.attach))):
        if options.follow and is_given:
            raise Failure(f"--follow and {name} cannot be used together", ExitCode.USAGE)


def _seed(options: ChatOptions) -> int:
    if options.seed is not None:
        return options.seed
    drawn = random.randrange(10_000)
    repeated = "cuts and kills" if options.kill else "cuts"
    print_stderr(f"chaos: --seed {drawn} repeats the same {repeated}")
    return drawn
