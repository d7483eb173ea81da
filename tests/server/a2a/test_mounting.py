"""An agent with A2A below a prefix, alone under an ASGI server, and for web pages."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client import A2AClient
from coreason_client.a2a import AgentCard
from coreason_client.server import A2A, AgentApp, AgentStream, ServiceRequest, running

from ..aio import aio
from ..peer import LIMIT

CARD_PATH = "/.well-known/agent-card.json"
PAGE = "https://app.example"


async def echo(request: ServiceRequest, stream: AgentStream) -> None:
    """Repeats what it hears."""
    if stream.question == "ask":
        await stream.ask("Where?")
    else:
        await stream.write(f"You said: {stream.question}")


def interfaces(card: dict[str, Any]) -> set[str]:
    """Return every URL at which the card says that the agent is."""
    older = [card["url"], *(one["url"] for one in card["additionalInterfaces"])]
    return {*(one["url"] for one in card["supportedInterfaces"]), *older}


def in_fastapi(agent: AgentApp) -> Any:
    app = FastAPI()
    app.mount("/agents/echo", agent)
    return app


def in_starlette(agent: AgentApp) -> Any:
    inner = Starlette(routes=[Mount("/echo", agent)])
    return Starlette(lifespan=agent.lifespan, routes=[Mount("/agents", inner)])


@contextmanager
def mounted(parent: Any, **options: Any) -> Iterator[str]:
    """Serve an agent below a prefix; yield its URL."""
    with running(parent(AgentApp(echo, a2a=True, **options))) as server:
        yield f"{server.url}/agents/echo"


@pytest.mark.parametrize("parent", [in_fastapi, in_starlette])
def test_the_card_below_a_prefix_has_the_prefix_in_its_urls(parent: Any) -> None:
    with mounted(parent) as url:
        assert interfaces(httpx2.get(f"{url}{CARD_PATH}").json()) == {f"{url}/a2a"}
        root = url.removesuffix("/agents/echo")
        assert httpx2.get(f"{root}{CARD_PATH}").status_code == 404


@pytest.mark.parametrize("parent", [in_fastapi, in_starlette])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_mounted_agent_answers_where_its_card_says(
    parent: Any, binding: str, version: str
) -> None:
    with mounted(parent) as url:
        document = httpx2.get(f"{url}{CARD_PATH}").json()
        only = [
            one
            for one in document["supportedInterfaces"]
            if (one["protocolBinding"], one["protocolVersion"]) == (binding, version)
        ]
        card = AgentCard.model_validate({**document, "supportedInterfaces": only})
        with A2AClient.from_agent_card(card) as client:
            assert client.send_message("hello").text == "You said: hello"
            events = client.send_message_stream("again")
            assert "".join(event.text for event in events) == "You said: again"
            asked = client.send_message("ask")
            answered = client.send_message("here", reply_to=asked)
            assert "You said: here" in answered.text


@pytest.mark.parametrize("parent", [in_fastapi, in_starlette])
def test_the_public_url_replaces_address_and_prefix(parent: Any) -> None:
    with mounted(parent, public_url="https://public.example/echo/") as url:
        card = httpx2.get(f"{url}{CARD_PATH}").json()
        assert interfaces(card) == {"https://public.example/echo/a2a"}


def test_no_header_of_a_client_gets_into_the_card() -> None:
    with mounted(in_fastapi, allowed_hosts=["evil.example"]) as url:
        headers = {
            "Host": "evil.example",
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Prefix": "/evil",
            "Forwarded": "host=evil.example",
        }
        response = httpx2.get(f"{url}{CARD_PATH}", headers=headers)
        assert (response.status_code, "evil" in response.text) == (200, False)


# Alone under a server that is not ours: the scope is all that it has in common with ours.


@asynccontextmanager
async def asgi(app: AgentApp, **scope: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async def served(given: Any, receive: Any, send: Any) -> None:
        await app({**given, **scope}, receive, send)

    transport = httpx2.ASGITransport(served)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=LIMIT
        ) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("scope", "url"),
    [
        ({"server": ("127.0.0.1", 8000)}, "http://127.0.0.1:8000/a2a"),
        ({"server": ("::1", 8000), "scheme": "https"}, "https://[::1]:8000/a2a"),
        ({"server": ("127.0.0.1", 1), "root_path": "/x"}, "http://127.0.0.1:1/x/a2a"),
        ({"server": None}, "http://localhost/a2a"),
        ({"server": ("/run/agent.sock", None)}, "http://localhost/a2a"),
    ],
)
@aio
async def test_the_card_has_the_address_of_the_server(scope: dict[str, Any], url: str) -> None:
    async with asgi(AgentApp(echo, a2a=True), **scope) as client:
        prefix = scope.get("root_path", "")
        card = (await client.get(f"{prefix}{CARD_PATH}")).json()
        assert interfaces(card) == {url}


@aio
async def test_an_agent_needs_nothing_but_asgi() -> None:
    async with asgi(AgentApp(echo, a2a=True)) as client:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        headers = {"A2A-Version": "1.0"}
        sent = await client.post("/a2a/message:send", json={"message": message}, headers=headers)
        [artifact] = sent.json()["task"]["artifacts"]
        assert artifact["parts"] == [{"text": "You said: hello"}]


# Web pages.


@pytest.fixture(scope="module")
def for_pages() -> Iterator[str]:
    extended = AgentCard.model_validate(
        {"name": "a", "capabilities": {"extensions": [{"uri": "https://x.example/e"}]}}
    )
    app = AgentApp(echo, a2a=A2A(card=extended), cors_origins=[PAGE])
    with running(app) as server:
        yield server.url


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/a2a"), ("POST", "/a2a/message:stream"), ("GET", "/a2a/tasks"), ("GET", CARD_PATH)],
)
def test_a_page_may_send_what_a2a_needs(for_pages: str, method: str, path: str) -> None:
    wanted = "a2a-version,a2a-extensions,last-event-id,authorization,content-type,if-none-match"
    preflight = httpx2.options(
        f"{for_pages}{path}",
        headers={
            "Origin": PAGE,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": wanted,
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert method in preflight.headers["access-control-allow-methods"]
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in wanted.split(","))


def test_a_page_may_delete_webhooks(for_pages: str) -> None:
    headers = {"Origin": PAGE, "Access-Control-Request-Method": "DELETE"}
    url = f"{for_pages}/a2a/tasks/t/pushNotificationConfigs/c"
    assert httpx2.options(url, headers=headers).status_code == 200


def test_a_page_may_read_the_headers_of_a2a(for_pages: str) -> None:
    card = httpx2.get(f"{for_pages}{CARD_PATH}", headers={"Origin": PAGE})
    exposed = card.headers["access-control-expose-headers"].lower()
    assert "etag" in exposed
    assert "a2a-extensions" in exposed
    headers = {"Origin": PAGE, "A2A-Version": "1.0", "A2A-Extensions": "https://x.example/e"}
    tasks = httpx2.get(f"{for_pages}/a2a/tasks", headers=headers)
    assert tasks.headers["a2a-extensions"] == "https://x.example/e"
    assert tasks.headers["access-control-allow-origin"] == PAGE


def test_without_a2a_a_page_gets_none_of_its_headers() -> None:
    with running(AgentApp(echo, cors_origins=[PAGE])) as server:
        answer = httpx2.get(f"{server.url}/health", headers={"Origin": PAGE})
        assert "a2a" not in answer.headers["access-control-expose-headers"].lower()


# What CAP says about A2A.


@pytest.mark.parametrize("a2a", [False, True])
def test_openapi_names_the_card_if_there_is_one(a2a: bool) -> None:
    with running(AgentApp(echo, a2a=a2a)) as server:
        paths = httpx2.get(f"{server.url}/openapi.json").json()["paths"]
        assert (CARD_PATH in paths) is a2a
        assert httpx2.get(f"{server.url}{CARD_PATH}").status_code == (200 if a2a else 404)
        assert httpx2.get(f"{server.url}/health").json()["status"] == "ok"
        assert httpx2.get(f"{server.url}/ready").json()["status"] == "ready"
