"""A plain client for each binding: it knows the specification and nothing of our own client.

A driver calls operations by their names in the specification. Results are the JSON objects of 1.0,
refusals are `Refused`. A driver for another binding has the same methods `call` and `stream`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import httpx2

LIMIT = 20.0
JSON = dict[str, Any]


class Refused(Exception):
    """An operation that the server refuses.

    `reason` is that of the `ErrorInfo`; an error of JSON-RPC itself has none, and then it is the
    name of its kind: INVALID_PARAMS, METHOD_NOT_FOUND and so on, the same for all bindings.
    """

    def __init__(self, reason: str, status: int, error: JSON) -> None:
        super().__init__(f"{reason}, status {status}: {error}")
        self.reason = reason
        self.status = status
        self.error = error


@dataclass(frozen=True)
class Received:
    """An event of a stream, with the id that it had on the wire."""

    event: JSON
    id: str | None

    @property
    def kind(self) -> str:
        [kind] = self.event
        return kind

    @property
    def body(self) -> JSON:
        body: JSON = self.event[self.kind]
        return body


class HTTPDriver:
    """What the two bindings over HTTP have in common."""

    name = ""

    def __init__(
        self, http: httpx2.Client, url: str, key: str | None = None, version: str | None = "1.0"
    ) -> None:
        self.http = http
        self.url, self.key, self.version = url, key, version

    def with_key(self, key: str | None) -> Self:
        """Return a driver for another caller."""
        return type(self)(self.http, self.url, key, self.version)

    def with_version(self, version: str | None) -> Self:
        """Return a driver that names another version of the protocol, None for none."""
        return type(self)(self.http, self.url, self.key, version)

    def call(self, operation: str, params: JSON | None = None, **headers: str) -> Any:
        """Return the result of an operation."""
        return self.result(self.send(operation, params, **headers))

    def send(self, operation: str, params: JSON | None = None, **headers: str) -> httpx2.Response:
        """Return the whole response of an operation."""
        return self.http.send(self.request(operation, params or {}, headers))

    @contextmanager
    def stream(self, operation: str, params: JSON, **headers: str) -> Iterator[Iterator[Received]]:
        """Call an operation that streams, and give its events."""
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

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {} if self.version is None else {"A2A-Version": self.version}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers | {name.replace("_", "-"): value for name, value in more.items()}

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
            raise Refused("HTTP", response.status_code, {"text": response.text})
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
            raise Refused("HTTP", response.status_code, {"text": response.text})
        error = body["error"]
        reason = reason_in(error["details"]) or REST_KINDS[error["status"]]
        raise Refused(reason, response.status_code, error)

    def unwrap(self, event: JSON, response: httpx2.Response) -> JSON:
        return event


Connect = Callable[..., HTTPDriver]
"""Makes a driver for a URL, a key and a version."""
DRIVERS: Mapping[str, type[HTTPDriver]] = {driver.name: driver for driver in (JSONRPC, REST)}

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


def reason_in(details: list[JSON]) -> str | None:
    """Return the reason of the `ErrorInfo` in the details of an error."""
    for detail in details:
        if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo":
            assert detail["domain"] == "a2a-protocol.org"
            reason: str = detail["reason"]
            return reason
    return None


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
