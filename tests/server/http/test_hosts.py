"""Host and Origin: the rules as a table, as properties, and over real connections."""

import logging
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.http._hosts import AllowedHosts
from coreason_manifest.definitions.service import ServiceRequest
from tests.each import each

from ..peer import LIMIT, Peer, envelope, wait_for

LOOPBACK = ("127.0.0.1", 8000)
PAGE = "https://page.example"


def verdict(
    headers: Iterable[tuple[str, str]], server: object = LOOPBACK, **options: Any
) -> int | None:
    """Return the status of the refusal, None for a request that is let in."""
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    problem = AllowedHosts(**options).refusal(raw, server)
    return None if problem is None else problem.status


# The Host rule

THIS_MACHINE = [
    *("localhost", "localhost:8000", "LOCALHOST", "localhost.", "localhost.:8000", "localhost:"),
    *("agent.localhost", "a.b.localhost:1", "Agent.LocalHost."),
    *("127.0.0.1", "127.0.0.1:8000", "127.9.9.9", "10.1.2.3", "192.168.0.7:80", "8.8.8.8"),
    *("[::1]", "[::1]:8000", "[fe80::1]", "[::ffff:127.0.0.1]:80", "[2001:db8::1]:443"),
]
SOMEBODY_ELSE = [
    *("evil.example", "evil.example:8000", "evil.example.", "localhost.evil.example", "x"),
    *("notlocalhost", "evil-localhost", "127.0.0.1.evil.example", "1.2.3.4.5", "127.1", "0x7f.1"),
    *("", ".", "..", ":8000", "localhost:80:80", "localhost:evil", "localhost@evil.example"),
    *("evil.example/localhost", "evil.example#localhost", "localhost evil.example", "::1", "[::1"),
    *(
        "[evil.example]",
        "[127.0.0.1]",
        "[]",
        "localhost,evil.example",
        "lo\xe7alhost",
        "localhost..x",
    ),
]


@each("host", THIS_MACHINE)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert verdict([("Host", host)]) is None


@each("host", SOMEBODY_ELSE)
@pytest.mark.parametrize(
    "server", [LOOPBACK, ("::1", 1), ("::ffff:127.0.0.1", 1), ["127.8.7.6", 1]]
)
def test_other_names_are_misdirected_on_loopback(host: str, server: object) -> None:
    assert verdict([("Host", host)], server) == 421


@pytest.mark.parametrize("host", ["evil.example", "agent:8000", "nonsense of any kind", ""])
@pytest.mark.parametrize(
    "server",
    [
        *(("10.0.0.5", 8000), ("::", 80), ("2001:db8::1", 80), ("0.0.0.0", 1)),
        *(("testserver", 80), ("localhost", 80), ("/run/agent.sock", None), None, (), (None, None)),
    ],
)
def test_the_name_is_free_where_no_page_can_rebind_it(host: str, server: object) -> None:
    """A container, a unix socket, a test client: what they are called cannot be known here."""
    assert verdict([("Host", host)], server) is None


def test_without_a_host_there_is_no_name_to_check() -> None:
    assert verdict([]) is None


def test_every_host_must_do() -> None:
    assert verdict([("Host", "localhost"), ("Host", "evil.example")]) == 421


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ("agent.example", "agent.example", None),
        ("agent.example", "AGENT.example.:99", None),
        ("Agent.Example.", "agent.example", None),
        ("agent.example", "x.agent.example", 421),
        ("agent.example", "agent.example.evil", 421),
        ("*.example", "a.example", None),
        ("*.example", "a.b.example:1", None),
        ("*.example", "example", 421),
        ("*.example", ".example", 421),
        ("*.example", "evilexample", 421),
        ("*", "anything.example", None),
        ("*", "localhost evil", 421),
        ("agent_1", "agent_1:80", None),
    ],
)
def test_allowed_hosts(allowed: str, host: str, status: int | None) -> None:
    assert verdict([("Host", host)], allowed_hosts=[allowed]) == status


@pytest.mark.parametrize(
    "host",
    [
        "",
        "http://agent.example",
        "agent.example:80",
        "a b",
        "*x",
        "a.*",
        "é",
        "..",
        "[::1]",
        7,
        None,
    ],
)
def test_what_is_no_name_is_refused_at_once(host: Any) -> None:
    with pytest.raises(ValueError, match=r"allowed_hosts must have names such as .* got"):
        AllowedHosts(allowed_hosts=[host])


