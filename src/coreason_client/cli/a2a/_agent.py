"""The options that reach an agent, and the commands that are printed for it. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coreason_client import ArgumentError, Secret

from ..._http._checks import check_headers, check_key

if TYPE_CHECKING:  # the A2A client is loaded when a command runs
    from coreason_client.a2a import Options

__all__ = ["AgentOptions", "parse_headers"]


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
