"""The prefix of a proxy that removes it, of one that passes it on, and below a mount."""

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client import CAPClient
from coreason_client.server import AgentApp, running
from coreason_client.server.http._root_path import with_root_path
from tests.each import each

from .peer import LIMIT

PREFIX = "/agents/one"


@each(
    ("outer", "path", "root_path", "full"),
    [
        ("", "/assist", "/p", "/p/assist"),  # removed by the proxy
        ("", "/p/assist", "/p", "/p/assist"),  # passed on
        ("", "/p/", "/p", "/p/"),
        ("", "/", "/p", "/p/"),
        ("", "/p", "/p", "/p/p"),  # a path of the same name
        ("", "/pp/assist", "/p", "/p/pp/assist"),
        ("/p", "/p/assist", "/p", "/p/assist"),  # known to the server, too
        ("/m", "/m/assist", "/p/m", "/p/m/assist"),  # mounted below the prefix
    ],
)
def test_both_kinds_of_proxies_give_the_same_scope(
    outer: str, path: str, root_path: str, full: str
) -> None:
    scope = {"type": "http", "root_path": outer, "path": path}
    assert with_root_path(scope, "/p") == {"type": "http", "root_path": root_path, "path": full}
    assert with_root_path(scope, "") is scope


async def agent(request: Any, stream: Any) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module")
def app() -> AgentApp:
    return AgentApp(agent, root_path=PREFIX, a2a=True, page=True, metrics=True, drain_timeout=0)


def test_every_route_works_with_and_without_the_prefix(app: AgentApp) -> None:
    with running(app) as server:
        for url in (server.url, f"{server.url}{PREFIX}"):
            with CAPClient(url, "any") as client:
                assert client.ask("hi") == "hello"
            with httpx2.Client(timeout=LIMIT) as http:
                for path in ("/", "/page/config.json", "/health", "/ready", "/metrics"):
                    assert http.get(f"{url}{path}").status_code == 200, path
                # A probe accepts any Host, and other paths do not.
                for path, status in (("/ready", 200), ("/openapi.json", 421)):
                    headers = {"Host": "evil.example"}
                    assert http.get(f"{url}{path}", headers=headers).status_code == status
                card = http.get(f"{url}/.well-known/agent-card.json").json()
                assert card["url"] == f"{server.url}{PREFIX}/a2a"
                assert http.get(f"{url}/openapi.json").json()["servers"] == [{"url": PREFIX}]
        assert httpx2.get(f"{server.url}{PREFIX}/no", timeout=LIMIT).status_code == 404


def test_a_mount_below_the_prefix_keeps_its_own_path() -> None:
    inner = AgentApp(agent, root_path=PREFIX, a2a=True)
    outer = Starlette(routes=[Mount("/m", inner)], lifespan=inner.lifespan)
    with running(outer) as server:
        card = httpx2.get(f"{server.url}/m/.well-known/agent-card.json", timeout=LIMIT).json()
    assert card["url"] == f"{server.url}{PREFIX}/m/a2a"
