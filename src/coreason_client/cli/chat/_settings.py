"""The settings of `coreason chat`, from options, a profile and the environment. Pure.

An option takes precedence over the profile, and the profile over the environment. A key is sent
only to the agent that it belongs to: the key of a profile only to the URL of the profile, and the
URL of a profile gets only that key or the one of `--api-key`.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .._options import reject_system
from ..exits import ExitCode, Failure
from ..profiles import Profile

__all__ = ["ChatSettings", "Options", "resolve"]

_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Values of options; `env_…` are those of environment variables."""

    url: str | None = None
    env_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    env_api_key: str | None = field(default=None, repr=False)
    llm: str | None = None
    system: str | None = None
    timeout: float | None = None
    max_retries: int | None = None


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
    options: Options, profile: Profile | None, key_of: Callable[[Profile], str | None]
) -> ChatSettings:
    """Return the settings; `key_of` returns the key of the profile and is called if it is needed.

    Raises:
        Failure: the options contradict each other.
    """
    if options.url is not None and options.llm is not None:
        raise Failure("--url and --llm cannot be used together: give one of them", ExitCode.USAGE)
    url, url_name = _url(options, profile)
    llm = options.llm
    if llm is None and options.url is None and profile is not None:
        llm = profile.llm
    if llm is None:
        reject_system(options.system)
    from_profile = profile is not None and url_name == _key_name("url", profile)
    key, key_name = _key(options, profile if from_profile else None, key_of)
    timeout, timeout_name = options.timeout, "--timeout"
    retries, retries_name = options.max_retries, "--max-retries"
    if profile is not None and timeout is None and profile.timeout is not None:
        timeout, timeout_name = profile.timeout, _key_name("timeout", profile)
    if profile is not None and retries is None and profile.max_retries is not None:
        retries, retries_name = profile.max_retries, _key_name("max_retries", profile)
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


def _url(options: Options, profile: Profile | None) -> tuple[str | None, str]:
    """Return the URL and the name of what set it."""
    if options.url is not None:
        return options.url, "--url"
    if options.llm is not None:
        return None, "--url"
    if profile is not None and profile.url is not None:
        return profile.url, _key_name("url", profile)
    if profile is not None and profile.llm is not None:
        return None, "--url"
    return options.env_url, "COREASON_URL"


def _key(
    options: Options, profile: Profile | None, key_of: Callable[[Profile], str | None]
) -> tuple[str | None, str]:
    """Return the key and the name of what set it; `profile` is the one that the URL is from."""
    if options.api_key is not None:
        return options.api_key, "--api-key"
    if profile is not None:
        return key_of(profile), _key_name("api_key", profile)
    return options.env_api_key, "COREASON_API_KEY"


def _key_name(key: str, profile: Profile) -> str:
    return f"{key} of profile {profile.name!r}"


def _command(options: Options, profile: Profile | None) -> str:
    """Return the command; a key of the command line becomes a variable of the shell."""
    words = ["coreason", "chat"]
    if profile is not None:
        words.append(profile.name)
    if options.url is not None:
        words += ["--url", options.url]
    command = shlex.join(words)
    return command if options.api_key is None else f'{command} --api-key "$KEY"'
