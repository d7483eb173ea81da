"""What `coreason serve` serves, in this process and in each of its workers."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coreason_client import ArgumentError

from ._load import load_agent
from ._logs import LogFormat, show_server_logs
from ._options import check_system, wrong_usage
from .exits import ExitCode, Failure

if TYPE_CHECKING:
    from ..server import AgentApp, StreamLog

__all__ = ["Served", "shown_log", "worker"]

# How a worker learns what to serve. Not by its arguments, which everybody on the machine can read.
_VARIABLE = "COREASON_SERVED"
# The options from which arguments of the application come.
_OPTIONS = {
    "allowed_hosts": "--allowed-host",
    "max_requests_per_minute": "--max-requests-per-minute",
    "url": "--log",
}
_STORES = frozenset({"redis", "rediss", "valkey", "valkeys"})


@dataclass(frozen=True, slots=True)
class Served:
    """The arguments of the command that make an application."""

    agent: str | None
    llm: str | None
    system: str | None
    log: str
    api_keys: Mapping[str, str] = field(repr=False)  # and their owners, where they have a name
    keys_from: str  # the option or the variable
    metrics: bool
    max_requests_per_minute: int | None
    verbose: int
    allowed_hosts: Sequence[str] = ()
    log_format: LogFormat = "text"

    def app(self) -> "AgentApp":
        """Make the application.

        Raises:
            Failure: an argument cannot work.
        """
        from ..server import AgentApp

        found = _agent(self.agent, self.llm, self.system)
        if isinstance(found, AgentApp):
            raise Failure(
                f"{self.agent} is an AgentApp, which has its own log and keys: name the agent "
                f"inside it, or serve the application with uvicorn {self.agent}",
                ExitCode.USAGE,
            )
        try:
            return AgentApp(
                found,
                log=_log(self.log),
                api_keys=self.api_keys or None,
                metrics=self.metrics,
                max_requests_per_minute=self.max_requests_per_minute,
                allowed_hosts=self.allowed_hosts,
            )
        except ArgumentError as error:
            raise wrong_usage(error, _OPTIONS | {"api_keys": self.keys_from}) from None
        except (TypeError, ValueError) as error:
            raise Failure(str(error), ExitCode.USAGE) from None

    @contextmanager
    def for_workers(self) -> Iterator[str]:
        """Give the name of what makes the same application in a process started meanwhile."""
        os.environ[_VARIABLE] = json.dumps(asdict(self))
        try:
            yield f"{worker.__module__}:{worker.__name__}"
        finally:
            del os.environ[_VARIABLE]


def worker() -> "AgentApp":
    """Make the application that the parent of this process was told to serve."""
    served = Served(**json.loads(os.environ.pop(_VARIABLE)))
    show_server_logs(served.verbose, served.log_format)
    return served.app()


def shown_log(name: str) -> str:
    """Return where streams are kept, without a password."""
    parts = urlsplit(name)
    if parts.scheme not in _STORES:
        return name.partition(":")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _agent(agent: str | None, llm: str | None, system: str | None) -> Any:
    """Return what the arguments name, which need not be an agent.

    Raises:
        Failure: it is not there, or they name two.
    """
    if llm is not None:
        if agent is not None:
            raise Failure(f"{agent} and --llm {llm} are two agents: name one", ExitCode.USAGE)
        from ._llm_client import model_agent

        return model_agent(llm, system, tell_errors=False)
    check_system(system)
    if agent is not None:
        return load_agent(agent)
    from ..agents.guide import guide

    return guide


def _log(name: str) -> "StreamLog":
    from ..server import MemoryStreamLog, SQLiteStreamLog

    kind, _, path = name.partition(":")
    if name == "memory":
        return MemoryStreamLog()
    if kind == "sqlite" and path:
        return SQLiteStreamLog(path)
    if kind in _STORES and path.startswith("//"):
        from ..server import ValkeyStreamLog

        return ValkeyStreamLog(name)
    raise Failure(
        # No more of it than that: it may have a password.
        f"--log must be memory, sqlite:PATH or valkey://HOST, got {kind!r}",
        ExitCode.USAGE,
    )
