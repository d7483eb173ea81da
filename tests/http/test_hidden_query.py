"""The query of a URL is sent, and is in no log line of the HTTP library at level INFO."""

import logging

import httpx2
import pytest

from coreason_client._http._sync import SyncSender
from coreason_client._http._types import hide_query
from coreason_client.llm import LLMClient
from tests.http.support import WAYS, fetch, post
from tests.llm.server import Replied, ServerInThread

KEY = "query-key-31c9d0"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.parametrize("way", WAYS)
def test_a_query_is_sent_and_not_logged(way: str, lines: pytest.LogCaptureFixture) -> None:
    with ServerInThread(Replied(body=b"{}")) as server:
        assert fetch(way, post(f"{server.url}/a%20b?key={KEY}&x=%2F")).body == b"{}"
        assert fetch(way, post(f"{server.url}/plain")).body == b"{}"
        sent = [received.path for received in server.received]
    assert sent == [f"/a%20b?key={KEY}&x=%2F", "/plain"]
    assert "/a%20b" in lines.text
    assert KEY not in lines.text


def test_the_query_of_a_base_url_is_not_logged(lines: pytest.LogCaptureFixture) -> None:
    answer = Replied(body=b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}')
    with (
        ServerInThread(answer) as server,
        LLMClient("a-key-of-tests", f"{server.url}?key={KEY}", "m") as client,
    ):
        client.generate([{"role": "user", "content": "Hello"}])
        assert [received.path for received in server.received] == [
            f"/v1/chat/completions?key={KEY}"
        ]
    assert "HTTP Request" in lines.text
    assert KEY not in lines.text


def test_a_callers_client_gets_the_whole_url() -> None:
    seen: list[str] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return httpx2.Response(200)

    with httpx2.Client(transport=httpx2.MockTransport(reply)) as client:
        response = SyncSender(client).open(post(f"http://agent.example/?key={KEY}"))
        response.close()
    assert seen == [f"http://agent.example/?key={KEY}"]


def test_a_redirected_request_has_its_own_target() -> None:
    request = httpx2.Request("GET", f"http://agent.example/a?key={KEY}")
    hide_query(request)
    assert request.extensions["target"] == f"/a?key={KEY}".encode()
    extensions = request.extensions
    followed = httpx2.Request("GET", "http://agent.example/b", extensions=extensions)
    hide_query(followed)
    assert followed.extensions["target"] == b"/b"
    assert request.extensions["target"] == f"/a?key={KEY}".encode()
