import asyncio
import http.client
import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from coreason_client import ArgumentError, LLMClient, LLMError
from coreason_client.testing import ModelTurn, fake_model, record
from coreason_client.testing._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from tests.each import each
from tests.testing.test_loopback import serving

ASK: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def get(url: str, path: str = "/", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.proves("KIT-record-chunks")
def test_each_chunk_is_recorded_as_it_arrived(tmp_path: Path) -> None:
    split = "data: é\n\n".encode()

    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        await response.start(200, [("content-type", "text/event-stream"), ("date", "today")])
        for chunk in (b'data: {"a":1}\n\n', split[:7], split[7:], b"\xff\xfe"):
            await response.send(chunk)
        await response.finish()

    path = tmp_path / "new" / "file.jsonl"
    with serving(answer) as server, record(path, server.url, times=False) as recorder:
        assert get(recorder.url)[1] == b'data: {"a":1}\n\n' + split + b"\xff\xfe"
    assert lines_of(path)[2:] == [
        {
            "response": 1,
            "status": 200,
            "headers": {"content-type": "text/event-stream"},
            "chunked": True,
        },
        {"events": [{"data": {"a": 1}}]},
        {"chunk": "data: ", "after": "c3"},
        {"before": "a9", "chunk": "\n\n"},
        {"base64": "//4="},
        {"end": "complete"},
    ]


def test_the_ends_of_responses_are_recorded(tmp_path: Path) -> None:
    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        if request.path == "/nothing":
            return
        if request.path == "/half":
            await response.start(200, [])
            await response.send(b"half")
        elif request.path == "/stall":
            await response.start(200, [])
            await response.send(b"one")
            await response.until_disconnected()
        else:
            await response.whole(204 if request.path == "/none" else 200, [], b"")

    path = tmp_path / "file.jsonl"
    with serving(answer) as server, record(path, server.url) as recorder:
        with pytest.raises(http.client.RemoteDisconnected):
            get(recorder.url, "/nothing")
        with pytest.raises(http.client.IncompleteRead):
            get(recorder.url, "/half")
        host, port = recorder.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(b"GET /stall HTTP/1.1\r\n\r\n")
            received = b""
            while b"one" not in received:
                received += connection.recv(100)
        assert get(recorder.url, "/none") == (204, b"")
        assert get(recorder.url, "/", "HEAD") == (200, b"")
    ends = [line["end"] for line in lines_of(path) if "end" in line]
    assert ends == ["disconnect", "disconnect", "client left", "complete", "complete"]


def test_a_body_without_a_length_is_passed_on_as_it_arrives(tmp_path: Path) -> None:
    received = threading.Event()

    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        response._head(200, [])
        response._writer.write(b"one")
        await asyncio.to_thread(received.wait, 10)  # the client has it before the end
        response._writer.write(b"two")

    path = tmp_path / "file.jsonl"
    with serving(answer) as server, record(path, server.url, times=False) as recorder:
        connection = http.client.HTTPConnection(recorder.url.removeprefix("http://"), timeout=10)
        connection.request("GET", "/")
        reply = connection.getresponse()
        assert reply.read(3) == b"one"
        received.set()
        assert reply.read() == b"two"
        connection.close()
    chunks = [line["chunk"] for line in lines_of(path) if "chunk" in line]
    assert chunks == ["one", "two"]


def test_the_url_of_the_service_is_that_of_the_recorder(tmp_path: Path) -> None:
    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        url = f"{server.url}/next"
        await response.whole(200, [("location", url)], json.dumps({"url": url}).encode())

    path = tmp_path / "file.jsonl"
    with serving(answer) as server, record(path, f"{server.url}/base/") as recorder:
        assert recorder.url.endswith("/base")
        origin = recorder.url.removesuffix("/base")
        assert json.loads(get(origin)[1]) == {"url": f"{origin}/next"}
    head, _, response, chunk, _ = lines_of(path)
    assert head["base"] == "/base"
    assert response["headers"]["location"] == "http://recording.invalid/next"
    assert "recording.invalid" in chunk["chunk"]
    assert server.url not in path.read_text()


def test_keys_and_secrets_of_the_environment_are_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "of-the-environment")
    path = tmp_path / "file.jsonl"
    text = "sk-the-key-17 of-the-environment of-mine"
    with (
        fake_model(text) as model,
        record(path, f"{model.url}/v1", secrets=["of-mine"]) as recorder,
        LLMClient("sk-the-key-17", recorder.url, "m", provider="openai") as client,
    ):
        client.generate([{"role": "user", "content": text}])
    written = path.read_text()
    for secret in ("sk-the-key-17", "of-the-environment", "of-mine"):
        assert secret not in written
    assert '"content": "*** *** ***"' in written


