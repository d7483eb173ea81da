"""The prefix of a proxy that removes it, of one that passes it on, and below a mount."""

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client import CAPClient
from coreason_client.server import AgentApp, running
from coreason_client.server.http._hosts import encoded_slash_problem, with_root_path
from tests.each import each

from ..peer import LIMIT

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
                for path in ("/ready", "/openapi.json"):
                    headers = {"Host": "evil.example"}
                    assert http.get(f"{url}{path}", headers=headers).status_code == 421
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


@each(
    ("raw", "refused"),
    [
        (b"/agents/one/assist", False),
        (b"/agents/one%2fassist", True),
        (b"/agents%2Fone/assist", True),
        (b"/streams%2f", True),
        (b"/a%252fb", False),  # an encoded percent sign
        (b"/a%2", False),
        (None, False),  # a server need not send it
    ],
)
def test_a_path_with_an_encoded_slash_is_refused(raw: bytes | None, refused: bool) -> None:
    problem = encoded_slash_problem({"type": "http", "path": "/", "raw_path": raw})
    assert (problem is not None and problem.status == 404) is refused


@each(
    ("path", "raw", "refused"),
    [
        ("/v1/models/a/b", b"/v1/models/a%2Fb", False),
        ("/p/v1/models/a/b", b"/v1/models/a%2Fb", False),  # a proxy has removed /p
        ("/v1/models/a/b", b"/v1%2Fmodels/a/b", True),
        ("/v1/models/a", b"/v1/models%2Fa", True),
        ("/x/v1/models/a/b", b"/x/v1/models/a%2Fb", True),
        ("/v1/responses/a/b", b"/v1/responses/a%2Fb", True),
    ],
)
def test_the_name_of_a_model_may_have_an_encoded_slash(
    path: str, raw: bytes, refused: bool
) -> None:
    scope = {"type": "http", "path": path, "raw_path": raw, "root_path": "/p"}
    assert (encoded_slash_problem(scope) is not None) is refused


def test_an_encoded_slash_does_not_lead_to_a_route(app: AgentApp) -> None:
    with running(app) as server, httpx2.Client(base_url=server.url, timeout=LIMIT) as http:
        for path in ("/agents/one%2Fassist", "/agents%2fone/assist", "/v1%2Fassist"):
            answer = http.post(path, json={})
            assert answer.status_code == 404, path
            assert answer.json()["type"] == "urn:coreason:problem:not-found"
        assert http.get("/agents/one%2fhealth").status_code == 404
        assert http.get("/agents/one/health").status_code == 200
