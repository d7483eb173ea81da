"""Serving A2A: our server on its logs, and that of a2a-sdk, with the same agent and client."""

import http.client
import json
import time
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from ._a2a_agents import CHUNKS, KINDS, PATH, SHORT, WORDS
from ._child import Child, child
from ._counting_reader import CountingReader, read
from ._measure import Effort, Row, Table, amount, at_least, at_most, compare, seconds
from ._process import in_new_process

__all__ = ["table"]

_STREAMS = 20
_WARM_STREAMS = 2
_CALLS = 200
_WARM_CALLS = 10
_MEMORY, _SQLITE, _THEIRS = KINDS
_HEAD = "A2A-Version: 1.0\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True, slots=True)
class _Run:
    """The cost of one server: CPU time of a streamed chunk and of a call."""

    chunk_cpu: float
    chunks_per_second: float
    call_cpu: float


def _body(method: str, text: str) -> bytes:
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return json.dumps(call).encode()


def _stream_request() -> bytes:
    body = _body("SendStreamingMessage", "How was the year?")
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{_HEAD}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _read_streams(port: int, count: int) -> None:
    """Read streams on many connections at once, and count the chunks of text."""
    mark = WORDS.encode()
    readers = [CountingReader(port, _stream_request(), mark) for _ in range(count)]
    read(readers, CHUNKS)


def _call(server: Child, count: int) -> None:
    """Send messages one after the other on one connection, and check each answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    for _ in range(count):
        connection.request("POST", PATH, _body("SendMessage", SHORT), headers)
        answer = connection.getresponse().read()
        if WORDS.encode() not in answer or b"TASK_STATE_COMPLETED" not in answer:
            raise AssertionError(f"the task is not complete: {answer!r}")
    connection.close()


def _run(kind: str) -> _Run:
    with child("_a2a_agents", kind) as server:
        _read_streams(server.port, _WARM_STREAMS)
        _call(server, _WARM_CALLS)
        begun, before = time.monotonic(), server.cpu_seconds()
        _read_streams(server.port, _STREAMS)
        elapsed, streamed = time.monotonic() - begun, server.cpu_seconds()
        _call(server, _CALLS)
        called = server.cpu_seconds()
    chunks = _STREAMS * CHUNKS
    return _Run((streamed - before) / chunks, chunks / elapsed, (called - streamed) / _CALLS)


def _rows(runs: dict[str, list[_Run]]) -> list[Row]:
    chunk = {kind: [run.chunk_cpu for run in done] for kind, done in runs.items()}
    rate = {kind: [run.chunks_per_second for run in done] for kind, done in runs.items()}
    call = {kind: [run.call_cpu for run in done] for kind, done in runs.items()}
    rates = partial(compare, rate, where="events per second: ", shown="{:,.0f}".format)
    return [
        compare(chunk, _MEMORY, _THEIRS, at_most(0.2), where="CPU per streamed event: "),
        compare(chunk, _SQLITE, _THEIRS, where="CPU per streamed event: "),
        rates(_MEMORY, _THEIRS, at_least(5)),
        rates(_SQLITE, _THEIRS),
        compare(call, _MEMORY, _THEIRS, at_most(0.5), where="CPU per call: "),
        compare(call, _SQLITE, _THEIRS, at_most(0.7), where="CPU per call: "),
        amount(f"CPU per call: {_SQLITE}", call[_SQLITE], seconds, at_most(0.0025, seconds)),
    ]


def table(effort: Effort) -> Table:
    """Compare on streams that run at once, and on calls one after the other."""
    runs: dict[str, list[_Run]] = {kind: [] for kind in KINDS}
    for _ in range(effort.fewer(5).rounds):
        for kind, done in runs.items():
            done.append(in_new_process(_run)(kind))
    title = f"{_STREAMS} streams of {CHUNKS} events with {len(WORDS)} characters, {_CALLS} calls"
    return Table(f"A2A 1.0 over JSON-RPC; {title}; CPU of the server", None, _rows(runs))
