"""Tickets over real connections: CAP, A2A over HTTP and gRPC, beside keys, and from FastAPI."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client import A2AClient, ArgumentError, CAPClient
from coreason_client.a2a import GrpcTransport
from coreason_client.a2a.errors import A2AError
from coreason_client.a2a.transport import JsonRpcTransport, RestTransport
from coreason_client.server import A2A, AgentApp, AgentStream, create_ticket, running
from coreason_manifest.definitions.service import ServiceRequest

from .conftest import Serve
from .peer import Peer, envelope

SECRET = "a secret of the application, 32+"
PAGE = "https://app.example"
REFUSED = 'Bearer realm="coreason", error="invalid_token"'
DOCS = Path(__file__).parents[2] / "docs" / "server.md"


async def agent(request: ServiceRequest, stream: AgentStream) -> str:
    """Says who asks."""
    return f"Hello {request.context.user_id}"


def ticket(subject: str = "ann", late: float = 0.0) -> str:
    return create_ticket(SECRET, subject, clock=lambda: time.time() - late)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module", params=[None, ["k"]], ids=["tickets", "tickets and keys"])
def private(request: pytest.FixtureRequest) -> Iterator[Peer]:
    app = AgentApp(agent, api_keys=request.param, ticket_secrets=[SECRET], cors_origins=[PAGE])
    with running(app) as server:
        peer = Peer(server.url)
        yield peer
        peer.close()


@pytest.fixture
def peer(serve: Serve) -> Peer:
    """A server with tickets and keys; a key has the name of a subject."""
    keys = {"key-of-ann": "ann", "key-of-tickets": "tickets/ann"}
    return serve(agent, api_keys=keys, ticket_secrets=[SECRET])


def test_a_new_ticket_resumes_what_the_old_one_began(peer: Peer) -> None:
    body = envelope()
    asked = peer.ask(body, **bearer(ticket()))
    assert asked.status == 200
    new = bearer(ticket(late=1.0))
    assert peer.ask(body, f"{asked.stream_id}:1", **new).seqs == [2]
    path = f"/streams/{asked.stream_id}"
    assert peer.http.get(path, headers=new).content == asked.raw
    assert peer.http.get(path, headers=bearer(ticket("bob"))).status_code == 404


@pytest.mark.parametrize("key", ["key-of-ann", "key-of-tickets"])
def test_a_subject_is_never_the_principal_of_a_key(peer: Peer, key: str) -> None:
    of_ticket = peer.ask(envelope(), **bearer(ticket("ann")))
    of_key = peer.ask(envelope(), **bearer(key))
    assert of_ticket.status == of_key.status == 200
    for answer, other in ((of_ticket, key), (of_key, ticket("ann"))):
        path = f"/streams/{answer.stream_id}"
        assert peer.http.get(path, headers=bearer(other)).status_code == 404
        assert peer.http.delete(path, headers=bearer(other)).status_code == 404


@pytest.mark.parametrize(
    ("headers", "slug", "challenge"),
    [
        ({}, "unauthorized", 'Bearer realm="coreason"'),
        (bearer("nonsense"), "unauthorized", 'Bearer realm="coreason"'),
        ({"Authorization": f"Basic {ticket()}"}, "unauthorized", 'Bearer realm="coreason"'),
        (
            bearer("ticket1.nonsense"),
            "invalid-ticket",
            f'{REFUSED}, error_description="The ticket is not valid."',
        ),
        (
            bearer(ticket(late=1000.0)),
            "ticket-expired",
            f'{REFUSED}, error_description="The ticket has expired."',
        ),
    ],
    ids=["nothing", "no key", "another scheme", "invalid", "expired"],
)
def test_a_refusal_tells_a_page_whether_to_get_a_new_ticket(
    private: Peer, headers: dict[str, str], slug: str, challenge: str
) -> None:
    answer = private.ask(**headers, Origin=PAGE)
    assert (answer.status, answer.problem["type"]) == (401, f"urn:coreason:problem:{slug}")
    assert answer.headers["www-authenticate"] == challenge
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert "WWW-Authenticate" in exposed


def test_a_ticket_is_never_taken_from_a_url(peer: Peer) -> None:
    response = peer.http.post(f"/assist?ticket={ticket()}&access_token={ticket()}", json={})
    assert response.status_code == 401


def test_tickets_make_a_server_private(serve: Serve) -> None:
    app = AgentApp(agent, ticket_secrets=[SECRET], page=True)
    assert app.has_keys
    http = serve(app).http
    assert http.get("/page/config.json").json()["needs_key"] is True
    assert http.get("/openapi.json").json()["components"]["securitySchemes"]
    # A page has no ticket of its own accord, so it may have any origin and name.
    headers = {"Host": "agent.example", "Origin": "null"} | bearer(ticket())
    assert http.post("/assist", json=envelope(), headers=headers).status_code == 200


def test_metrics_are_not_for_users(serve: Serve) -> None:
    with pytest.raises(ArgumentError, match="metrics needs metrics_key, metrics_public=True or"):
        AgentApp(agent, ticket_secrets=[SECRET], metrics=True)
    http = serve(agent, ticket_secrets=[SECRET], metrics=True, metrics_key="m").http
    assert http.get("/metrics", headers=bearer(ticket())).status_code == 401
    assert http.get("/metrics", headers=bearer("m")).status_code == 200


def test_a_key_must_not_look_like_a_ticket() -> None:
    with pytest.raises(ArgumentError, match=r"api_keys must not begin with ticket1\."):
        AgentApp(agent, api_keys=["ticket1.x"])


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    app = AgentApp(agent, ticket_secrets=[SECRET], a2a=A2A(grpc_address="127.0.0.1:0"))
    with running(app) as server:
        yield server.url, f"127.0.0.1:{app.grpc_port}"


def transport(name: str, url: str, grpc: str, token: str) -> Any:
    if name == "grpc":
        return GrpcTransport(grpc, auth=token)
    made = JsonRpcTransport if name == "jsonrpc" else RestTransport
    return made(f"{url}/a2a", auth=token)


@pytest.mark.parametrize("name", ["jsonrpc", "rest", "grpc"])
def test_tickets_work_for_a2a(addresses: tuple[str, str], name: str) -> None:
    with A2AClient.with_transport(transport(name, *addresses, ticket())) as client:
        task: Any = client.send_message("Hi")
        assert task.text == "Hello tickets/ann"
    with A2AClient.with_transport(transport(name, *addresses, ticket(late=1.0))) as client:
        assert client.get_task(task.id).id == task.id
    for token in (ticket(late=1000.0), ticket("bob")):
        with (
            A2AClient.with_transport(transport(name, *addresses, token)) as client,
            pytest.raises(A2AError),
        ):
            client.get_task(task.id)


# Pages that are served elsewhere.


@pytest.fixture(scope="module", params=[None, [SECRET]], ids=["open", "tickets"])
def shared(request: pytest.FixtureRequest) -> Iterator[Peer]:
    app = AgentApp(agent, cors_origins=[PAGE], ticket_secrets=request.param)
    with running(app) as server:
        peer = Peer(server.url)
        yield peer
        peer.close()


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("POST", "/assist", "authorization,content-type,last-event-id,x-request-id"),
        ("GET", "/streams/x", "authorization,last-event-id,cache-control"),
        ("DELETE", "/streams/x", "authorization"),
    ],
)
def test_a_page_of_an_allowed_origin_may_do_all_that_the_client_does(
    shared: Peer, request: pytest.FixtureRequest, method: str, path: str, wanted: str
) -> None:
    http, is_open = shared.http, request.node.callspec.params["shared"] is None
    asks = {
        "Origin": PAGE,
        "Sec-Fetch-Site": "cross-site",
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": wanted,
    }
    allowed = http.options(path, headers=asks)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == PAGE
    names = {name.lower() for name in allowed.headers["access-control-allow-headers"].split(", ")}
    assert set(wanted.split(",")) <= names
    assert method in allowed.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in allowed.headers
    refused = http.options(path, headers=asks | {"Origin": "https://other.example"})
    # Without keys and tickets, no page of another origin may do anything.
    assert refused.status_code == (403 if is_open else 400)
    assert "access-control-allow-origin" not in refused.headers


def test_a_page_of_an_allowed_origin_reads_what_it_needs(shared: Peer) -> None:
    headers = {"Origin": PAGE} | bearer(ticket())
    asked = shared.ask(**headers)
    read = shared.http.get(f"/streams/{asked.stream_id}", headers=headers)
    for answer in (asked, read):
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"X-Request-ID", "X-Stream-ID", "Retry-After", "WWW-Authenticate"} <= set(exposed)


# The recipe.


def test_the_recipe_of_the_documentation_works(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    [recipe] = [block for block in blocks if "create_ticket" in block]
    monkeypatch.setenv("TICKET_SECRET", SECRET)
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipe, "docs/server.md, tickets", "exec"), names)
    app = names["app"]
    with running(app) as server:
        assert httpx2.post(f"{server.url}/agent-ticket").status_code == 401
        app.dependency_overrides[names["signed_in_user"]] = lambda: "ann"
        given = httpx2.post(f"{server.url}/agent-ticket").json()["ticket"]
        with CAPClient(f"{server.url}/agent", given) as client:
            assert client.ask("Hi") == "Hello"
