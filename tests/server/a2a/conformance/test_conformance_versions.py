"""Versions of the protocol: which one a request is for, and how it is answered."""

import json
from itertools import product
from typing import Any

import httpx2
import pytest

from tests.each import each

from .driver import Refused
from .drivers import Connect
from .messages import UNKNOWN, completed, fresh, message
from .sites import Site


def post_v03(
    http: httpx2.Client, server: Site, method: str, params: Any, **headers: str
) -> httpx2.Response:
    headers = {"Authorization": "Bearer ann-key", **headers}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return http.post(server.a2a, json=body, headers=headers)


def v03(http: httpx2.Client, server: Site, method: str, params: Any, **headers: str) -> Any:
    """Call a method of 0.3."""
    return post_v03(http, server, method, params, **headers).json()


def v03_message(message_id: str | None = None) -> dict[str, Any]:
    parts = [{"kind": "text", "text": "Hello."}]
    ids = {"messageId": message_id or fresh(), "role": "user"}
    return {"message": {"kind": "message", **ids, "parts": parts}}


@pytest.mark.conforms("VER-SERVER-001", "VER-CLIENT-002")
@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1.0.7"])
def test_1_0_with_any_patch_number(plain_server: Site, connect: Connect, version: str) -> None:
    completed(connect(plain_server, "ann-key", version))


@pytest.mark.conforms("VER-SERVER-002", "GRPC-META-001")
@each(
    ("version", "operation"),
    product(
        ["99.0", "2.0", "1.1", "0.2", "x", "1"],
        ["SendMessage", "SendStreamingMessage", "ListTasks"],
    ),
)
def test_other_versions_are_refused(
    plain_server: Site, connect: Connect, version: str, operation: str
) -> None:
    with pytest.raises(Refused) as refused:
        connect(plain_server, "ann-key", version).call(operation, UNKNOWN[operation])
    assert refused.value.reason == "VERSION_NOT_SUPPORTED"
    assert "1.0" in refused.value.error["message"]


@pytest.mark.conforms("VER-SERVER-001", "VER-SERVER-003")
@pytest.mark.parametrize("headers", [{}, {"A2A-Version": ""}, {"A2A-Version": "0.3"}])
def test_a_request_without_a_version_is_one_of_0_3(
    http: httpx2.Client, plain_server: Site, headers: dict[str, str]
) -> None:
    answer = v03(http, plain_server, "message/send", v03_message(), **headers)
    task = answer["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "Hello from TCK"}]
    read = v03(http, plain_server, "tasks/get", {"id": task["id"]}, **headers)
    assert read["result"] == task


@pytest.mark.conforms("VER-SERVER-003")
def test_a_method_of_1_0_needs_the_header(plain_server: Site, http: httpx2.Client) -> None:
    for method in ("SendMessage", "GetTask"):
        error = v03(http, plain_server, method, message())["error"]
        assert error["code"] == -32009
        assert "A2A-Version: 1.0" in error["message"]


@pytest.mark.conforms("VER-SERVER-001")
def test_a_method_of_0_3_is_unknown_in_1_0(plain_server: Site, http: httpx2.Client) -> None:
    headers = {"A2A-Version": "1.0"}
    answer = v03(http, plain_server, "message/send", v03_message(), **headers)
    assert answer["error"]["code"] == -32601


def test_the_version_may_be_in_the_query(plain_server: Site, http: httpx2.Client) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}
    url, headers = f"{plain_server.a2a}?A2A-Version=1.0", {"Authorization": "Bearer ann-key"}
    assert "task" in http.post(url, json=body, headers=headers).json()["result"]
    url = f"{plain_server.a2a}/message:send?A2A-Version=1.0"
    assert "task" in http.post(url, json=message(), headers=headers).json()


@pytest.mark.conforms("VER-SERVER-001")
def test_wrong_parameters_of_0_3(plain_server: Site, http: httpx2.Client) -> None:
    for params in ({}, {"message": {"kind": "message"}}, {"message": 7}):
        assert v03(http, plain_server, "message/send", params)["error"]["code"] == -32602


@pytest.mark.conforms("VER-SERVER-001")
@pytest.mark.parametrize("method", ["tasks/resubscribe", "message/stream"])
def test_a_stream_of_0_3_that_fails_is_one_event(
    plain_server: Site, http: httpx2.Client, method: str
) -> None:
    """Clients of 0.3 read the answer to such a method as a stream, whatever it says."""
    params: dict[str, Any] = {"id": "unknown"}
    if method == "message/stream":
        params = v03_message()
        params["message"]["taskId"] = "unknown"
    response = post_v03(http, plain_server, method, params)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.text.startswith("data: ")
    assert response.text.endswith("\n\n")
    answer = json.loads(response.text.removeprefix("data: "))
    assert (answer["id"], answer["error"]["code"]) == (1, -32001)
    assert "not found" in answer["error"]["message"]


@pytest.mark.conforms("VER-SERVER-001")
def test_wrong_parameters_for_a_stream_of_0_3(plain_server: Site, http: httpx2.Client) -> None:
    response = post_v03(http, plain_server, "message/stream", {"message": {"kind": "message"}})
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == -32602


def test_the_root_is_json_rpc_too(http: httpx2.Client, plain_server: Site) -> None:
    headers = {"Authorization": "Bearer ann-key", "A2A-Version": "1.0"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}
    for url in (plain_server.url, f"{plain_server.url}/"):
        assert "task" in http.post(url, json=body, headers=headers).json()["result"]
