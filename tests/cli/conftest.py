"""An agent of the tests' own, served by the real command."""

import logging
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from .command import Process, command_of

LOGGERS = ("", "coreason_client", "coreason_client.server", "uvicorn.error", "uvicorn.access")


@pytest.fixture(scope="session", autouse=True)
def _command_built_once() -> Iterator[None]:
    """Save the runner of Typer from building the command for each line."""
    with patch("typer.testing._get_command", command_of):
        yield


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command that runs in this process sets up logging; nothing of that is left behind."""
    handlers = logging.getLogger().handlers[:]
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    yield
    logging.getLogger().handlers = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


AGENT = textwrap.dedent(
    """
    import asyncio
    from pathlib import Path

    from coreason_manifest.definitions.message import Role


    async def agent(request, stream):
        asked = request.payload.messages[-1].text
        if asked == "wait":
            await stream.write("begun ")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                Path("cancelled").touch()
                raise
        if asked == "break":
            raise RuntimeError("a secret")
        if asked == "fail":
            await stream.fail("model_down", "The model is down.")
            return
        before = [m.text for m in await stream.history() if m.role is Role.USER]
        await stream.write(f"Before: {before}. Now: {asked}.")


    def not_an_agent():
        return "nobody asked"
    """
)


@dataclass(frozen=True)
class Service:
    url: str
    curl: str
    folder: Path


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "mine.py").write_text(AGENT)
    arguments = ["mine:agent", "--port", "0", "--allowed-host", "agent.example"]
    with Process("serve", *arguments, cwd=folder) as process:
        told = process.expect("}'\n")
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", told)
        [curl] = re.findall(r"^curl .*$", told, re.MULTILINE)
        yield Service(url, curl, folder)


@pytest.fixture(scope="session")
def peer(a2a_peer: str) -> str:
    """The origin of agents of the official A2A SDK."""
    return a2a_peer
