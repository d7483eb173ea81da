"""Batches, files and token counts of the fake model, as OpenAI, Anthropic and Gemini have them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
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

_TIME = "2023-11-14T22:13:20Z"  # CREATED
_JSON = {"content-type": "application/json"}
_UPLOADS = "/upload/"
_COUNTS = (
    ("/responses/input_tokens", RESPONSES, "input_tokens"),
    ("/messages/count_tokens", ANTHROPIC, "input_tokens"),
    (":countTokens", GEMINI, "totalTokens"),
)
_FILE = re.compile(r"/files/([\w-]+)(/content)?$", re.ASCII)
_BATCH = re.compile(r"/batches/([\w-]+)((?:[/:]cancel|/results)?)$", re.ASCII)


@dataclass(slots=True)
class _StoredFile:
    """A file; `shown` is the description of its provider."""

    data: bytes
    media_type: str = "application/jsonl"
    shown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _StoredBatch:
    """A batch; `results` has the id, the status and the body of each request."""

    provider: str
    id: str
    polls: int  # status requests until it has ended
    created: Mapping[str, Any]  # the body of the request that created it
    results: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)
    cancelled: bool = False

    @property
    def running(self) -> bool:
        return self.polls > 0

    def state(self, running: str, cancelled: str, completed: str) -> str:
        if self.running:
            return running
        return cancelled if self.cancelled else completed

    def counts(self) -> tuple[int, int, int]:
        """Return the number of requests, and how many have succeeded and failed."""
        total, good = len(self.results), sum(status == 200 for _, status, _ in self.results)
        return (total, 0, 0) if self.running or self.cancelled else (total, good, total - good)


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
            found = _token_count(request) or self._submit(request) or self._upload(request, origin)
            if found is not None:
                return found
        if (match := _BATCH.search(path)) is not None and match[1] in self._batches:
            return self._batch(method, self._batches[match[1]], match[2], origin + path)
        if (match := _FILE.search(path)) is not None and match[1] in self._files:
            return self._file(method, match[1], match[2])
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
        parts: dict[Any, Any] = {
            part.get_param("name", header="content-disposition"): part for part in form.walk()
        }
        file, id_ = parts["file"], f"file-{next(self._numbers)}"
        data, kind = file.get_payload(decode=True), file.get_content_type()
        shown = {"id": id_, "filename": file.get_filename()}
        if "anthropic-version" in headers:
            shown |= {"type": "file", "created_at": _TIME, "mime_type": kind}
            shown["size_bytes"] = len(data)
        else:
            shown |= {"object": "file", "created_at": CREATED, "status": "processed"}
            purpose = parts["purpose"].get_payload() if "purpose" in parts else ""
            shown |= {"bytes": len(data), "purpose": purpose}
        self._files[id_] = _StoredFile(data, kind, shown)
        return _sent(shown)

    def _gemini_upload(self, request: HTTPRequest, headers: Mapping[str, str], origin: str) -> Sent:
        if headers.get("x-goog-upload-command") == "start":
            id_ = f"file-{next(self._numbers)}"
            name, kind = f"files/{id_}", headers["x-goog-upload-header-content-type"]
            shown = {"name": name, "uri": f"{origin}/v1beta/{name}", "state": "ACTIVE"}
            shown |= {"displayName": str(request.json.get("file", {}).get("displayName", ""))}
            self._files[id_] = _StoredFile(b"", kind, {**shown, "mimeType": kind})
            return _sent({}, **{"x-goog-upload-url": f"{origin}{request.path}?upload_id={id_}"})
        file = self._files[request.target.rpartition("upload_id=")[2]]
        file.data += request.body
        file.shown = {**file.shown, "sizeBytes": str(len(file.data))}
        return _sent({"file": file.shown}, **{"x-goog-upload-status": "final"})

    def _file(self, method: str, id_: str, content: str | None) -> Sent:
        file = self._files[id_]
        if method == "DELETE":
            del self._files[id_]
            deleted = {"object": "file", "deleted": True} if "object" in file.shown else {}
            return _sent({"id": id_, **deleted})
        if content:
            return 200, {"content-type": "application/octet-stream"}, file.data
        return _sent(file.shown)

    # Batches.

    def _submit(self, request: HTTPRequest) -> Sent | None:
        path, body = request.path, request.json
        if path.endswith("/messages/batches"):
            provider = "anthropic"
            asked = [(one["custom_id"], ANTHROPIC, path, one["params"]) for one in body["requests"]]
        elif path.endswith(":batchGenerateContent"):
            provider, body = "gemini", body["batch"]
            single = path.replace(":batchGenerateContent", ":generateContent")
            asked = [
                (one.get("metadata", {}).get("key", ""), GEMINI, single, one["request"])
                for one in body["inputConfig"]["requests"]["requests"]
            ]
        elif path.endswith("/batches"):
            provider = "openai"
            wire = RESPONSES if body["endpoint"].endswith("/responses") else CHAT
            lines = map(json.loads, self._files[body["input_file_id"]].data.splitlines())
            asked = [(one["custom_id"], wire, one["url"], one["body"]) for one in lines]
        else:
            return None
        id_ = f"{provider}_batch_{len(self._batches) + 1}"
        batch = self._batches[id_] = _StoredBatch(provider, id_, self._polls + 1, body)
        for key, wire, single, one in asked:
            batch.results.append((key, *self._answer(wire, single, one, request)))
        return self._shown(batch)

    def _batch(self, method: str, batch: _StoredBatch, rest: str, url: str) -> Sent:
        if rest == "/results":
            lines = _lines(_anthropic_line(batch, *result) for result in batch.results)
            return 200, {"content-type": "application/x-jsonl"}, lines
        if method == "GET":
            batch.polls -= 1
        elif batch.running:
            batch.cancelled, batch.polls = True, 1
        if method == "POST" and batch.provider == "gemini":
            return _sent({})
        return self._shown(batch, url)

    def _shown(self, batch: _StoredBatch, url: str = "") -> Sent:
        if batch.provider == "openai":
            return _sent(self._openai_batch(batch))
        return _sent(
            _gemini_batch(batch) if batch.provider == "gemini" else _anthropic_batch(batch, url)
        )

    def _openai_batch(self, batch: _StoredBatch) -> dict[str, Any]:
        total, good, bad = batch.counts()
        shown = {
            **batch.created,
            "id": batch.id,
            "object": "batch",
            "created_at": CREATED,
            "status": batch.state("in_progress", "cancelled", "completed"),
            "request_counts": {"total": total, "completed": good, "failed": bad},
        }
        results = [] if batch.running else batch.results
        for name, wanted in (("output_file_id", True), ("error_file_id", False)):
            found = [one for one in results if (one[1] == 200 and not batch.cancelled) is wanted]
            if found:
                id_ = shown[name] = f"file-{name}-{batch.id}"
                self._files[id_] = _StoredFile(_lines(_openai_line(batch, *one) for one in found))
        return shown


def _token_count(request: HTTPRequest) -> Sent | None:
    """Return the number of words, if it is asked for."""
    for end, wire, name in _COUNTS:
        if request.path.endswith(end):
            body = request.json
            messages = wire.read("", body.get("generateContentRequest", body)).messages
            words = sum(len(str(message["content"]).split()) for message in messages)
            kind = {"object": "response.input_tokens"} if wire is RESPONSES else {}
            return _sent({name: words, **kind})
    return None


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


def _anthropic_batch(batch: _StoredBatch, url: str) -> dict[str, Any]:
    total, good, bad = batch.counts()
    cancelled = total if batch.cancelled and not batch.running else 0
    waiting = total - good - bad - cancelled
    return {
        "id": batch.id,
        "type": "message_batch",
        "created_at": _TIME,
        "expires_at": _TIME,
        "processing_status": batch.state("in_progress", "ended", "ended"),
        "request_counts": {
            "processing": waiting,
            "succeeded": good,
            "errored": bad,
            "canceled": cancelled,
            "expired": 0,
        },
        "cancel_initiated_at": _TIME if batch.cancelled else None,
        "results_url": None if batch.running else f"{url}/results",
    }


def _gemini_batch(batch: _StoredBatch) -> dict[str, Any]:
    names = ("requestCount", "successfulRequestCount", "failedRequestCount")
    stats = zip(names, batch.counts(), strict=True)
    metadata: dict[str, Any] = {
        "displayName": batch.created.get("displayName", ""),
        "createTime": _TIME,
        "state": f"BATCH_STATE_{batch.state('RUNNING', 'CANCELLED', 'SUCCEEDED')}",
        "batchStats": {name: str(number) for name, number in stats if number},
    }
    shown = {"name": f"batches/{batch.id}", "metadata": metadata}
    if batch.running or batch.cancelled:
        return shown
    lines = [
        {"metadata": {"key": key}, **({"response": body} if status == 200 else body)}
        for key, status, body in batch.results
    ]
    metadata["output"] = {"inlinedResponses": {"inlinedResponses": lines}}
    return {**shown, "done": True, "response": metadata["output"]}


def _sent(value: Any, **headers: str) -> Sent:
    return 200, {**_JSON, **headers}, dumped(value)


def _lines(values: Iterable[Any]) -> bytes:
    return b"".join(dumped(value) + b"\n" for value in values)