def test_one_string_is_not_a_list_of_hosts() -> None:
    with pytest.raises(TypeError, match="allowed_hosts must be a list"):
        AllowedHosts(allowed_hosts="agent.example")


@pytest.mark.parametrize(
    "origin",
    [PAGE + "/", PAGE + "/path", "https://Page.example", "page.example", "https://", "", " *", 7],
)
def test_an_origin_that_no_browser_sends_is_refused_at_once(origin: Any) -> None:
    with pytest.raises(ValueError, match=r"cors_origins must have origins .* final slash.* got"):
        AgentApp(hello, cors_origins=[origin])


def test_one_string_is_not_a_list_of_origins() -> None:
    with pytest.raises(TypeError, match="cors_origins must be a list"):
        AgentApp(hello, cors_origins=PAGE)


@pytest.mark.parametrize("url", ["agent.example", "ftp://agent.example", "https://", "", 7])
def test_a_public_url_is_a_url(url: Any) -> None:
    with pytest.raises(ValueError, match="public_url must be a URL such as"):
        AllowedHosts(public_url=url)


# The Origin rule


@pytest.mark.parametrize("server", [LOOPBACK, ("10.0.0.5", 80), None])
@pytest.mark.parametrize(
    ("site", "origin", "host", "status"),
    [
        # no page asks
        (None, None, "localhost:8000", None),
        ("none", None, "localhost:8000", None),
        # the browser's word
        ("same-origin", "http://localhost:8000", "localhost:8000", None),
        ("same-origin", "https://agent.example", "127.0.0.1:8000", None),
        ("none", "null", "localhost:8000", None),
        ("cross-site", PAGE, "localhost:8000", 403),
        ("cross-site", None, "localhost:8000", 403),
        ("same-site", "http://localhost:3000", "localhost:8000", 403),
        ("same-site", None, "localhost:8000", 403),
        ("cross-site", "http://localhost:8000", "localhost:8000", 403),
        ("nonsense", PAGE, "localhost:8000", 403),
        ("SAME-ORIGIN", PAGE, "localhost:8000", 403),
        # an older browser
        (None, "http://localhost:8000", "localhost:8000", None),
        (None, "HTTP://LocalHost:8000", "localhost.:8000", None),
        (None, "http://localhost", "localhost", None),
        (None, "http://localhost:80", "localhost", None),
        (None, "https://localhost", "localhost:443", None),
        (None, "https://localhost", "localhost", None),
        (None, "http://[::1]:8000", "[::1]:8000", None),
        (None, "http://localhost:3000", "localhost:8000", 403),
        (None, "http://localhost", "localhost:8000", 403),
        (None, "http://127.0.0.1:8000", "localhost:8000", 403),
        (None, PAGE, "localhost:8000", 403),
        (None, "null", "localhost:8000", 403),
        (None, "", "localhost:8000", 403),
        (None, "file://", "localhost:8000", 403),
        (None, "chrome-extension://abc", "localhost:8000", 403),
        (None, "http://localhost:8000.evil.example", "localhost:8000", 403),
        (None, "http://evil@localhost:8000", "localhost:8000", 403),
        (None, "http://localhost:8000/", "localhost:8000", 403),
        (None, PAGE, None, 403),
    ],
)
def test_origins(
    site: str | None, origin: str | None, host: str | None, status: int | None, server: object
) -> None:
    given = [("Host", host), ("Sec-Fetch-Site", site), ("Origin", origin)]
    headers = [(name, value) for name, value in given if value is not None]
    assert verdict(headers, server) == status


