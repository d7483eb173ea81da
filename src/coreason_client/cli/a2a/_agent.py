"""The options that reach an agent: from the command line or a profile, with their secrets."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coreason_client import ArgumentError, CoreasonError, Secret

from ..._http._checks import check_headers, check_key
from ..._secret import redact
from ..exits import ExitCode, Failure, exit_code_of
from ..profiles import load_profiles, profile_key

if TYPE_CHECKING:  # the A2A client is loaded when a command runs
    from coreason_client.a2a import Options


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The URL of an agent, and the options that all commands use to reach it.

    `token_from_option` is False if the token is a value of the environment, or that of the profile.

    Raises:
        ArgumentError: an option is invalid; the message contains no secret.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None
    origins: Sequence[str] = ()
    extensions: Sequence[str] = ()
    token_from_option: bool = True
    profile: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            source = self._token_source()
            check_key(self.token, source)
            if "authorization" in map(str.lower, self.headers):
                raise ArgumentError("--header", f"must not be Authorization beside {source}")
        if self.timeout is not None and not self.timeout > 0:
            raise ArgumentError("--timeout", "must be greater than 0", self.timeout)

    def _token_source(self) -> str:
        if self.token_from_option:
            return "--token"
        profile = self.profile
        return "COREASON_A2A_TOKEN" if profile is None else f"api_key of profile {profile!r}"

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """The values that no message may contain."""
        return self.token, *self.headers.values()

    def client_options(self) -> "Options":
        """Return the options of the client."""
        options: Options = {"auth": self.token}
        if self.headers:
            options["headers"] = self.headers
        if self.timeout is not None:
            options |= {"timeout": self.timeout, "stream_timeout": self.timeout}
        if self.origins:
            options["interface_origins"] = self.origins
        if self.extensions:
            options["extensions"] = self.extensions
        return options

    def card_headers(self) -> dict[str, str]:
        """Return the headers of the request for the card."""
        token = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return {**self.headers, **token}

    def command(self, *words: str) -> str:
        """Return a command line for the same agent, quoted for a shell.

        `words` are the words before and after the URL, which replaces "URL". Secrets are replaced
        by variables of the shell.
        """
        url = self.profile or self.url
        named = [shlex.quote(url if word == "URL" else word) for word in words]
        return " ".join(["coreason a2a", *named, *self._quoted_options()])

    def _quoted_options(self) -> list[str]:
        quoted = []
        if self.timeout is not None:
            quoted.append(f"--timeout {self.timeout:g}")
        quoted += [f"--interface-origin {shlex.quote(origin)}" for origin in self.origins]
        quoted += [f"--extension {shlex.quote(uri)}" for uri in self.extensions]
        quoted += [f'--header "{name}: ${_variable(name)}"' for name in self.headers]
        if self.token is not None and self.token_from_option:
            quoted.append('--token "$TOKEN"')
        return quoted


def _variable(header: str) -> str:
    """Return the name of a shell variable for the value of a header."""
    name = "".join(char if char.isalnum() else "_" for char in header).upper()
    return f"_{name}" if name[0].isdigit() else name


def parse_headers(options: Sequence[str]) -> dict[str, str]:
    """Return the headers of `--header` options; each value is marked as a secret.

    Raises:
        ArgumentError: an option is invalid; the message contains no value.
    """
    headers: dict[str, str] = {}
    for option in options:
        name, colon, value = option.partition(":")
        header = {name: Secret(value.strip())}
        if not colon or not value.isascii() or not value.isprintable():
            raise _header_error()
        try:
            check_headers(header)
        except ArgumentError:
            raise _header_error() from None
        if name.lower() in map(str.lower, headers):
            raise ArgumentError("--header", "must not have the same name twice", name)
        headers |= header
    return headers


def _header_error() -> ArgumentError:
    # An option in the wrong form may contain a secret anywhere.
    rule = "must be a name, a colon and a value in ASCII, as in 'X-Tenant: blue'"
    return ArgumentError("--header", rule)


@contextmanager
def redacting(*secrets: str | None) -> Iterator[None]:
    """Remove secrets from the errors that leave the block.

    An agent may quote a request in its answer, and errors have the text of the agent unchanged.

    Raises:
        Failure: instead of an error whose message contains a secret, with the same exit code.
    """
    try:
        yield
    except (CoreasonError, Failure) as error:
        text = redact(str(error), secrets)
        if text == str(error):
            raise
        raise Failure(text, exit_code_of(error)) from None


def agent_of_profile(agent: AgentOptions) -> AgentOptions:
    """Return the options with those of the profile that has the name in `url`, if there is one.

    The token is that of `--token`, otherwise the key of the profile. A token of the environment
    belongs to another agent and is not sent.

    Raises:
        Failure: the profile has no URL, or its key is missing.
    """
    found = load_profiles()
    if agent.url not in found.tables:
        return agent  # an error names the URL
    profile = found.get(agent.url)
    if profile.url is None:
        raise Failure(f"profile {profile.name!r} has no url", ExitCode.USAGE)
    given = agent.token_from_option and agent.token is not None
    return replace(
        agent,
        url=profile.url,
        profile=profile.name,
        token=agent.token if given else profile_key(profile),
        token_from_option=given,
        timeout=profile.timeout if agent.timeout is None else agent.timeout,
    )
