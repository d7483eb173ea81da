"""A small agent on loopback: JSON-RPC in both dialects, HTTP+JSON, and a card; all over sockets.

It answers as the protocol says. A test changes what happens with `rules`: functions that see a
request first, and may answer it themselves.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from coreason_client.a2a._dialects import V03, V10
from coreason_client.a2a._v03._shapes import push_from_v03, push_to_v03
from coreason_client.server.a2a._v03._conversions import event_to_v03, send_from_v03, task_to_v03

CONTEXT = "context-1"
HANG = object()
CUT = object()


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}


@dataclass
class Answer:
    """The response; in `pieces`, CUT breaks the connection and HANG waits for the end."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    pieces: Iterable[Any] | None = None


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    names = {name.replace("_", "-"): found for name, found in headers.items()}
    return Answer(status, {"content-type": "application/json", **names}, json.dumps(value).encode())


Rule = Callable[[Seen], Answer | None]


class Problem(Exception):
    """An error of the protocol's."""

    def __init__(self, code: int, reason: str, status: int) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.status = status


class Agent:
    """Counts to four; "ask" makes it ask back, "say" makes it answer with a message."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.rules: list[Rule] = []
        self.versions = {"1.0", "0.3"}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.pushes: dict[str, dict[str, Any]] = {}
        self.card_extra: dict[str, Any] = {}
        self.stopped = threading.Event()
        self.url = ""

    # What it does, in the shape of 1.0

    def card(self) -> dict[str, Any]:
        return {
            "name": "Counter",
            "description": "Counts.",
            "version": "1",
            "capabilities": {"streaming": True, "pushNotifications": True},
            "supportedInterfaces": [
                {
                    "url": f"{self.url}/rpc",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                }
            ],
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **self.card_extra,
        }

    def send(self, params: dict[str, Any]) -> dict[str, Any]:
        *_, last = self.stream(params)
        if "message" in last:
            return last
        return {"task": self.tasks[next(reversed(self.tasks))]}

    def stream(self, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        message = params["message"]
        text = "".join(part.get("text", "") for part in message["parts"])
        if text == "say":
            said = {"messageId": "m-1", "role": "ROLE_AGENT", "parts": [{"text": "Said."}]}
            yield {"message": {**said, "contextId": CONTEXT}}
            return
        task_id = message.get("taskId") or f"task-{len(self.tasks) + 1}"
        ids = {"taskId": task_id, "contextId": message.get("contextId") or CONTEXT}
        task: dict[str, Any] = {"id": task_id, "contextId": ids["contextId"]}
        task |= {"status": {"state": "TASK_STATE_SUBMITTED"}, "artifacts": []}
        self.tasks[task_id] = task
        yield {"task": json.loads(json.dumps(task))}
        if text == "ask":
            said = {"messageId": "m-2", "role": "ROLE_AGENT", "parts": [{"text": "Which?"}]}
            task["status"] = {"state": "TASK_STATE_INPUT_REQUIRED", "message": said}
            yield {"statusUpdate": {**ids, "status": task["status"]}}
            return
        parts: list[Any] = []
        task["artifacts"] = [{"artifactId": "a", "parts": parts}]
        for number in range(1, 5):
            part = {"text": f"{number}\u2028"}
            parts.append(part)
            artifact = {"artifactId": "a", "parts": [part]}
            update = {**ids, "artifact": artifact, "append": number > 1, "lastChunk": number == 4}
            yield {"artifactUpdate": update}
        task["status"] = {"state": "TASK_STATE_COMPLETED"}
        yield {"statusUpdate": {**ids, "status": task["status"]}}

    def get(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["id"] not in self.tasks:
            raise Problem(-32001, "TASK_NOT_FOUND", 404)
        return self.tasks[params["id"]]

    def cancel(self, params: dict[str, Any]) -> dict[str, Any]:
        task = self.get(params)
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            raise Problem(-32002, "TASK_NOT_CANCELABLE", 400)
        task["status"] = {"state": "TASK_STATE_CANCELED"}
        return task

    def subscribe(self, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        task = self.get(params)
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            raise Problem(-32004, "UNSUPPORTED_OPERATION", 400)
        return iter([{"task": task}])

    def list_tasks(self, params: dict[str, Any]) -> dict[str, Any]:
        size, start = int(params.get("pageSize", 50)), int(params.get("pageToken") or 0)
        found = list(self.tasks.values())
        more = str(start + size) if start + size < len(found) else ""
        return {
            "tasks": found[start : start + size],
            "nextPageToken": more,
            "pageSize": size,
            "totalSize": len(found),
        }

    def create_push(self, params: dict[str, Any]) -> dict[str, Any]:
        config = {"id": f"push-{len(self.pushes) + 1}", **params}
        config.pop("tenant", None)
        self.pushes[config["id"]] = config
        return config

    def get_push(self, params: dict[str, Any]) -> dict[str, Any]:
        return self.pushes[params["id"]]

    def list_pushes(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"configs": list(self.pushes.values())}

    def delete_push(self, params: dict[str, Any]) -> None:
        self.pushes.pop(params["id"], None)

    def extended_card(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**self.card(), "name": "Counter for friends"}

    @property
    def operations(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "send_message": self.send,
            "send_message_stream": self.stream,
            "get_task": self.get,
            "list_tasks": self.list_tasks,
            "cancel_task": self.cancel,
            "resubscribe": self.subscribe,
            "create_push_config": self.create_push,
            "get_push_config": self.get_push,
            "list_push_configs": self.list_pushes,
            "delete_push_config": self.delete_push,
            "get_extended_card": self.extended_card,
        }

    # How it is said

    def answer(self, seen: Seen) -> Answer:
        for rule in self.rules:
            if (found := rule(seen)) is not None:
                return found
        if seen.path == "/.well-known/agent-card.json":
            return as_json(self.card())
        if seen.path == "/rpc":
            return self._rpc(seen)
        return self._rest(seen)

    def _rpc(self, seen: Seen) -> Answer:
        call = seen.json
        assert call["jsonrpc"] == "2.0"
        for dialect in (V10, V03):
            names = {method: name for name, method in dialect.methods.items()}
            if call["method"] not in names:
                continue
            if dialect.version not in self.versions:
                break
            if seen.headers.get("a2a-version", "0.3") != dialect.version:
                return self._error(call, -32009, "VERSION_NOT_SUPPORTED")
            return self._reply(call, names[call["method"]], dialect is V03)
        return self._error(call, -32601, None)

    def _reply(self, call: Any, name: str, old: bool) -> Answer:
        params = _from_v03(name, call.get("params") or {}) if old else call.get("params", {})
        try:
            result = self.operations[name](params)
        except Problem as problem:
            return self._error(call, problem.code, problem.reason)
        envelope = {"jsonrpc": "2.0", "id": call["id"]}
        if name in ("send_message_stream", "resubscribe"):
            events = (event_to_v03(event) if old else event for event in result)
            return stream_of({**envelope, "result": event} for event in events)
        return as_json({**envelope, "result": _to_v03(name, result) if old else result})

    def _error(self, call: Any, code: int, reason: str | None) -> Answer:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
        error = {"code": code, "message": "no", "data": [info] if reason else None}
        return as_json({"jsonrpc": "2.0", "id": call["id"], "error": error})

    def _rest(self, seen: Seen) -> Answer:
        assert seen.headers.get("a2a-version") == "1.0"
        for name, (verb, template) in V10.paths.items():
            pattern = "/rest(?:/tenant-1)?" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", template)
            match = re.fullmatch(pattern, seen.path)
            if match is None or seen.method != verb:
                continue
            places = {key: unquote(value) for key, value in match.groupdict().items()}
            try:
                result = self.operations[name]({**seen.query, **seen.json, **places})
            except Problem as problem:
                return _rest_error(problem)
            if name in ("send_message_stream", "resubscribe"):
                return stream_of(result)
            return as_json({} if result is None else result, content_type="application/a2a+json")
        return as_json({"error": {"code": 404, "message": "no such page"}}, 404)


def _from_v03(name: str, params: Any) -> Any:
    if name in ("send_message", "send_message_stream"):
        assert params["message"]["kind"] == "message"
        return send_from_v03(params)
    if name == "create_push_config":
        return push_from_v03(params)
    if "pushNotificationConfigId" in params:
        return {"taskId": params["id"], "id": params["pushNotificationConfigId"]}
    return params


def _to_v03(name: str, result: Any) -> Any:
    if name == "send_message":
        return event_to_v03(result)
    if name in ("get_task", "cancel_task"):
        return task_to_v03(result)
    if name in ("create_push_config", "get_push_config"):
        return push_to_v03(result)
    return [push_to_v03(c) for c in result["configs"]] if name == "list_push_configs" else result


def _rest_error(problem: Problem) -> Answer:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": problem.reason}
    error = {"code": problem.status, "status": "X", "message": "no", "details": [info]}
    return as_json({"error": error}, problem.status)


def stream_of(values: Iterable[Any]) -> Answer:
    """Answer with server-sent events; what is no JSON value (CUT, HANG) is passed on."""
    pieces = (
        value
        if value is CUT or value is HANG
        else b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
        for value in values
    )
    return Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    agent: Agent

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client is gone
            self.close_connection = True

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(parts.query))
        seen = Seen(self.command, parts.path, query, headers, body)
        self.agent.seen.append(seen)
        answer = self.agent.answer(seen)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.pieces is None:
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            if piece is HANG:
                self.agent.stopped.wait(30)
            if piece is CUT or piece is HANG:
                self.close_connection = True
                return
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - named by the base class

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def serve(port: int = 0) -> Iterator[Agent]:
    """Serve an agent for the length of a block, on a free port unless one is given."""
    agent = Agent()
    handler = type("Handler", (_Handler,), {"agent": agent})
    server = _Server(("127.0.0.1", port), handler)
    agent.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        agent.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
