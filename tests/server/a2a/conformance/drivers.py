"""The drivers of the bindings over HTTP, and those of all bindings by name."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import httpx2

from .driver import JSON, Answer, Driver, Received, Refused, reason_in
from .grpc_driver import GRPC


class HTTPDriver(Driver):
    """The common part of the two bindings over HTTP."""

    @property
    def http(self) -> httpx2.Client:
        return self.connections.http

    def exchange(self, operation: str, params: JSON | None = None, **headers: str) -> Answer:
        response = self.send(operation, params, **headers)
        return Answer(self.result(response), response.headers)

    def send(self, operation: str, params: JSON | None = None, **headers: str) -> httpx2.Response:
        """Return the whole response of an operation."""
        return self.http.send(self.request(operation, params or {}, headers))

    @contextmanager
    def stream(self, operation: str, params: JSON, **headers: str) -> Iterator[Iterator[Received]]:
        request = self.request(operation, params, {"Accept": "text/event-stream", **headers})
        response = self.http.send(request, stream=True)
        try:
            if not response.headers["content-type"].startswith("text/event-stream"):
                response.read()
                self.result(response)
                raise AssertionError(f"not a stream: {response.text}")
            found = sse(response.iter_raw())
            yield (Received(self.unwrap(data, response), id_) for data, id_ in found)
        finally:
            response.close()

    def request(self, operation: str, params: JSON, headers: Mapping[str, str]) -> httpx2.Request:
        raise NotImplementedError

    def result(self, response: httpx2.Response) -> Any:
        raise NotImplementedError

    def unwrap(self, event: JSON, response: httpx2.Response) -> JSON:
        raise NotImplementedError


class JSONRPC(HTTPDriver):
    """JSON-RPC 2.0: everything is a POST to one URL."""

    name = "JSONRPC"

    def request(self, operation: str, params: JSON, headers: Mapping[str, str]) -> httpx2.Request:
        body = {"jsonrpc": "2.0", "id": f"for {operation}", "method": operation, "params": params}
        return self.http.build_request("POST", self.url, json=body, headers=self.headers(headers))

    def result(self, response: httpx2.Response) -> Any:
        if response.status_code != 200:
            raise refused_by_http(response)
        return self.unwrap(response.json(), response)

    def unwrap(self, event: JSON, response: httpx2.Response) -> JSON:
        asked = json.loads(response.request.content)
        assert (event["jsonrpc"], event["id"]) == ("2.0", asked["id"])
        assert event.keys() - {"jsonrpc", "id"} in ({"result"}, {"error"})
        if "error" in event:
            self._refuse(event["error"])
        result: JSON = event["result"]
        return result

    def _refuse(self, error: JSON) -> NoReturn:
        reason = reason_in(error.get("data", [])) or JSONRPC_KINDS[error["code"]]
        raise Refused(reason, 200, error)


class REST(HTTPDriver):
    """HTTP+JSON: each operation has a verb and a path."""

    name = "HTTP+JSON"

    def request(self, operation: str, params: JSON, headers: Mapping[str, str]) -> httpx2.Request:
        verb, path = PATHS[operation]
        rest = {name: value for name, value in params.items() if f"{{{name}}}" not in path}
        url = f"{self.url}{path.format_map(params)}"
        if verb == "POST":
            return self.http.build_request(verb, url, json=rest, headers=self.headers(headers))
        query = {name: _in_query(value) for name, value in rest.items()}
        return self.http.build_request(verb, url, params=query, headers=self.headers(headers))

    def result(self, response: httpx2.Response) -> Any:
        if response.status_code == 200:
            return response.json() if response.content else None
        body = response.json()
        if "error" not in body:
            raise refused_by_http(response)
        error = body["error"]
        reason = reason_in(error["details"]) or REST_KINDS[error["status"]]
        raise Refused(reason, response.status_code, error)

    def unwrap(self, event: JSON, response: httpx2.Response) -> JSON:
        return event


Connect = Callable[..., Driver]
"""Makes a driver for a server, a key and a version."""
HTTP_DRIVERS: Mapping[str, type[HTTPDriver]] = {driver.name: driver for driver in (JSONRPC, REST)}
DRIVERS: Mapping[str, type[Driver]] = {**HTTP_DRIVERS, GRPC.name: GRPC}

PATHS = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
JSONRPC_KINDS = {
    -32700: "PARSE_ERROR",
    -32600: "INVALID_REQUEST",
    -32601: "METHOD_NOT_FOUND",
    -32602: "INVALID_PARAMS",
    -32603: "INTERNAL",
}
REST_KINDS = {
    "INVALID_ARGUMENT": "INVALID_PARAMS",
    "UNIMPLEMENTED": "METHOD_NOT_FOUND",
    "INTERNAL": "INTERNAL",
}


def refused_by_http(response: httpx2.Response) -> Refused:
    """Return the refusal for a response that is not one of the binding."""
    status, challenge = response.status_code, response.headers.get("www-authenticate", "")
    reason = {401: "UNAUTHENTICATED"}.get(status, "HTTP")
    return Refused(reason, status, {"text": response.text}, challenge)


def sse(chunks: Iterator[bytes]) -> Iterator[tuple[JSON, str | None]]:
    """Parse an event stream with one line of data in each event."""
    rest = b""
    for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            fields = {name: value for name, _, value in map(_field, block.split(b"\n"))}
            if b"data" in fields:  # otherwise it is a comment
                id_ = fields.get(b"id")
                yield json.loads(fields[b"data"]), None if id_ is None else id_.decode()
    assert not rest, f"the stream ends within an event: {rest!r}"


def _field(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b": ")


def _in_query(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | int) else str(value)