@pytest.mark.parametrize(
    ("options", "origin", "status"),
    [
        ({"cors_origins": [PAGE]}, PAGE, None),
        ({"cors_origins": [PAGE]}, "https://PAGE.example:443", None),
        ({"cors_origins": [PAGE]}, "http://page.example", 403),
        ({"cors_origins": [PAGE]}, "https://other.example", 403),
        ({"cors_origins": [PAGE]}, "null", 403),
        ({"cors_origins": ["null"]}, "null", 403),
        ({"cors_origins": ["*"]}, "https://other.example", None),
        ({"cors_origins": ["*"]}, "null", None),  # everybody is everybody
        ({"cors_origins": ["chrome-extension://abc"]}, "chrome-extension://abc", None),
        ({"cors_origins": ["chrome-extension://abc"]}, "chrome-extension://abd", 403),
        ({"public_url": "https://agent.example/base"}, "https://agent.example", None),
        ({"public_url": "https://agent.example/base"}, "http://agent.example", 403),
        ({"allowed_hosts": ["page.example"]}, PAGE, 403),
    ],
)
@pytest.mark.parametrize("site", [None, "cross-site"])
def test_origins_that_are_named(
    options: dict[str, Any], origin: str, status: int | None, site: str | None
) -> None:
    headers = [("Host", "localhost:8000"), ("Origin", origin)]
    if site is not None:
        headers.append(("Sec-Fetch-Site", site))
    assert verdict(headers, **options) == status


def test_the_host_of_the_public_url_is_a_name_of_this_machine() -> None:
    headers = [("Host", "agent.example"), ("Origin", "https://agent.example")]
    assert verdict(headers, public_url="https://agent.example") is None
    assert verdict(headers) == 421


# Whatever is sent

names = st.from_regex(r"[a-z0-9-]{1,10}(\.[a-z0-9-]{1,10}){0,3}", fullmatch=True)
texts = (
    st.text(st.characters(max_codepoint=255), max_size=40) | names | st.sampled_from(THIS_MACHINE)
)


@given(host=texts, port=st.integers(0, 99999))
def test_the_port_of_a_host_changes_nothing(host: str, port: int) -> None:
    if ":" not in host.rpartition("]")[2]:
        assert verdict([("Host", host)]) == verdict([("Host", f"{host}:{port}")])


@given(name=names)
def test_a_name_is_answered_exactly_if_it_is_allowed(name: str) -> None:
    local = verdict([("Host", name)]) is None
    is_ipv4 = name.count(".") == 3 and name.replace(".", "").isdigit()
    assert local is (name == "localhost" or name.endswith(".localhost")) or is_ipv4
    assert verdict([("Host", name)], allowed_hosts=[name]) is None


@given(
    headers=st.lists(st.tuples(st.sampled_from(["Host", "Origin", "Sec-Fetch-Site", "X"]), texts)),
    server=st.none() | st.tuples(texts, st.none() | st.integers()),
)
def test_no_header_breaks_the_rules(headers: list[tuple[str, str]], server: object) -> None:
    assert verdict(headers, server) in {None, 403, 421}


@given(origin=texts)
def test_a_foreign_origin_is_let_in_only_by_the_host_that_it_names(origin: str) -> None:
    if "127.0.0.1" not in origin:
        assert verdict([("Host", "127.0.0.1:8000"), ("Origin", origin)]) == 403


# Real requests


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    app = AgentApp(hello, metrics=True, allowed_hosts=["agent.example"], cors_origins=[PAGE])
    with running(app) as server:
        shared = Peer(server.url)
        yield shared
        shared.close()


