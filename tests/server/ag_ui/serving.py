"""An agent whose answer has everything that an answer can have, and a client of plain HTTP."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import httpx2

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from ..peer import LIMIT, Gates
from .model import events_of, frames_of

KEY: Final = "ann-key"
OTHER_KEY: Final = "bob-key"
KEYS: Final = {KEY: "ann", OTHER_KEY: "bob"}
EVERYTHING: Final = "Tell me everything."


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return event("TOOL_CALL", call_id=call_id, name=name, arguments=arguments)


def returned(call_id: str, result: Any, *, is_error: bool = False) -> dict[str, Any]:
    return event("TOOL_RESULT", call_id=call_id, result=result, is_error=is_error)


SOURCE: Final = {"source_id": "s", "uri": "https://a.example", "title": "A", "confidence": 1.0}
PACKETS: Final[list[str | dict[str, Any]]] = [
    event("THOUGHT_TRACE", content="First I look."),
    event("THOUGHT_TRACE", content='Then I answer: "ä".'),
    called("c1", "search", {"query": "Grüße"}),
    returned("c1", {"found": ["a"]}),
    "Grüße, ",
    'a "quoted" \\ word,\n\na new line\u2028',
    "",
    "👩‍🚀 %d %s {} \x00",
    event("CITATION_BLOCK", citations=[SOURCE]),
    event("PROGRESS_INDICATOR", label="Reading", status="running"),
    called("c2", "fetch", None),
    called("c3", "read", "some text"),
    returned("c3", ""),
    returned("c2", "No route.", is_error=True),
    event("USAGE", prompt_tokens=10, completion_tokens=3),
    "The end",
    event("ARTIFACT", artifactId="a1", parts=[{"text": "A result"}]),
    event("MY_OWN", anything=None),
    ".",
    event("USAGE", prompt_tokens=20, completion_tokens=5, cached_tokens=4, reasoning_tokens=2),
]
"""The packets of the answer: texts, and the payloads of events."""

_TEXTS: Final = [packet for packet in PACKETS if isinstance(packet, str)]
MESSAGES: Final[list[dict[str, Any]]] = [
    {"id": "msg_1", "role": "reasoning", "content": 'First I look.\n\nThen I answer: "ä".'},
    {
        "id": "msg_3",
        "role": "assistant",
        "toolCalls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "search", "arguments": '{"query":"Grüße"}'},
            }
        ],
    },
    {"id": "result_3", "toolCallId": "c1", "role": "tool", "content": '{"found":["a"]}'},
    {
        "id": "msg_5",
        "role": "assistant",
        "content": "".join(_TEXTS[:4]),
        "toolCalls": [
            {"id": "c2", "type": "function", "function": {"name": "fetch", "arguments": "{}"}},
            {
                "id": "c3",
                "type": "function",
                "function": {"name": "read", "arguments": '"some text"'},
            },
        ],
    },
    {"id": "result_12", "toolCallId": "c3", "role": "tool", "content": ""},
    {
        "id": "result_11",
        "toolCallId": "c2",
        "role": "tool",
        "content": "No route.",
        "metadata": {"is_error": True},
    },
    {"id": "msg_16", "role": "assistant", "content": "The end."},
]
"""The messages of the answer, with ids without the stream."""
USAGE: Final = {
    "inputTokens": 30,
    "outputTokens": 8,
    "totalTokens": 38,
    "cachedInputTokens": 4,
    "reasoningTokens": 2,
}
CUSTOM: Final = ["citations", "progress", "artifact", "MY_OWN"]


async def write(stream: AgentStream, packet: str | Mapping[str, Any]) -> None:
    if isinstance(packet, str):
        await stream.write(packet)
    else:
        await stream.write_packet("EVENT", packet)


class Agent:
    """Does what the question says; `runs` has the questions that it was called with."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.requests: list[ServiceRequest] = []
        self.gates = Gates()
        """The answer to a question may wait for its gate."""
        self.ended = threading.Event()
        """Set when an answer has ended."""

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.runs.append(stream.question)
        self.requests.append(request)
        try:
            await self._answer(stream, stream.question)
        finally:
            self.ended.set()

    def open_all(self) -> None:
        for gate in list(self.gates.values()):
            gate.open()

    async def _answer(self, stream: AgentStream, question: str) -> None:
        match question.partition(":")[0]:
            case "Tell me everything.":
                await self._tell(stream)
            case "Wait after":
                await self._tell(stream, int(question.rpartition(":")[2]))
            case "Open":
                self.gates[question.partition(":")[2]].open()
            case "Ask":
                await stream.ask("Where?")
            case "Log in":
                await stream.ask("Please log in.", auth=True)
            case "Delete":
                await stream.write("I can delete it.")
                call = await stream.tool_call("delete", {"path": "x"}, id="call-1")
                await stream.ask("May I?", call_id=call)
            case "Click":
                await stream.tool_call("click", {"button": 1}, id="page-1")
                await stream.tool_call("other", {}, id="own-1")
            case "Fail":
                await stream.write("Half of ")
                await stream.tool_call("other", {}, id="own-1")
                await stream.fail("no_fuel", "The tank is empty.")
            case "Warn":
                await stream.warn("slow", "This takes long.")
                await write(stream, event("USAGE", **_TOKENS, finish_reason="length"))
            case _:
                await stream.write(f"You said {question}")

    async def _tell(self, stream: AgentStream, wait_after: int | None = None) -> None:
        for number, packet in enumerate(PACKETS):
            if number == wait_after:
                await self.gates[stream.question].wait()
            await write(stream, packet)


