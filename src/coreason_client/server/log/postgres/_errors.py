"""The address of a database without its credentials, and the errors of a server."""

import re
from dataclasses import dataclass, field
from itertools import cycle
from ssl import SSLCertVerificationError
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg  # type: ignore[import-untyped]

from ...._secret import redact
from ....errors import ArgumentError
from ...errors import LogUnavailable
from ..remote._command_queue import PatienceExceeded, QueueStopped

NO_ANSWER = "did not answer for"  # in the message about a silent server

DATABASE_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""All errors of the client library."""

# Errors after which the same call may succeed: of the connection, of two transactions that wait for
# each other, of a server that starts or stops, of too many connections, and of a standby. A
# cancelled call may have been carried out.
_TRANSIENT_CLASSES = ("08",)
_TRANSIENT = frozenset(
    {"25006", "40001", "40P01", "53300", "55P03", "57014", "57P01", "57P02", "57P03", "57P05"}
)
_READ_ONLY = "25006"
_HOST = re.compile(r"(?:\[([^]]*)\]|(/.*|[^:[\]]*))(?::(\d{1,5}))?", re.ASCII)
_PORTS = re.compile(r"[\d,]*", re.ASCII)
_NOT_THERE = frozenset({"3F000", "42P01", "42883"})  # schema, table, function
_DENIED = "42501"
_NOT_PREPARED = frozenset({"26000", "42P05"})  # there is no such statement, or it is another one


Host: TypeAlias = tuple[str | None, int | None]
"""A host and its port; None is that of the URL, or the default."""


class UnknownOutcome(Exception):
    """The server has reported a call as carried out, but a standby need not have it."""


class StandbyMissing(Exception):
    """A call waits for a standby."""


class StreamBusy(Exception):
    """Another call has locked the stream."""


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The URL of a database; `shown` is it without credentials.

    `hosts` is empty unless there are several.
    """

    url: str = field(repr=False)
    shown: str
    secrets: tuple[str | None, ...] = field(repr=False)
    hosts: tuple[Host, ...]

    def redact(self, text: str) -> str:
        """Return a text without the credentials."""
        return redact(text, self.secrets)


def parse_address(url: str, name: str = "url") -> DatabaseAddress:
    """Parse ``postgresql://user:password@host:port,host:port/database?option=value``.

    Raises:
        ArgumentError: it is not such a URL. The error does not contain it, because of its password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ArgumentError(name, "must be a URL with valid hosts and ports") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ArgumentError(name, "must start with postgresql://")
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # they are shown, or not understood
        raise ArgumentError(name, "must have %2F for /, %3F for ? and %23 for # in its password")
    user, _, hosts = parts.netloc.rpartition("@")
    username, _, password = user.partition(":")
    options = parse_qs(parts.query)
    ports = ",".join(options.get("port", []))
    hosts = hosts or ",".join(options.get("host", []))
    found = [match for host in hosts.split(",") if (match := _HOST.fullmatch(host))]
    if len(found) <= hosts.count(",") or not _PORTS.fullmatch(ports):
        raise ArgumentError(name, "must be a URL with valid hosts and ports")
    secrets = (unquote(password), *options.get("password", []), unquote(username))
    return DatabaseAddress(
        url=url,
        shown=f"postgresql://{hosts or 'localhost'}{parts.path}",
        secrets=secrets,
        hosts=tuple(map(_host, found, cycle(ports.split(",")))) if len(found) > 1 else (),
    )


def _host(found: "re.Match[str]", port: str) -> Host:
    in_brackets, name, own_port = found.groups()
    port = own_port or port  # in `?port=`, one port may be that of all hosts
    return unquote(in_brackets or name), int(port) if port else None


def is_read_only(error: Exception) -> bool:
    """Return True if the server is a standby, or was made one."""
    return getattr(error, "sqlstate", None) == _READ_ONLY


def is_transient(error: Exception) -> bool:
    """Return True if a retry may succeed."""
    if isinstance(error, SSLCertVerificationError | asyncpg.ClientConfigurationError):
        return False
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        return code in _TRANSIENT or code.startswith(_TRANSIENT_CLASSES)
    return isinstance(error, (*DATABASE_ERRORS, StandbyMissing, StreamBusy, UnknownOutcome))


def unreachable(
    address: DatabaseAddress, patience: float, exceeded: PatienceExceeded
) -> LogUnavailable:
    """Return the error for a server that did not answer, or had transient errors, for so long."""
    error = exceeded.error
    if error is not None and is_read_only(error):
        message = (
            f"the database {address.shown} is a standby and did not become a primary within "
            f"{patience:g} s: give the log the address of the primary"
        )
    elif isinstance(error, StandbyMissing):
        message = (
            f"no standby of the database {address.shown} has confirmed a commit for {patience:g} s:"
            " connect one, or change synchronous_standby_names"
        )
    else:
        why = "" if error is None else f": {_reason(address, error)}"
        message = f"the database {address.shown} {NO_ANSWER} {patience:g} s{why}"
    if not exceeded.sent:
        message += " (this call was still in the queue and was not sent)"
    return LogUnavailable(message)


def rejected(address: DatabaseAddress, schema: str, error: Exception) -> LogUnavailable:
    """Return the error for a call that the server refuses."""
    if isinstance(error, QueueStopped):
        return LogUnavailable(f"the log on {address.shown} has been stopped")
    code, reason = getattr(error, "sqlstate", None), _reason(address, error)
    if isinstance(error, OSError):
        return LogUnavailable(f"the database {address.shown} cannot be reached: {reason}")
    if code in _NOT_THERE:
        return LogUnavailable(
            f"the database {address.shown} does not have what the log needs in the schema "
            f"{schema}: {reason}; create it with `coreason store upgrade URL`"
        )
    if code in _NOT_PREPARED:
        return LogUnavailable(
            f"the address {address.shown} is that of a pooler that gives each transaction another "
            "connection: pass listen_url, or use a direct address"
        )
    if code == _DENIED:
        return LogUnavailable(
            f"the database {address.shown} denies access: {reason}; give the role the rights that "
            "the documentation lists"
        )
    return LogUnavailable(f"the database {address.shown} refuses a call: {reason}")


def _reason(address: DatabaseAddress, error: Exception) -> str:
    lines = str(error).strip().splitlines()  # the others are for users of the library
    return address.redact(lines[0] if lines else type(error).__name__)
