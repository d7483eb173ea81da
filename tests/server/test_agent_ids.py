"""The ids of agents: the default, and two agents with one id."""

import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    ServiceRequest,
    SyncAgentStream,
    create_ticket,
    running,
)
from coreason_client.server._agent_ids import agent_name, default_agent_id
from coreason_client.server._names import (
    ANONYMOUS,
    full_principal,
    parse_principal,
    ticket_principal,
)
from tests.preloaded import run_preloaded

from .peer import Peer

ROOT = Path(__file__).parents[2]
MODULE = __name__


async def assist(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("a")


def make() -> Callable[..., Any]:
    async def assist(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("b")

    return assist


class Assistant:
    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("c")

    async def assist(self, request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("d")


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (assist, "assist"),
        (partial(partial(assist)), "assist"),
        (make(), "make.assist"),
        (Assistant(), "Assistant"),
        (Assistant().assist, "Assistant.assist"),
        (lambda request: "e", "lambda"),
    ],
)
def test_the_default_has_the_module_and_the_name(agent: Any, name: str) -> None:
    assert default_agent_id(agent) == f"{MODULE}.{name}"
    assert agent_name(agent) == name.rpartition(".")[2]


PROGRAM = """
from coreason_client.server._agent_ids import default_agent_id

def assist(request):
    return ""

if __name__ in ("__main__", "support"):
    print(default_agent_id(assist))
"""


@pytest.mark.parametrize("how", [["support.py"], ["-m", "support"], ["-c", "import support"]])
def test_a_program_has_one_id_however_it_is_started(how: list[str], tmp_path: Path) -> None:
    Path(tmp_path, "support.py").write_text(PROGRAM)
    if how[0].startswith("-"):
        done = run_preloaded(how, cwd=tmp_path, timeout=30)
    else:
        done = subprocess.run(
            [sys.executable, *how],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stdout.split()) == (0, ["support.assist"]), done.stderr


def shared(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [line for line in caplog.records if getattr(line, "event", "") == "agent_id_shared"]
    assert all(line.levelno == logging.WARNING for line in found)
    return [line.getMessage() for line in found]


@pytest.mark.parametrize(
    ("other", "options"),
    [(make(), {}), (assist, {"version": "2"})],
    ids=["another function", "another version"],
)
def test_two_agents_with_one_id_on_one_log_are_reported(
    other: Any, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryStreamLog()
    first = AgentApp(assist, log=log, agent_id="one", version="1")
    second = AgentApp(other, log=log, agent_id="one", **{"version": "1", **options})
    [line] = shared(caplog)
    assert "have the id 'one'" in line
    assert first.log is second.log


def test_the_same_agent_and_other_ids_and_logs_are_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, assistant = MemoryStreamLog(), Assistant()
    apps = [
        AgentApp(assist, log=log, agent_id="one"),
        AgentApp(assist, log=log, agent_id="one"),
        AgentApp(make(), log=log, agent_id="two"),
        AgentApp(make(), log=MemoryStreamLog(), agent_id="one"),
        AgentApp(assistant.assist, log=log, agent_id="three"),
        AgentApp(assistant.assist, log=log, agent_id="three"),
    ]
    assert shared(caplog) == []
    assert len(apps) == 6


def test_agents_with_the_same_name_have_their_own_streams() -> None:
    ids = {repr(AgentApp(agent)) for agent in (assist, make())}
    assert len(ids) == 2


@given(*[st.text(st.characters(codec="utf-8"), min_size=1)] * 2)
def test_an_owner_stands_for_its_caller(agent_id: str, name: str) -> None:
    kind = "anybody" if name == ANONYMOUS else "key"
    assert parse_principal(full_principal(agent_id, name)) == (name, kind)
    assert parse_principal(ticket_principal(agent_id, name)) == (name, "ticket")


def test_an_agent_knows_its_caller() -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(":".join(stream.principal))

    def plain(_: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write(stream.principal.name)

    secret = "s" * 32
    with running(AgentApp(agent, api_keys={"k": "Ann/%2F"}, ticket_secrets=[secret])) as server:
        for key, shown in (("k", "Ann/%2F:key"), (create_ticket(secret, "Bo b"), "Bo b:ticket")):
            peer = Peer(server.url, key)
            assert peer.ask().text == shown
            peer.close()
    with running(AgentApp(plain)) as server:
        peer = Peer(server.url)
        assert peer.ask().text == ANONYMOUS
        peer.close()
