"""The page over real connections: files, caching, headers, and who is refused."""

import socket
from collections.abc import Iterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.server import AgentApp, running
from coreason_client.server.page._routes import INDEX, PAGE_HEADERS, load_files
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..peer import LIMIT

PATHS = ["/", "/page/config.json", "/page/page.js", "/page/nothing.js", "/page/", "/page/a/b"]
EVIL = "https://evil.example"


async def agent(request: ServiceRequest) -> str:
    return "hello"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx2.Client]:
    app = AgentApp(agent, page=True)
    with running(app) as server, httpx2.Client(base_url=server.url) as client:
        yield client


def has_headers(response: httpx2.Response) -> bool:
    return all(response.headers.get(name) == value for name, value in PAGE_HEADERS.items())


def test_the_index_and_its_files(http: httpx2.Client) -> None:
    index = http.get("/")
    assert (index.status_code, index.content) == (200, load_files()[INDEX].body)
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    for name, file in load_files().items():
        response = http.get(f"/page/{name}")
        assert (response.status_code, response.content) == (200, file.body)
        assert response.headers["content-type"] == file.media_type
        assert response.headers["cache-control"] == "no-cache"


def test_a_file_is_sent_once_and_head_sends_no_body(http: httpx2.Client) -> None:
    etag = http.get("/").headers["etag"]
    again = http.get("/", headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert has_headers(again)
    assert http.get("/", headers={"If-None-Match": '"other"'}).status_code == 200
    head = http.head("/page/page.js")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(load_files()["page.js"].body))
    assert has_headers(head)


@pytest.mark.parametrize("key", [None, "secret"])
def test_the_config_says_whether_a_key_is_needed(serve: Serve, key: str | None) -> None:
    keys = None if key is None else [key]
    response = serve(agent, page=True, agent_id="a", version="1", api_keys=keys).http.get(
        "/page/config.json"
    )
    assert response.headers["cache-control"] == "no-store"
    assert response.json() == {
        "agent_id": "a",
        "version": "1",
        "protocol": "cap",
        "target": None,
        "needs_key": key is not None,
        "adds_key": False,
        "curl_option": ["-H", "Authorization: Bearer {key}"],
        "cut": False,
        "inbox": False,
        "documents": False,
        "card": None,
    }


def test_documents_of_the_agent_are_plain_text_and_no_other_files(serve: Serve) -> None:
    http = serve(AgentApp(agent, page=True, _documents={"docs/a.md": "# A <b>"})).http
    assert http.get("/page/config.json").json()["documents"] is True
    found = http.get("/page/docs/docs/a.md")
    assert (found.status_code, found.text) == (200, "# A <b>")
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert has_headers(found)
    for path in ("docs/b.md", "a.md", "page.js", "..%2fpage.js", ""):
        assert http.get(f"/page/docs/{path}").status_code in {400, 404}


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_the_headers(http: httpx2.Client, path: str) -> None:
    response = http.get(path)
    assert response.status_code == (200 if PATHS.index(path) < 3 else 404)
    assert has_headers(response)


@pytest.mark.parametrize(
    "path",
    [
        *("/page/../app.py", "/page/%2e%2e/_routes.py", "/page/..%2f_routes.py"),
        *("/page/static/page.js", "/page//etc/passwd", "/page/%2fetc%2fpasswd", "/page/page.js%00"),
    ],
)
def test_only_the_files_of_the_table_can_be_read(http: httpx2.Client, path: str) -> None:
    """The path is sent as it is: a client would resolve the dots."""
    with socket.create_connection((http.base_url.host, http.base_url.port), LIMIT) as sock:
        sock.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        head = sock.makefile("rb").readline()
    assert head.split()[1] == b"404"


def test_without_the_option_there_is_no_page(serve: Serve) -> None:
    without = serve(agent).http
    assert [without.get(path).status_code for path in PATHS[:3]] == [404, 404, 404]


def test_no_route_cuts_unless_it_was_asked_for(http: httpx2.Client) -> None:
    assert http.post("/page/cut", json={}).status_code == 405


@pytest.mark.parametrize("path", PATHS[:3])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": EVIL}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"}, 403),
    ],
)
def test_other_sites_are_refused(
    http: httpx2.Client, path: str, headers: dict[str, str], status: int
) -> None:
    assert http.get(path, headers=headers).status_code == status
    assert http.get(path, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_it_works_below_a_mount() -> None:
    app = AgentApp(agent, page=True)
    parent = Starlette(lifespan=app.lifespan, routes=[Mount("/agent", app)])
    with running(parent) as server, httpx2.Client(base_url=server.url) as http:
        assert http.get("/agent/").content == load_files()[INDEX].body
        assert http.get("/agent/page/config.json").json()["agent_id"] == f"{__name__}.agent"
        # Without the slash the relative URLs of the page would be wrong.
        assert http.get("/agent").headers["location"].endswith("/agent/")
