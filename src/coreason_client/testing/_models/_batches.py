"""Batches, files and token counts of the fake model, as OpenAI, Anthropic and Gemini have them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from itertools import count
from typing import Any

from .._loopback import HTTPRequest
from ._anthropic_wire import ANTHROPIC
from ._chat_wire import CHAT
from ._gemini_wire import GEMINI
from ._responses_wire import RESPONSES
from ._wire import CREATED, Wire, dumped

Sent = tuple[int, Mapping[str, str], bytes]
"""The status, the headers and the body of a response."""

Answer = Callable[[Wire, str, dict[str, Any], HTTPRequest], tuple[int, Mapping[str, Any]]]
"""Answers one request of a batch, given its path and body; returns a status and a body."""

_Asked = tuple[str, Wire, str, dict[str, Any]]  # the id, the wire, the path and the body

_TIME = "2023-11-14T22:13:20Z"  # CREATED
_JSON = {"content-type": "application/json"}
_UPLOADS = "/upload/"
_COUNTS = (
    (re.compile(r"/responses/input_tokens$"), RESPONSES, "input_tokens"),
    (re.compile(r"/messages/count_tokens$"), ANTHROPIC, "input_tokens"),
    (re.compile(r":countTokens$"), GEMINI, "totalTokens"),
)
_FILE = re.compile(r"/files/([\w-]+)(/content)?$", re.ASCII)
_BATCH = re.compile(r"/batches/([\w-]+)((?:[/:]cancel|/results)?)$", re.ASCII)


@dataclass(slots=True)
class _StoredFile:
    name: str
    media_type: str
    data: bytes
    purpose: str = ""


@dataclass(slots=True)
class _StoredBatch:
    """A batch; `results` has the id, the status and the body of each request."""

    kind: str  # the provider
    id: str
    polls: int  # status requests until it has ended
    created: Mapping[str, Any]
    results: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        return self.cancelled or self.polls <= 0

    def counts(self, *, running: bool) -> tuple[int, int, int]:
        """Return the number of requests, and how many have succeeded and failed."""
        good = sum(status == 200 for _, status, _ in self.results)
        total = len(self.results)
        return (total, 0, 0) if running or self.cancelled else (total, good, total - good)


class FakeBatches:
    """The files and batches that clients have stored; `polls` is for each batch."""

    def __init__(self, answer: Answer, polls: int) -> None:
        self._answer = answer
        self._polls = polls
        self._files: dict[str, _StoredFile] = {}
        self._numbers = count(1)
        self._batches: dict[str, _StoredBatch] = {}

    def handle(self, request: HTTPRequest, origin: str) -> Sent | None:
        """Return the response to a request, None if it is for something else."""
        method, path = request.method, request.path
        if method == "POST":
            found = self._count(request) or self._submit(request) or self._upload(request, origin)
            if found is not None:
                return found
        if (match := _BATCH.search(path)) is not None:
            return self._batch(method, match[1], match[2], origin + path)
        if (match := _FILE.search(path)) is not None and match[1] in self._files:
            return self._file(request, match[1], match[2], origin)
        return None

    # Token counts: the number of words.

    def _count(self, request: HTTPRequest) -> Sent | None:
        for pattern, wire, name in _COUNTS:
            if pattern.search(request.path):
                body = json.loads(request.body)
                messages = wire.read("", body.get("generateContentRequest", body)).messages
                words = sum(len(str(message["content"]).split()) for message in messages)
                kind = {"object": "response.input_tokens"} if wire is RESPONSES else {}
                return _sent({name: words, **kind})
        return None

    # Files.

    def _upload(self, request: HTTPRequest, origin: str) -> Sent | None:
        headers = dict(request.headers)
        if request.path.startswith(_UPLOADS):
            return self._gemini_upload(request, headers, origin)
        if not request.path.endswith("/files"):
            return None
        form = message_from_bytes(
            b"Content-Type: %b\r\n\r\n%b" % (headers["content-type"].encode(), request.body)
        )
        fields: dict[str, Any] = {}
        for part in form.walk():
            name = part.get_param("name", header="content-disposition")
            if isinstance(name, str):
                fields[name] = part
        data = fields["file"].get_payload(decode=True)
        kind = fields["file"].get_content_type()
        purpose = fields["purpose"].get_payload() if "purpose" in fields else ""
        id_ = self._store(_StoredFile(fields["file"].get_filename(), kind, data, purpose))
        return _sent(self._described(id_, headers, origin))

    def _gemini_upload(self, request: HTTPRequest, headers: Any, origin: str) -> Sent:
        if headers.get("x-goog-upload-command") == "start":
            described = json.loads(request.body or b"{}").get("file", {})
            kind = headers["x-goog-upload-header-content-type"]
            id_ = self._store(_StoredFile(str(described.get("displayName", "")), kind, b""))
            return _sent({}, **{"x-goog-upload-url": f"{origin}{request.path}?upload_id={id_}"})
        id_ = request.target.rpartition("upload_id=")[2]
        self._files[id_].data += request.body
        described = {"file": self._described(id_, headers, origin)}
        return _sent(described, **{"x-goog-upload-status": "final"})

    def _store(self, file: _StoredFile) -> str:
        id_ = f"file-{next(self._numbers)}"
        self._files[id_] = file
        return id_

    def _described(self, id_: str, headers: Mapping[str, str], origin: str) -> dict[str, Any]:
        file = self._files[id_]
        size = len(file.data)
        if "anthropic-version" in headers:
            about = {"filename": file.name, "mime_type": file.media_type, "size_bytes": size}
            return {"id": id_, "type": "file", "created_at": _TIME, **about}
        if file.purpose:
            about = {"filename": file.name, "bytes": size, "purpose": file.purpose}
            stored = {"object": "file", "created_at": CREATED, "status": "processed"}
            return {"id": id_, **stored, **about}
        name = f"files/{id_}"
        about = {"displayName": file.name, "mimeType": file.media_type, "sizeBytes": str(size)}
        return {"name": name, "uri": f"{origin}/v1beta/{name}", "state": "ACTIVE", **about}

    def _file(self, request: HTTPRequest, id_: str, content: str | None, origin: str) -> Sent:
        if request.method == "DELETE":
            file = self._files.pop(id_)
            deleted = {"object": "file", "deleted": True} if file.purpose else {}
            return _sent({"id": id_, **deleted})
        if content:
            return 200, {"content-type": "application/octet-stream"}, self._files[id_].data
        return _sent(self._described(id_, dict(request.headers), origin))

    # Batches.

    def _submit(self, request: HTTPRequest) -> Sent | None:
        path = request.path
        if path.endswith("/messages/batches"):
            body = json.loads(request.body)
            asked = [(one["custom_id"], ANTHROPIC, path, one["params"]) for one in body["requests"]]
            return self._create("anthropic", body, asked, request)
        if path.endswith(":batchGenerateContent"):
            body = json.loads(request.body)["batch"]
            single = path.replace(":batchGenerateContent", ":generateContent")
            listed = body["inputConfig"]["requests"]["requests"]
            asked = [
                (one.get("metadata", {}).get("key", ""), GEMINI, single, one["request"])
                for one in listed
            ]
            return self._create("gemini", body, asked, request)
        if path.endswith("/batches"):
            body = json.loads(request.body)
            lines = self._files[body["input_file_id"]].data.splitlines()
            wire = RESPONSES if body["endpoint"].endswith("/responses") else CHAT
            found = [json.loads(line) for line in lines]
            asked = [(one["custom_id"], wire, one["url"], one["body"]) for one in found]
            return self._create("openai", body, asked, request)
        return None

    def _create(self, kind: str, body: Any, asked: list[_Asked], request: HTTPRequest) -> Sent:
        id_ = f"{kind}_batch_{len(self._batches) + 1}"
        batch = self._batches[id_] = _StoredBatch(kind, id_, self._polls, body)
        for key, wire, path, one in asked:
            batch.results.append((key, *self._answer(wire, path, one, request)))
        return _sent(self._shown(batch, running=True))

    def _batch(self, method: str, id_: str, rest: str, url: str) -> Sent | None:
        batch = self._batches.get(id_)
        if batch is None:
            return None
        if rest == "/results":
            return _lines(_anthropic_line(batch, *result) for result in batch.results)
        if method == "POST":
            batch.cancelled = batch.cancelled or not batch.ended
            return _sent({} if batch.kind == "gemini" else self._shown(batch, running=True))
        running = not batch.ended
        batch.polls -= 1
        return _sent(self._shown(batch, running=running, url=url))

    def _shown(self, batch: _StoredBatch, *, running: bool, url: str = "") -> dict[str, Any]:
        if batch.kind == "anthropic":
            return _anthropic_batch(batch, running=running, url=url)
        shown = _gemini_batch if batch.kind == "gemini" else self._openai_batch
        return shown(batch, running=running)

    def _openai_batch(self, batch: _StoredBatch, *, running: bool) -> dict[str, Any]:
        total, good, bad = batch.counts(running=running)
        ended = "cancelled" if batch.cancelled else "completed"
        shown = {
            **batch.created,
            "id": batch.id,
            "object": "batch",
            "created_at": CREATED,
            "status": "in_progress" if running else ended,
            "request_counts": {"total": total, "completed": good, "failed": bad},
        }
        if not running:
            lines = [(one, _openai_line(batch, *one)) for one in batch.results]
            for name, wanted in (("output_file_id", True), ("error_file_id", False)):
                some = [
                    dumped(line) + b"\n"
                    for (_, status, _), line in lines
                    if (status == 200 and not batch.cancelled) is wanted
                ]
                if some:
                    id_ = shown[name] = f"file-{name}-{batch.id}"
                    content = b"".join(some)
                    self._files[id_] = _StoredFile(
                        name, "application/jsonl", content, "batch_output"
                    )
        return shown


def _openai_line(batch: _StoredBatch, key: str, status: int, body: Any) -> dict[str, Any]:
    line = {"id": f"{batch.id}-{key}", "custom_id": key, "response": None, "error": None}
    if batch.cancelled:
        return {**line, "error": {"code": "batch_cancelled", "message": "it was cancelled"}}
    response = {"status_code": status, "request_id": f"request-{key}", "body": body}
    return {**line, "response": response}


def _anthropic_line(batch: _StoredBatch, key: str, status: int, body: Any) -> dict[str, Any]:
    if batch.cancelled:
        return {"custom_id": key, "result": {"type": "canceled"}}
    kind, name = ("succeeded", "message") if status == 200 else ("errored", "error")
    return {"custom_id": key, "result": {"type": kind, name: body}}


def _anthropic_batch(batch: _StoredBatch, *, running: bool, url: str) -> dict[str, Any]:
    total, good, bad = batch.counts(running=running)
    names = ("processing", "succeeded", "errored", "canceled", "expired")
    cancelled = total if batch.cancelled and not running else 0
    numbers = (total - good - bad - cancelled, good, bad, cancelled, 0)
    return {
        "id": batch.id,
        "type": "message_batch",
        "created_at": _TIME,
        "expires_at": _TIME,
        "processing_status": "in_progress" if running else "ended",
        "request_counts": dict(zip(names, numbers, strict=True)),
        "cancel_initiated_at": _TIME if batch.cancelled else None,
        "results_url": None if running else f"{url}/results",
    }


def _gemini_batch(batch: _StoredBatch, *, running: bool) -> dict[str, Any]:
    total, good, bad = batch.counts(running=running)
    ended = "BATCH_STATE_CANCELLED" if batch.cancelled else "BATCH_STATE_SUCCEEDED"
    stats = {"requestCount": total, "successfulRequestCount": good, "failedRequestCount": bad}
    metadata = {
        "displayName": batch.created.get("displayName", ""),
        "createTime": _TIME,
        "state": "BATCH_STATE_RUNNING" if running else ended,
        "batchStats": {name: str(number) for name, number in stats.items() if number},
    }
    shown = {"name": f"batches/{batch.id}", "metadata": metadata}
    if running or batch.cancelled:
        return shown
    lines = [
        {"metadata": {"key": key}, **({"response": body} if status == 200 else body)}
        for key, status, body in batch.results
    ]
    output = {"inlinedResponses": {"inlinedResponses": lines}}
    return {**shown, "done": True, "metadata": {**metadata, "output": output}, "response": output}


def _sent(value: Any, **headers: str) -> Sent:
    return 200, {**_JSON, **headers}, dumped(value)


def _lines(values: Any) -> Sent:
    content = b"".join(dumped(value) + b"\n" for value in values)
    return 200, {"content-type": "application/x-jsonl"}, content
