"""An agent whose answer has everything that an answer can have, and what pages must show of it."""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from ..peer import LIMIT, Gates

KEY: Final = "ann-key"
OTHER_KEY: Final = "bob-key"
KEYS: Final = {KEY: "ann", OTHER_KEY: "bob"}
EVERYTHING: Final = "Tell me everything."
HEADERS: Final = {"Authorization": f"Bearer {KEY}"}
Packet = str | dict[str, Any]


def _event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def thought(text: str) -> dict[str, Any]:
    return _event("THOUGHT_TRACE", content=text)


def called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return _event("TOOL_CALL", call_id=call_id, name=name, arguments=arguments)


def returned(call_id: str, result: Any, *, is_error: bool = False) -> dict[str, Any]:
    return _event("TOOL_RESULT", call_id=call_id, result=result, is_error=is_error)


def cited(url: str, title: str) -> dict[str, Any]:
    citation = {"source_id": url, "uri": url, "title": title, "confidence": 1.0}
    return _event("CITATION_BLOCK", citations=[citation])


def used(prompt: int, completion: int, **counts: Any) -> dict[str, Any]:
    return _event("USAGE", prompt_tokens=prompt, completion_tokens=completion, **counts)


PACKETS: Final[list[Packet]] = [
    thought("First I look."),
    thought('Then I answer: "ä".'),
    called("c1", "search", {"query": "Grüße", "limit": 2}),
    thought("It searches."),
    returned("c1", {"found": ["a", "b"]}),
    "Grüße, ",
    'a "quoted" \\ word,\n\na new line\u2028',
    "👩‍🚀 %d %s {} \x00",
    cited("https://example.com/a", "A"),
    "and data: [DONE]\n\n",
    called("c2", "fetch", None),
    called("c3", "read", "some text"),
    called("c4", "lost", {}),
    returned("c3", ""),
    returned("c2", "No route.", is_error=True),
    _event("PROGRESS_INDICATOR", label="Work", status="running", progress_percent=50.0),
    _event(
        "MEDIA_CAROUSEL", items=[{"url": "https://example.com/i.png", "mime_type": "image/png"}]
    ),
    _event(
        "ARTIFACT",
        artifactId="report",
        name="report",
        parts=[{"raw": "aGk=", "mediaType": "text/plain"}, {"text": "Hi"}, {"data": {"a": 1}}],
    ),
    _event("MARKDOWN_BLOCK", content="# Title"),
    {"type": "data-weather", "id": "w", "data": {"sky": "grey"}},
    {"type": "data-weather", "id": "w", "data": {"sky": "blue"}},
    {"type": "data-brief", "data": 7, "transient": True},
    {"type": "MY_OWN", "data": {"b": [None]}},
    used(10, 3),
    "The end.",
    used(20, 5, cached_tokens=4, reasoning_tokens=2),
]
"""The packets of the answer: texts, and the payloads of events."""

_TOOL: Final = {"type": "dynamic-tool", "providerExecuted": True}
PARTS: Final[list[dict[str, Any]]] = [
    {"type": "step-start"},
    {"type": "reasoning", "text": 'First I look.\n\nThen I answer: "ä".', "state": "done"},
    {
        **_TOOL,
        "toolName": "search",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"query": "Grüße", "limit": 2},
        "output": {"found": ["a", "b"]},
    },
    {"type": "reasoning", "text": "It searches.", "state": "done"},
    {
        "type": "text",
        "text": "".join(packet for packet in PACKETS[:10] if isinstance(packet, str)),
        "state": "done",
    },
    {"type": "source-url", "sourceId": "source-1", "url": "https://example.com/a", "title": "A"},
    {
        **_TOOL,
        "toolName": "fetch",
        "toolCallId": "c2",
        "state": "output-error",
        "input": None,
        "errorText": "No route.",
    },
    {
        **_TOOL,
        "toolName": "read",
        "toolCallId": "c3",
        "state": "output-available",
        "input": "some text",
        "output": "",
    },
    {
        **_TOOL,
        "toolName": "lost",
        "toolCallId": "c4",
        "state": "output-error",
        "input": {},
        "errorText": "The answer ended before the call did.",
    },
    {"type": "file", "url": "https://example.com/i.png", "mediaType": "image/png"},
    {"type": "file", "url": "data:text/plain;base64,aGk=", "mediaType": "text/plain"},
    {
        "type": "data-artifact",
        "data": {
            "artifactId": "report",
            "name": "report",
            "parts": [{"text": "Hi"}, {"data": {"a": 1}}],
        },
    },
    {"type": "text", "text": "# Title\n\nThe end.", "state": "done"},
    {"type": "data-weather", "id": "w", "data": {"sky": "blue"}},
    {"type": "data-event", "data": {"type": "MY_OWN", "data": {"b": [None]}}},
]
"""The parts of the message that a page shows of it."""