_TOKENS: Final = {"prompt_tokens": 1, "completion_tokens": 2}


def user(text: str, name: str = "u1") -> dict[str, Any]:
    return {"id": name, "role": "user", "content": text}


def run_body(text: str = "Hello", **members: Any) -> dict[str, Any]:
    """Return the input of a new run in a new thread."""
    names = {"threadId": str(uuid4()), "runId": str(uuid4())}
    return {**names, "messages": [user(text)], **members}


def comparable(value: Any) -> Any:
    """Return messages or events without what differs from one stream to another."""
    text = json.dumps(value, ensure_ascii=False)
    text = re.sub(r"(msg|result|question)_[0-9a-f]{32}", r"\1", text)
    return json.loads(re.sub(r'"(runId|threadId)": "[^"]*"', r'"\1": ""', text))


@dataclass(frozen=True, slots=True)
class Site:
    """A running application, and a client for it."""

    url: str
    agent: Agent
    app: AgentApp
    http: httpx2.Client

    def post(self, body: Any, last: str | None = None, key: str = KEY) -> httpx2.Response:
        """Send an input, and read the whole answer."""
        headers = _headers(last, key)
        if isinstance(body, bytes):
            return self.http.post("/ag-ui", content=body, headers=headers)
        return self.http.post("/ag-ui", json=body, headers=headers)

    def events(self, body: Any, last: str | None = None) -> list[dict[str, Any]]:
        return events_of(self._answer(body, last))

    def frames(self, body: Any, last: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        return frames_of(self._answer(body, last))

    def _answer(self, body: Any, last: str | None) -> bytes:
        answer = self.post(body, last)
        assert answer.status_code == 200, answer.text
        return answer.content

    def reading(self, body: Any, last: str | None = None) -> Any:
        """Return a context with the response of an answer that is read in parts."""
        return self.http.stream("POST", "/ag-ui", json=body, headers=_headers(last, KEY))

    def cancel(self, run_id: str, key: str = KEY) -> int:
        return self.http.delete(f"/ag-ui/runs/{run_id}", headers=_headers(None, key)).status_code


def _headers(last: str | None, key: str) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return headers if last is None else {**headers, "Last-Event-ID": last}


@contextmanager
def site(agent: Any = None, **options: Any) -> Iterator[Site]:
    agent = agent or Agent()
    options = {"ag_ui": True, "api_keys": KEYS, "drain_timeout": 0.0, **options}
    app = AgentApp(agent, agent_id="agent", **options)
    with running(app) as server, httpx2.Client(base_url=server.url, timeout=LIMIT) as http:
        try:
            yield Site(server.url, agent, app, http)
        finally:
            if isinstance(agent, Agent):
                agent.open_all()


def read_until(response: httpx2.Response, wanted: bytes) -> tuple[bytes, Iterator[bytes]]:
    """Return what was read up to some bytes, and the rest."""
    chunks, body = response.iter_raw(), b""
    while wanted not in body:
        body += next(chunks)
    return body, chunks


def expire(server: Site, retention: float) -> None:
    """Drop the entries of streams that ended longer ago."""
    app: Any = server.app
    work = app.log.expire(retention, 10 * retention)
    asyncio.run_coroutine_threadsafe(work, app._runtime.loop).result(LIMIT)
