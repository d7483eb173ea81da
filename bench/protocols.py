"""Protocols beside CAP: CPU per chunk against prepared chunks and CAP, and a late resume.

One subject alone, under load for 50 s, for a profiler, as in `bench.tokens`:

    .venv-bench/bin/python -m bench.protocols "chat completions" "asyncio, h11"
"""

import json
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    SQLiteStreamLog,
    StreamLog,
    running,
)
from coreason_manifest.definitions.service import ServiceRequest

from ._child import Child, child
from ._counting_reader import CountingReader, assist_request
from ._measure import Effort, Row, Table, amount, at_most, compare, seconds
from ._token_agents import CHUNKS, EVENTS, FAST, MEMORY, MODEL, PLAIN, STREAMS
from .tokens import Readers, Run, load

__all__ = ["table"]

_TOKENS = 40
_TOKENS_FOR_PROFILES = 900
_MARK: Final = b':" token"'  # in each piece of text, in every protocol
CHAT, RESPONSES, AI_SDK, AG_UI = "chat completions", "responses", "AI SDK", "AG-UI"
CAP = "CAP"
_OURS = (CHAT, RESPONSES, AI_SDK, AG_UI, CAP)
_PROGRAMS = {**dict.fromkeys(_OURS, MEMORY), CHUNKS: CHUNKS, EVENTS: EVENTS}
_LATE = 100_000
_LONGEST_START = 0.5  # seconds until the first byte of a late resume


def _post(path: str, body: dict[str, object]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def _chat(message: str, _: int) -> bytes:
    messages = [{"role": "user", "content": message}]
    return _post("/v1/chat/completions", {"model": MODEL, "messages": messages, "stream": True})


def _responses(message: str, _: int) -> bytes:
    return _post("/v1/responses", {"model": MODEL, "input": message, "stream": True})


def _ai_sdk(message: str, number: int) -> bytes:
    parts = [{"type": "text", "text": message}]
    messages = [{"id": f"{number}", "role": "user", "parts": parts}]
    return _post("/api/chat", {"id": uuid4().hex, "messages": messages})


def _ag_ui(message: str, number: int) -> bytes:
    messages = [{"id": f"{number}", "role": "user", "content": message}]
    ids = {"threadId": uuid4().hex, "runId": uuid4().hex}
    return _post("/ag-ui", {**ids, "messages": messages})


_REQUESTS: dict[str, Callable[[str, int], bytes]] = {
    CHAT: _chat,
    RESPONSES: _responses,
    AI_SDK: _ai_sdk,
    AG_UI: _ag_ui,
}


def _load(kind: str, server: Child, tokens: int) -> Run:
    request = _REQUESTS.get(kind, assist_request)
    readers = [
        CountingReader(server.port, request(str(tokens), number), _MARK)
        for number in range(STREAMS)
    ]
    return load(server, None, Readers(readers, tokens + 1), tokens)


def _rows(stack: str, effort: Effort) -> list[Row]:
    cpu: dict[str, list[float]] = {kind: [] for kind in _PROGRAMS}
    kinds = [*_PROGRAMS]
    with ExitStack() as servers:
        started = {
            kind: servers.enter_context(child("_token_agents", _PROGRAMS[kind], stack))
            for kind in kinds
        }
        for number in range(effort.rounds + 1):
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                run = _load(kind, started[kind], _TOKENS)
                if number:
                    cpu[kind].append(run.server_cpu)
    where = f"{stack}, CPU per chunk: "
    return [
        compare(cpu, CHAT, CHUNKS, at_most(1.0), where=where),
        compare(cpu, RESPONSES, EVENTS, at_most(1.0), where=where),
        *(compare(cpu, kind, CAP, at_most(1.25), where=where) for kind in _OURS if kind != CAP),
    ]


async def _long_answer(_: ServiceRequest, stream: AgentStream) -> None:
    for _number in range(_LATE):
        await stream.write(" token")


def _receive(port: int, request: bytes) -> tuple[float, bytes]:
    """Return the time to the first byte after the head, and the whole response."""
    began, first, received = time.monotonic(), 0.0, b""
    with socket.create_connection(("127.0.0.1", port), 60.0) as connection:
        connection.sendall(request)
        while data := connection.recv(262_144):
            received += data
            if not first and b"\r\n\r\n" in received[:-4]:
                first = time.monotonic() - began
    return first, received


class _Late(NamedTuple):
    """How a protocol resumes late: `path` has the id that `found` matches in the response."""

    request: Callable[[str, int], bytes]
    found: bytes
    path: str
    rest: bytes  # of the response to the resume, after its head: how it begins


_LATE_RESUMES: Final = {
    RESPONSES: _Late(
        _responses,
        rb'"id":"(resp_[0-9a-f]{32})"',
        f"/v1/responses/{{}}?stream=true&starting_after={_LATE}",
        f'"sequence_number":{_LATE + 1},'.encode(),
    ),
    AI_SDK: _Late(
        _ai_sdk,
        rb"x-workflow-run-id: (run_[0-9a-f]{32})",
        f"/api/chat/{{}}/stream?startIndex={_LATE}",
        b'"delta":" token"',
    ),
}


def _late_resume(kind: str, name: str, log: StreamLog, rounds: int) -> Row:
    late = _LATE_RESUMES[kind]
    app = AgentApp(_long_answer, log=log, agent_id=MODEL, openai=True, ai_sdk=True)
    with running(app) as server:
        _, answer = _receive(server.port, late.request("a long answer", 0))
        found = re.search(late.found, answer)
        if found is None or answer.count(b'"delta":" token"') != _LATE:
            raise AssertionError("the answer is not whole")
        path = late.path.format(found[1].decode())
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        times = []
        for _ in range(rounds):
            first, rest = _receive(server.port, request)
            if late.rest not in rest[:4096]:
                raise AssertionError("the resume does not begin with the next event")
            times.append(first)
    what = f"{kind}, resume after event {_LATE:,}, first byte: {name}"
    return amount(what, times, seconds, at_most(_LONGEST_START, seconds))


def table(effort: Effort) -> Table:
    """Compare the protocols with prepared chunks and with CAP, and time a late resume."""
    rounds = effort.fewer(2)
    late = []
    for kind in _LATE_RESUMES:
        with tempfile.TemporaryDirectory() as folder:
            late += [
                _late_resume(kind, "memory log", MemoryStreamLog(), 3),
                _late_resume(kind, "SQLite log", SQLiteStreamLog(Path(folder) / "log"), 3),
            ]
    title = f"Other protocols, {STREAMS} streams of single tokens, memory log"
    return Table(title, None, [*_rows(PLAIN, rounds), *_rows(FAST, rounds), *late])


def _main(kind: str, stack: str) -> None:
    with child("_token_agents", _PROGRAMS[kind], stack) as server:
        print(f"the PID of the server is {server.pid}", flush=True)
        print(_load(kind, server, _TOKENS_FOR_PROFILES))


if __name__ == "__main__":
    _main(*sys.argv[1:])