METADATA: Final = {
    "usage": {
        "inputTokens": 30,
        "outputTokens": 8,
        "totalTokens": 38,
        "cachedInputTokens": 4,
        "reasoningTokens": 2,
    }
}
TRANSIENT: Final = ["data-progress", "data-brief"]


async def write(stream: AgentStream, packet: str | Mapping[str, Any]) -> None:
    if isinstance(packet, str):
        await stream.write(packet)
    else:
        await stream.write_packet("EVENT", packet)


class Agent:
    """Does what the question says; `runs` has the questions that it was called with."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.approvals: list[Any] = []
        self.gates = Gates()
        """Some answers wait for the one that has the name of their question."""
        self.failures: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        question = stream.question
        self.runs.append(question)
        metadata = (request.payload.metadata or {}).get("ai_sdk", {})
        if (approval := metadata.get("approval")) is not None:
            self.approvals.append(approval)
            await self._continue(stream, approval)
            return
        await self._answer(stream, question)

    async def _answer(self, stream: AgentStream, question: str) -> None:
        kind, _, rest = question.partition(":")
        match kind:
            case "Tell me everything.":
                await self._tell(stream, None, question)
            case "Held":
                await self._tell(stream, int(rest.partition(" ")[0]), question)
            case "Wait":
                await stream.write("Working.")
                await self.gates[question].wait()
                await stream.write(" Done.")
            case "Ask":
                await stream.ask("Where?")
            case "May I":
                call_id = await stream.tool_call("delete", {"path": "/tmp/x"}, id="call-1")
                await stream.usage(prompt_tokens=1, completion_tokens=1)
                await stream.ask("May I delete it?", call_id=call_id)
            case "Fail once" | "Stop once":
                await self._try(stream, question)
            case "Fail":
                await stream.write("Half of ")
                await stream.fail("no_fuel", "The tank is empty.")
            case "Raise":
                raise ValueError("a secret")
            case _:
                await stream.write(f"You said {question}")

    async def _try(self, stream: AgentStream, question: str) -> None:
        """Fail or wait to be stopped, and be successful the next time."""
        self.failures[question] += 1
        await stream.write("Half of ")
        if self.failures[question] > 1:
            await stream.write("it.")
            if question.endswith(" wait"):
                await self.gates[question].wait()
        elif question.startswith("Fail"):
            await stream.fail("no_fuel", "The tank is empty.")
        else:
            await self.gates["never"].wait()

    async def _continue(self, stream: AgentStream, approval: Mapping[str, Any]) -> None:
        call_id = approval["call_id"]
        if approval["approved"]:
            await stream.tool_call(approval["name"], approval["arguments"], id=call_id)
            await stream.write("Deleting.")
            if (reason := approval["reason"]) is not None and reason.startswith("wait"):
                await self.gates[reason].wait()
            await stream.tool_result(call_id, "gone")
            await stream.write(" Deleted.")
        else:
            await stream.tool_call(approval["name"], approval["arguments"], id=call_id)
            await stream.tool_result(call_id, "Denied.", is_error=True)
            await stream.write(f"Left alone: {approval['reason']}")

    async def _tell(self, stream: AgentStream, held: int | None, question: str) -> None:
        for number, packet in enumerate([*PACKETS, None]):
            if number == held:
                await self.gates[question].wait()
            if packet is not None:
                await write(stream, packet)

    def open_all(self) -> None:
        for gate in [*self.gates.values()]:
            gate.open()


@dataclass(frozen=True, slots=True)
class Site:
    """A running application."""

    url: str
    agent: Agent
    app: AgentApp

    @property
    def api(self) -> str:
        """The URL for a transport."""
        return f"{self.url}/api/chat"


@contextmanager
def site(agent: Any = None, **options: Any) -> Iterator[Site]:
    agent = agent or Agent()
    options = {"agent_id": "agent", "api_keys": KEYS, "drain_timeout": 0.0, **options}
    app = AgentApp(agent, ai_sdk=options.pop("ai_sdk", True), **options)
    with running(app) as server:
        try:
            yield Site(server.url, agent, app)
        finally:
            if isinstance(agent, Agent):
                agent.open_all()


# What pages show


def comparable(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts as they are in every answer, for every version of the SDK."""
    found = []
    for part in parts:
        left_out = {"id"} if part["type"] == "reasoning" else set()
        found.append({name: value for name, value in part.items() if name not in left_out})
        if part["type"] == "source-url":
            found[-1]["sourceId"] = re.sub("-[0-9a-f]{8}-", "-", part["sourceId"])
    return found


