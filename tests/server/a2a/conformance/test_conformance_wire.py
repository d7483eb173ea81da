"""The form of requests, responses, errors and streams of each binding."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from coreason_client.server import StreamLog
from tests.each import each

from .driver import Connections, Driver, Refused
from .drivers import DRIVERS, JSONRPC, REST, Connect, sse
from .messages import UNKNOWN, completed, fresh, interrupted, message
from .refusals import A2A_ERRORS, provoke
from .shapes import canonical
from .sites import Site, site

AUTH = {"Authorization": "Bearer ann-key", "A2A-Version": "1.0"}


@pytest.fixture
def rpc(connections: Connections, plain_server: Site) -> JSONRPC:
    return JSONRPC(connections, plain_server.a2a, "ann-key")


@pytest.fixture
def rest(connections: Connections, plain_server: Site) -> REST:
    return REST(connections, plain_server.a2a, "ann-key")


@pytest.fixture
def drivers(connections: Connections, plain_server: Site) -> list[Driver]:
    """A driver for Ann for each binding."""
    return [
        driver(connections, plain_server.interface(name), "ann-key")
        for name, driver in DRIVERS.items()
    ]


# Errors.


@pytest.mark.parametrize(
    ("text", "code", "with_id"),
    [(r'"\ud83d"', -32602, True), ("NaN", -32700, False), ("1e999", -32602, True)],
    ids=["half a character", "NaN", "too large"],
)
def test_what_json_cannot_represent_is_refused(
    plain_server: Site, text: str, code: int, with_id: bool
) -> None:
    part = f'{{"messageId": "{fresh("tck")}", "role": "ROLE_USER", "parts": [{{"data": {text}}}]}}'
    params = f'{{"message": {part}}}'
    rpc = f'{{"jsonrpc": "2.0", "id": "one", "method": "SendMessage", "params": {params}}}'
    headers = {**AUTH, "Content-Type": "application/json"}
    got = httpx2.post(plain_server.a2a, content=rpc, headers=headers).json()
    assert (got["error"]["code"], got["id"]) == (code, "one" if with_id else None)
    sent = httpx2.post(f"{plain_server.a2a}/message:send", content=params, headers=headers)
    assert (sent.status_code, sent.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.conforms("JSONRPC-ERR-001", "JSONRPC-ERR-002", "JSONRPC-ERR-003", "JSONRPC-SSE-002")
@pytest.mark.parametrize("reason", A2A_ERRORS)
def test_errors_of_json_rpc(rpc: JSONRPC, reason: str) -> None:
    refused = provoke(rpc, reason)
    assert refused.status == 200
    assert refused.error.keys() == {"code", "message", "data"}
    assert refused.error["code"] == A2A_ERRORS[reason][0]
    assert -32099 <= refused.error["code"] <= -32001
    assert isinstance(refused.error["data"], list)


@pytest.mark.conforms("HTTP_JSON-ERR-001", "HTTP_JSON-ERR-002", "HTTP_JSON-STATUS-001")
@pytest.mark.parametrize("reason", A2A_ERRORS)
def test_errors_of_http_json(rest: REST, reason: str) -> None:
    refused = provoke(rest, reason)
    _, http, status = A2A_ERRORS[reason]
    assert refused.status == http
    assert refused.error.keys() == {"code", "status", "message", "details"}
    assert (refused.error["code"], refused.error["status"]) == (http, status)
    assert refused.error["message"]


@pytest.mark.conforms("JSONRPC-FMT-001", "JSONRPC-ERR-001")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ListTasks"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ListTasks"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"Unknown"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"listTasks"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":7}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}', -32602),
    ],
)
def test_requests_that_are_not_json_rpc(
    http: httpx2.Client, plain_server: Site, body: bytes, code: int
) -> None:
    headers = {**AUTH, "Content-Type": "application/json"}
    response = http.post(plain_server.a2a, content=body, headers=headers)
    answer = response.json()
    assert response.status_code == 200
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert answer["error"]["code"] == code
    assert answer["id"] == (1 if b'"id":1' in body else None)


@pytest.mark.conforms("JSONRPC-FMT-001")
@pytest.mark.parametrize("id_", ["text", "", 0, 7, -1, 1.5, None])
def test_the_response_has_the_id_of_the_request(
    http: httpx2.Client, plain_server: Site, id_: Any
) -> None:
    body = {"jsonrpc": "2.0", "id": id_, "method": "ListTasks", "params": {"pageSize": 1}}
    answer = http.post(plain_server.a2a, json=body, headers=AUTH).json()
    assert answer.keys() == {"jsonrpc", "id", "result"}
    assert answer["id"] == id_


@pytest.mark.conforms("HTTP_JSON-ERR-001", "HTTP_JSON-URL-001")
@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/unknown", 404),
        ("GET", "/message:send", 404),
        ("DELETE", "/tasks/x", 404),
        ("POST", "/message:send", 400),
    ],
)
def test_requests_that_are_not_http_json(
    http: httpx2.Client, plain_server: Site, verb: str, path: str, status: int
) -> None:
    headers = {**AUTH, "Content-Type": "application/json"}
    response = http.request(verb, f"{plain_server.a2a}{path}", headers=headers)
    assert response.status_code == status
    assert response.json()["error"]["code"] == status


# Media types.


@pytest.mark.conforms("JSONRPC-FMT-002")
def test_the_media_type_of_json_rpc(rpc: JSONRPC) -> None:
    assert rpc.send("SendMessage", message()).headers["content-type"] == "application/json"
    assert rpc.send("GetTask", {"id": "x"}).headers["content-type"] == "application/json"


@pytest.mark.conforms("HTTP_JSON-SVC-001")
def test_the_media_type_of_http_json(rest: REST) -> None:
    for operation, params in (("SendMessage", message()), ("GetTask", {"id": "x"})):
        plain = rest.send(operation, params)
        assert plain.headers["content-type"] == "application/json"
        named = rest.send(operation, params, Accept="application/a2a+json, application/json")
        assert named.headers["content-type"] == "application/a2a+json"
    sent = rest.send("SendMessage", message(), Content_Type="application/a2a+json")
    assert rest.result(sent)["task"]


@pytest.mark.conforms("JSONRPC-FMT-002")
def test_a_body_that_does_not_say_that_it_is_json(rpc: JSONRPC, rest: REST) -> None:
    for ann in (rpc, rest):
        assert ann.send("SendMessage", message(), Content_Type="text/plain").status_code == 415
    refused = rpc.send("SendMessage", message(), Content_Type="text/plain").json()
    assert refused["error"]["code"] == -32005


# Methods and paths.


@pytest.mark.conforms("JSONRPC-SVC-001", "BIND-EQUIV-001", "GRPC-SVC-001")
@each("operation", UNKNOWN)
def test_every_operation_has_a_method_and_a_path(
    plain_server: Site, connect: Connect, operation: str
) -> None:
    ann = connect(plain_server, "ann-key")
    if operation in ("ListTasks", "GetExtendedAgentCard"):
        assert ann.call(operation, UNKNOWN[operation])
        return
    with pytest.raises(Refused) as refused:
        ann.call(operation, UNKNOWN[operation])
    if operation.startswith("Send"):
        assert refused.value.reason == "INVALID_PARAMS"
    elif "Push" in operation:
        assert refused.value.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
    else:
        assert refused.value.reason == "TASK_NOT_FOUND"


@pytest.mark.conforms("HTTP_JSON-URL-001", "HTTP_JSON-URL-002")
def test_the_paths_of_http_json(http: httpx2.Client, plain_server: Site) -> None:
    base = plain_server.a2a
    task = http.post(f"{base}/message:send", json=message(), headers=AUTH).json()["task"]
    assert http.get(f"{base}/tasks/{task['id']}", headers=AUTH).json() == task
    assert http.get(f"{base}/tasks", headers=AUTH).json()["tasks"]
    waiting = message(fresh("tck-input-required"))
    other = http.post(f"{base}/message:send", json=waiting, headers=AUTH).json()["task"]["id"]
    cancelled = http.post(f"{base}/tasks/{other}:cancel", headers=AUTH).json()
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert http.get(f"{base}/extendedAgentCard", headers=AUTH).json()["name"] == "Extended"


@pytest.mark.conforms("HTTP_JSON-URL-002")
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_subscription_is_a_get_or_a_post(
    http: httpx2.Client, plain_server: Site, rest: REST, verb: str
) -> None:
    task = interrupted(rest)
    url = f"{plain_server.a2a}/tasks/{task['id']}:subscribe"
    with http.stream(verb, url, headers=AUTH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        first, _ = next(sse(response.iter_raw()))
    assert first["task"]["id"] == task["id"]


@pytest.mark.conforms("HTTP_JSON-QP-001")
def test_the_names_in_a_query(http: httpx2.Client, plain_server: Site, rest: REST) -> None:
    context = fresh("context")
    for _ in range(2):
        completed(rest, contextId=context)
    query = f"contextId={context}&pageSize=1&includeArtifacts=true&historyLength=0"
    page = http.get(f"{plain_server.a2a}/tasks?{query}", headers=AUTH).json()
    assert (len(page["tasks"]), page["totalSize"]) == (1, 2)
    assert "history" not in page["tasks"][0]
    assert page["tasks"][0]["artifacts"]
    query += f"&pageToken={page['nextPageToken']}"
    page = http.get(f"{plain_server.a2a}/tasks?{query}", headers=AUTH).json()
    assert (len(page["tasks"]), page["nextPageToken"]) == (1, "")


@pytest.mark.conforms("DM-SERIAL-001", "DM-SERIAL-002", "DM-SERIAL-003")
def test_names_values_and_times_are_those_of_proto_json(rpc: JSONRPC) -> None:
    raw = rpc.send("SendMessage", message(contextId="c")).text
    assert '"contextId":"c"' in raw
    assert '"context_id"' not in raw
    assert '"state":"TASK_STATE_COMPLETED"' in raw
    assert '"role":"ROLE_USER"' in raw
    assert 'Z"' in raw


# Streams.


@pytest.mark.conforms("JSONRPC-SSE-001")
def test_the_events_of_json_rpc_are_responses(http: httpx2.Client, plain_server: Site) -> None:
    body = {"jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": message()}
    with http.stream("POST", plain_server.a2a, json=body, headers=AUTH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [event for event, _ in sse(response.iter_raw())]
    assert len(events) > 1
    for event in events:
        assert (event["jsonrpc"], event["id"]) == ("2.0", "s")
        assert len(event["result"]) == 1


@pytest.mark.conforms("HTTP_JSON-SSE-001")
def test_the_events_of_http_json_are_stream_responses(
    http: httpx2.Client, plain_server: Site
) -> None:
    url = f"{plain_server.a2a}/message:stream"
    with http.stream("POST", url, json=message(), headers=AUTH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [event for event, _ in sse(response.iter_raw())]
    assert "task" in events[0]
    assert all(len(event) == 1 for event in events)


# The bindings together.


@pytest.mark.conforms("BIND-EQUIV-002")
def test_a_task_of_one_binding_is_the_same_in_the_others(drivers: list[Driver]) -> None:
    for ann in drivers:
        task = completed(ann)
        params = {"id": task["id"]}
        read = [canonical("Task", other.call("GetTask", params)) for other in drivers]
        assert read == [canonical("Task", task)] * 3
    params = {"pageSize": 2, "includeArtifacts": True}
    first, *others = [
        canonical("ListTasksResponse", ann.call("ListTasks", params)) for ann in drivers
    ]
    assert others == [first] * 2


@pytest.mark.conforms("BIND-EQUIV-003")
@pytest.mark.parametrize("reason", A2A_ERRORS)
def test_errors_are_the_same_in_all_bindings(drivers: list[Driver], reason: str) -> None:
    rpc, rest, grpc = (provoke(ann, reason).error for ann in drivers)
    assert rpc["data"] == rest["details"]
    assert rpc["message"] == rest["message"]
    if reason != "VERSION_NOT_SUPPORTED":  # a service of gRPC has one version
        assert rpc["message"] == grpc["message"]


def test_a_heartbeat_is_no_event_for_any_client(make_log: Callable[[], StreamLog]) -> None:
    """An empty line after a comment is an event for httpx-sse, once an event had an id."""
    with site(make_log(), heartbeat=0.05) as server, httpx2.Client(headers=AUTH) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
        params = message(fresh("held"))
        with http.stream("POST", server.a2a, json={**body, "params": params}) as response:
            received = b""
            for chunk in response.iter_raw():
                received += chunk
                if b"\n:\n" in received:
                    break
    assert b"id: " in received
    assert b":\n\n" not in received
