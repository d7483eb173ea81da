"""The options of `coreason chat`, and its settings from them, a profile and the environment.

An option takes precedence over the profile, and the profile over the environment. A key is sent
only to the agent that it belongs to: the key of a profile only to the URL of the profile, and the
URL of a profile gets only that key or the one of `--api-key`.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .._options import Attach, System, Verbose, argument, flag, option, reject_system
from ..exits import ExitCode, Failure
from ..llm import complete_model
from ..profiles import UserProfile, complete_profile, complete_profile_word

T = TypeVar("T")

_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The values of all options of `coreason chat`; the help lists them in this order."""

    arguments: list[str] | None = argument(
        metavar="[PROFILE] [TEXT] [-]",
        help="The name of a profile; the question; piped text is appended. - reads all of stdin.",
        autocompletion=complete_profile_word,
    )
    profile: str | None = option(
        metavar="NAME",
        help="Profile with the settings of an agent or a model.",
        autocompletion=complete_profile,
    )
    url: str | None = option(
        envvar="COREASON_URL",
        metavar="URL",
        help="URL of the agent service. Without it, the built-in agent runs in this process.",
    )
    api_key: str | None = option(
        secret=True, envvar="COREASON_API_KEY", metavar="KEY", help="API key for --url."
    )
    llm: str | None = option(
        metavar="MODEL",
        help="Talk to a model instead; its key is read from the environment or .env.",
        autocompletion=complete_model,
    )
    system: System = None
    attach: Attach = None
    conversation: str | None = option(
        metavar="ID", help="ID of the conversation to continue.", show_default="a new one"
    )
    follow: bool = flag(
        "--follow",
        help="Only show what is asked in --conversation, by anybody, and the answers, until "
        "Ctrl-C.",
    )
    as_json: bool = flag("--json", help="Print the packets, one JSON object per line.")
    chaos: bool = flag(
        "--chaos", help="Cut the connection repeatedly, and check that nothing gets lost."
    )
    kill: bool = flag(
        "--kill",
        help="With --chaos: also kill the process of the built-in agent or of --llm (SIGKILL), "
        "and start it again.",
    )
    seed: int | None = option(
        metavar="N",
        help="Random seed for the cuts of --chaos and the kills of --kill.",
        show_default="random, printed",
    )
    timeout: float | None = option(
        metavar="SECONDS",
        help="Time without data after which a connection counts as lost.",
        show_default="60",
    )
    max_retries: int | None = option(
        metavar="N",
        help="Limit for reconnections in a row without a new packet.",
        show_default="3, but retry for at least 30 s once an answer has begun; 10 with --chaos",
    )
    verbose: Verbose = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The agent or the model to ask, and its limits; without both it is the built-in guide.

    `names` maps arguments of the client to the options, variables or keys that set them.
    """

    url: str | None
    api_key: str | None = field(repr=False)
    llm: str | None
    system: str | None
    timeout: float
    max_retries: int | None
    names: Mapping[str, str]
    command: str | None
    """The beginning of a command that asks the same agent; None for a model and the guide."""


def resolve(
    options: ChatOptions,
    env: Mapping[str, str],
    profile: UserProfile | None,
    key_of: Callable[[UserProfile], str | None],
) -> ChatSettings:
    """Return the settings.

    `env` has the `url` and the `api_key` of environment variables, which `options` does not have.
    `key_of` returns the key of the profile and is called if it is needed.

    Raises:
        Failure: the options contradict each other.
    """
    if options.url is not None and options.llm is not None:
        raise Failure("--url and --llm cannot be used together: give one of them", ExitCode.USAGE)
    url, url_name = _url(options, env, profile)
    llm = options.llm
    if llm is None and options.url is None and profile is not None:
        llm = profile.llm
    if llm is None:
        reject_system(options.system)
    from_profile = profile is not None and url_name == _key_name("url", profile)
    key, key_name = options.api_key, "--api-key"
    if key is None and profile is not None and from_profile:
        key, key_name = key_of(profile), _key_name("api_key", profile)
    elif key is None:
        key, key_name = env.get("api_key"), "COREASON_API_KEY"
    timeout, timeout_name = _limit("timeout", options.timeout, profile)
    retries, retries_name = _limit("max_retries", options.max_retries, profile)
    system = options.system
    if llm is not None and system is None and profile is not None:
        system = profile.system
    return ChatSettings(
        url=url,
        api_key=key,
        llm=llm,
        system=system,
        timeout=_TIMEOUT if timeout is None else timeout,
        max_retries=retries,
        names={
            "base_url": url_name,
            "api_key": key_name,
            "timeout": timeout_name,
            "max_retries": retries_name,
        },
        command=None if url is None else _command(options, profile),
    )


def _url(
    options: ChatOptions, env: Mapping[str, str], profile: UserProfile | None
) -> tuple[str | None, str]:
    """Return the URL and the name of what set it."""
    if options.url is not None:
        return options.url, "--url"
    if options.llm is not None:
        return None, "--url"
    if profile is not None and profile.url is not None:
        return profile.url, _key_name("url", profile)
    if profile is not None and profile.llm is not None:
        return None, "--url"
    return env.get("url"), "COREASON_URL"


def _limit(key: str, given: T | None, profile: UserProfile | None) -> tuple[T | None, str]:
    """Return the value of an option or of the same key of the profile, and the name of it."""
    if given is None and profile is not None and (found := getattr(profile, key)) is not None:
        return found, _key_name(key, profile)
    return given, f"--{key.replace('_', '-')}"


def _key_name(key: str, profile: UserProfile) -> str:
    return f"{key} of profile {profile.name!r}"


def _command(options: ChatOptions, profile: UserProfile | None) -> str:
    """Return the command; a key of the command line becomes a variable of the shell."""
    words = ["coreason", "chat"]
    if profile is not None:
        words.append(profile.name)
    if options.url is not None:
        words += ["--url", options.url]
    command = shlex.join(words)
    return command if options.api_key is None else f'{command} --api-key "$KEY"'