PATHS = [
    ("POST", "/assist"),
    ("POST", "/v1/assist"),
    ("POST", "/assist/"),
    ("DELETE", "/streams/123e4567-e89b-12d3-a456-426614174000"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/nothing"),
    ("GET", "/health"),
    ("GET", "/health/"),
    ("GET", "/ready"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_path_answers_to_a_rebound_name(peer: Peer, method: str, path: str) -> None:
    headers = {"Host": "evil.example", "Content-Type": "application/json"}
    answer = peer.http.request(method, path, json=envelope(), headers=headers)
    assert answer.status_code == 421
    problem = answer.json()
    assert problem["type"] == "urn:coreason:problem:host-not-allowed"
    assert problem["title"] == "Misdirected request"
    assert "allowed_hosts" in problem["detail"]
    assert "--allowed-host" in problem["detail"]
    assert "evil.example" not in answer.text


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_path_answers_a_foreign_page(peer: Peer, method: str, path: str) -> None:
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = peer.http.request(method, path, json=envelope(), headers=headers)
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:coreason:problem:origin-not-allowed"
    assert "evil.example" not in answer.text
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/health", "/health/", "/ready"])
@pytest.mark.parametrize("host", ["10.0.0.7", "10.0.0.7:8000", "[fd00::1]:80", "localhost"])
def test_probes_by_address_are_answered(peer: Peer, path: str, host: str) -> None:
    """As those of kubernetes and of balancers, which name no host but the address of the pod."""
    assert peer.http.get(path, headers={"Host": host}).status_code == 200


def test_a_probe_without_a_host_is_answered(peer: Peer) -> None:
    url = peer.http.base_url
    with socket.create_connection((url.host, url.port or 0), LIMIT) as sock:
        sock.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")


def test_named_hosts_and_origins_are_answered(peer: Peer) -> None:
    assert peer.ask(Host="agent.example:1").text == "hello"
    assert peer.ask(Host="localhost").text == "hello"
    answer = peer.ask(Origin=PAGE, Sec_Fetch_Site="cross-site")
    assert answer.text == "hello"
    assert answer.headers["access-control-allow-origin"] == PAGE
    preflight = peer.http.options(
        "/assist",
        headers={
            "Origin": PAGE,
            "Sec-Fetch-Site": "cross-site",
            "Access-Control-Request-Method": "POST",
        },
    )
    assert preflight.status_code == 200


def test_with_keys_every_name_is_answered() -> None:
    """A page does not have the key, and a browser does not add it by itself."""
    with running(AgentApp(hello, api_keys=["a"])) as server:
        keyed = Peer(server.url, "a")
        answer = keyed.ask(Host="evil.example", Origin="null", Sec_Fetch_Site="cross-site")
        assert answer.text == "hello"
        assert keyed.http.get("/openapi.json", headers={"Host": "x"}).status_code == 200
        keyed.close()


def test_a_mounted_application_has_the_same_rules() -> None:
    agent = AgentApp(hello)
    parent = Starlette(lifespan=agent.lifespan, routes=[Mount("/agent", agent)])
    with running(parent) as server:
        peer = Peer(server.url)
        post = {"json": envelope(), "headers": {"Host": "evil.example"}}
        assert peer.http.post("/agent/assist", **post).status_code == 421  # type: ignore[arg-type]
        headers = {"Host": "evil.example"}
        assert peer.http.get("/agent/health", headers=headers).status_code == 421
        assert peer.http.get("/agent/health").status_code == 200
        assert peer.http.post("/agent/assist", json=envelope()).status_code == 200
        peer.close()


def test_a_test_client_keeps_working() -> None:
    with TestClient(AgentApp(hello)) as client:
        assert client.post("/assist", json=envelope()).status_code == 200


def test_a_unix_socket_has_no_name(tmp_path: Path) -> None:
    path, listening = str(tmp_path / "agent.sock"), threading.Event()

    async def notify() -> None:
        listening.set()

    config = uvicorn.Config(AgentApp(hello), uds=path, log_config=None, callback_notify=notify)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    transport = httpx2.HTTPTransport(uds=path)
    try:
        with httpx2.Client(transport=transport, base_url="http://evil.example") as client:
            wait_for(listening)
            assert client.post("/assist", json=envelope()).status_code == 200
            headers = {"Origin": PAGE}
            assert client.post("/assist", json=envelope(), headers=headers).status_code == 403
    finally:
        server.should_exit = True
        thread.join(LIMIT)


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    with running(AgentApp(hello)) as server:
        address = (server.host, server.port)
        with socket.create_connection(address, timeout=LIMIT) as sock:
            sock.sendall(
                b"POST /assist HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n"
                b"Content-Length: 200000\r\n\r\n"
            )
            for _ in range(200):
                sock.sendall(b"x" * 1000)
            with sock.makefile("rb") as reader:
                assert reader.readline().split()[1] == b"421"


def test_the_operator_reads_which_name_it_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coreason_client.server")
    with TestClient(AgentApp(hello)) as client:
        client.post("/assist", json=envelope(), headers={"Origin": "https://evil.example"})
    (record,) = [r for r in caplog.records if getattr(r, "event", None) == "refused"]
    assert record.levelno == logging.INFO
    assert "'https://evil.example'" in record.getMessage()
    assert (record.__dict__["status"], record.__dict__["problem"]) == (403, "origin-not-allowed")