def answers(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of the agent."""
    return [message for message in shown["messages"] if message["role"] == "assistant"]


def texts(shown: Mapping[str, Any]) -> list[str]:
    """Return the texts of all messages."""
    return [
        "".join(part["text"] for part in message["parts"] if part["type"] == "text")
        for message in shown["messages"]
    ]


def check_whole(shown: Mapping[str, Any], status: str = "ready") -> None:
    """Check that a page shows the whole answer once, and nothing else."""
    assert (shown["status"], shown["error"]) == (status, None)
    user, message = shown["messages"]
    assert user["role"] == "user"
    assert re.fullmatch("msg_[0-9a-f]{32}", message["id"])
    assert comparable(message["parts"]) == PARTS
    assert message["metadata"] == METADATA
    assert shown["calls"] == []  # the page must not execute them


# Plain HTTP


def user(text: str, message_id: str = "u1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def said(text: str, message_id: str = "a1") -> dict[str, Any]:
    return {"id": message_id, "role": "assistant", "parts": [{"type": "text", "text": text}]}


def answered(message: Mapping[str, Any], *, approved: bool) -> dict[str, Any]:
    """Return a message with a question, after the user has answered it."""
    parts = [{**part} for part in message["parts"]]
    for part in parts:
        if part.get("state") == "approval-requested":
            part["state"] = "approval-responded"
            part["approval"] = {**part["approval"], "approved": approved}
    return {**message, "parts": parts}


def body(chat_id: str | None, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = {} if chat_id is None else {"id": chat_id}
    return {**named, "messages": [*messages], "trigger": "submit-message", **more}


def peer(url: str, key: str | None = KEY) -> httpx2.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=LIMIT)


def frames(raw: bytes) -> list[bytes]:
    """Return the data frames of a body, without heartbeats."""
    assert raw.endswith(b"\n\n")
    return [frame for frame in raw.split(b"\n\n")[:-1] if frame.startswith(b"data: ")]


def chunks(raw: bytes) -> list[dict[str, Any]]:
    """Return the chunks of a whole body."""
    *found, done = frames(raw)
    assert done == b"data: [DONE]"
    return [json.loads(frame.removeprefix(b"data: ")) for frame in found]


def until(condition: Any) -> None:
    """Wait until something is true that another thread makes true."""
    for _ in range(int(LIMIT * 200)):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not become true")
