"""The child process of `coreason chat --kill`: it serves a durable agent until it is killed.

Its settings are the first line on stdin. When stdin ends, the parent has died, and it exits.
"""

import json
import logging
import os
import shutil
import socket
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .._logs import show_logs
from ..output import print_stdout

if TYPE_CHECKING:
    from ...agents.llm import Agent

__all__ = ["READY", "SECONDS_PER_WORD", "AgentSettings", "main"]

READY = "ready"
SECONDS_PER_WORD = 0.012
# Every kill happens after a new packet, so this limit is not reached; it is a reserve.
_MAX_RESTARTS = 10


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the child process needs to serve the agent. It is sent through a pipe.

    Attributes:
        llm: the name of a model, None for the built-in guide.
        system: the system prompt for the model.
        key: the API key that clients must use.
        folder: the directory of the log; deleted if the parent process dies.
        socket: the file descriptor of the listening socket.
        verbose: how many times `-v` was given.
    """

    llm: str | None
    system: str | None
    key: str = field(repr=False)
    folder: str
    socket: int
    verbose: int

    def to_line(self) -> bytes:
        """Return the settings as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "AgentSettings":
        """Return the settings in a line."""
        return cls(**json.loads(line))


def main() -> None:
    """Serve the agent; the process ends by a signal or with its parent."""
    settings = AgentSettings.from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_parent, args=[settings.folder], daemon=True).start()
    show_logs(settings.verbose, default_level=logging.CRITICAL)
    from ...server import AgentApp, SQLiteStreamLog, serve

    app = AgentApp(
        _agent(settings.llm, settings.system),
        log=SQLiteStreamLog(Path(settings.folder, "streams.db")),
        api_keys=[settings.key],
        agent_id="guide" if settings.llm is None else "llm",
        durable=True,
        max_restarts=_MAX_RESTARTS,
    )
    reported = False

    async def report_ready() -> None:
        nonlocal reported
        if not reported:  # uvicorn calls this repeatedly
            reported = True
            print_stdout(READY)

    sock = socket.socket(fileno=settings.socket)
    serve(app, sockets=[sock], callback_notify=report_ready, log_config=None, log_level=None)


def _agent(llm: str | None, system: str | None) -> "Agent":
    if llm is None:
        from ...agents.guide import paced

        return paced(SECONDS_PER_WORD)
    from .._load import model_agent

    return model_agent(llm, system, tell_errors=True)


def _exit_with_parent(folder: str) -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
