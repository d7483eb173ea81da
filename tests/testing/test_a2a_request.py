import json
from typing import Any

from coreason_client.testing._fake_a2a import request_of
from coreason_client.testing._loopback import HTTPRequest
from tests.each import each

MESSAGE = {"message": {"parts": [{"text": "Hi "}, {"kind": "text", "text": "there"}, {"data": 1}]}}


def rpc(method: str, params: Any = None, version: str = "1.0") -> HTTPRequest:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = (("a2a-version", version),) if version != "0.3" else ()
    return HTTPRequest("POST", "/a2a", headers, json.dumps(body).encode())


def rest(method: str, target: str, body: Any = None, version: str = "1.0") -> HTTPRequest:
    data = json.dumps(body).encode() if body else b""
    return HTTPRequest(method, target, (("a2a-version", version),), data)


@each(
    ("request_", "operation", "binding", "version", "params"),
    [
        (rpc("SendMessage", MESSAGE), "send_message", "JSONRPC", "1.0", MESSAGE),
        (rpc("message/stream", MESSAGE, "0.3"), "send_message_stream", "JSONRPC", "0.3", MESSAGE),
        (rpc("GetTask", {"id": "1"}), "get_task", "JSONRPC", "1.0", {"id": "1"}),
        (rpc("oops"), "", "JSONRPC", "1.0", {}),
        (rest("POST", "/a2a/message:send", MESSAGE), "send_message", "HTTP+JSON", "1.0", MESSAGE),
        (
            rest("GET", "/a2a/tasks/t%201?historyLength=2"),
            "get_task",
            "HTTP+JSON",
            "1.0",
            {"id": "t 1", "historyLength": "2"},
        ),
        (rest("POST", "/a2a/tasks/1:cancel"), "cancel_task", "HTTP+JSON", "1.0", {"id": "1"}),
        (
            rest("POST", "/a2a/v1/message:stream", MESSAGE, "0.3"),
            "send_message_stream",
            "HTTP+JSON",
            "0.3",
            MESSAGE,
        ),
        (rest("GET", "/.well-known/agent-card.json"), "get_card", "HTTP+JSON", "1.0", {}),
        (rest("GET", "/oops?a=b"), "", "HTTP+JSON", "1.0", {"a": "b"}),
        (HTTPRequest("POST", "/", (), b"oops"), "", "HTTP+JSON", "0.3", {}),
    ],
)
def test_a_request_is_read(
    request_: HTTPRequest, operation: str, binding: str, version: str, params: Any
) -> None:
    read = request_of(request_)
    assert (read.operation, read.binding, read.version) == (operation, binding, version)
    assert read.params == params
    assert read.text == ("Hi there" if params == MESSAGE else "")