@pytest.mark.proves("KIT-record-fails")
def test_a_recording_that_fails_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text("old")
    with serving(_empty) as server:
        with pytest.raises(KeyError), record(path, server.url) as recorder:
            get(recorder.url)
            raise KeyError
        assert path.read_text() == "old"
        with record(path, server.url) as recorder:
            get(recorder.url)
    assert len(lines_of(path)) == 4
    assert [*tmp_path.iterdir()] == [path]


async def _empty(request: HTTPRequest, response: ResponseWriter) -> None:
    await response.whole(200, [], b"")


def test_a_service_that_cannot_be_reached_is_an_error_of_the_test(tmp_path: Path) -> None:
    closed = LoopbackServer(_empty, "closed")
    closed.stop()
    path = tmp_path / "file.jsonl"
    failed = pytest.raises(AssertionError, match="the recording failed: cannot connect to 127")
    with failed, record(path, closed.url) as recorder:
        status, body = get(recorder.url)
        assert (status, body[:38]) == (502, b"the recorder cannot connect to 127.0.0")
    assert not path.exists()


@each(
    ("headers", "message"),
    [
        ([("content-encoding", "gzip")], "compressed its answer although it was asked not to"),
        ([("content-length", "x")], "does not speak HTTP/1.1: the length of a body must be"),
    ],
)
def test_an_answer_that_cannot_be_recorded_is_an_error(
    headers: list[tuple[str, str]], message: str, tmp_path: Path
) -> None:
    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        assert dict(request.headers)["accept-encoding"] == "identity"
        response._head(200, headers)
        response.finished = True

    with serving(answer) as server:
        failed = pytest.raises(AssertionError, match=message)
        with failed, record(tmp_path / "file.jsonl", server.url) as recorder:
            assert get(recorder.url)[0] == 502


@each("start", ["HTTP/1.1", "HTTP/1.1 2OO OK", "HTTP/2 200", "SSH-2.0-x 200 OK", "x"])
def test_a_service_that_does_not_speak_http_is_an_error(start: str, tmp_path: Path) -> None:
    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        response._writer.write(f"{start}\r\ncontent-length: 0\r\n\r\n".encode())
        response.finished = True

    with serving(answer) as server:
        failed = pytest.raises(AssertionError, match="a response must begin with")
        with failed, record(tmp_path / "file.jsonl", server.url) as recorder:
            assert get(recorder.url)[0] == 502


def test_a_service_with_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    server = LoopbackServer(_empty, "tls", server_context)
    server.start()
    url = server.url
    path = tmp_path / "file.jsonl"
    try:
        with record(path, url, ssl_context=trusting) as recorder:
            assert get(recorder.url) == (200, b"")
        with pytest.raises(AssertionError, match="certificate"), record(path, url) as recorder:
            assert get(recorder.url)[0] == 502
    finally:
        server.stop()


def test_wrong_use_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="upstream must start with http:// or https://"):
        record(tmp_path / "x", "agent.example")
    recorder = record(tmp_path / "x", "http://agent.example")
    with pytest.raises(RuntimeError, match="only within `with record"):
        _ = recorder.url
    with recorder, pytest.raises(RuntimeError, match="runs already"):
        recorder.__enter__()


def test_the_times_are_those_after_the_request(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    with (
        fake_model("a b") as model,
        record(path, model.url) as recorder,
        LLMClient("k", recorder.url, "m", provider="openai") as client,
    ):
        client.stream(ASK).result()
    times = [line["at"] for line in lines_of(path) if "at" in line]
    assert times == sorted(times)
    assert len(times) == 7
    assert all(0 <= at < 10 for at in times)


def test_a_broken_stream_is_recorded_as_one(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    with (
        fake_model(ModelTurn("a b", disconnect_after=1)) as model,
        record(path, model.url) as recorder,
        LLMClient("k", recorder.url, "m", max_retries=0, provider="openai") as client,
        pytest.raises(LLMError),
    ):
        client.stream(ASK).result()
    assert lines_of(path)[-1] == {"end": "disconnect"}
