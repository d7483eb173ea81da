"""An agent whose answer has everything that an answer can have, and what clients must get of it."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import openai

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from ..peer import LIMIT, Gate

MODEL: Final = "agent"
KEY: Final = "ann-key"
OTHER_KEY: Final = "bob-key"
KEYS: Final = {KEY: "ann", OTHER_KEY: "bob"}
EVERYTHING: Final = "Tell me everything."
OPENAI_3: Final = "openai==3.51.0"  # the environment has version 2


def thought(text: str) -> dict[str, Any]:
    return {"type": "THOUGHT_TRACE", "data": {"content": text}}


def called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    data = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"type": "TOOL_CALL", "data": data}


def returned(call_id: str, result: Any, *, is_error: bool = False) -> dict[str, Any]:
    data = {"call_id": call_id, "result": result, "is_error": is_error}
    return {"type": "TOOL_RESULT", "data": data}


def cited(url: str, title: str) -> dict[str, Any]:
    citation = {"source_id": url, "uri": url, "title": title, "confidence": 1.0}
    return {"type": "CITATION_BLOCK", "data": {"citations": [citation]}}


def used(prompt: int, completion: int, **counts: int) -> dict[str, Any]:
    data = {"prompt_tokens": prompt, "completion_tokens": completion, **counts}
    return {"type": "USAGE", "data": data}


PACKETS: Final[list[str | dict[str, Any]]] = [
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
    called("c4", "read", '{"path":"x"}'),
    returned("c3", ""),
    returned("c4", 1.5),
    returned("c2", "No route.", is_error=True),
    used(10, 3),
    "The end",
    cited("https://example.com/b", "B"),
    ".",
    used(20, 5, cached_tokens=4, reasoning_tokens=2),
]
"""The packets of the answer: texts, and the payloads of events."""

THOUGHTS: Final = "\n\n".join(
    packet["data"]["content"]
    for packet in PACKETS
    if not isinstance(packet, str) and packet["type"] == "THOUGHT_TRACE"
)
TEXTS: Final = [packet for packet in PACKETS if isinstance(packet, str)]
TEXT: Final = "".join(TEXTS)
LAST_ITEM: Final = TEXTS[-2] + TEXTS[-1]
ITEMS: Final = [
    *("reasoning", "mcp_call", "reasoning", "message"),
    *("mcp_call", "mcp_call", "mcp_call", "message"),
]


class Agent:
    """Does what the question says; `runs` has the questions that it was called with."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.gate = Gate()
        """Some answers wait for it."""
        self.ended = threading.Event()
        """Set when an answer has ended."""

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.runs.append(stream.question)
        await self._answer(stream, stream.question)
        self.ended.set()

    async def _answer(self, stream: AgentStream, question: str) -> None:
        match question.partition(":")[0]:
            case "Tell me everything.":
                await self._tell(stream)
            case "In two halves":
                await self._tell(stream, int(question.partition(":")[2]))
            case "Wait":
                await stream.write("Working.")
                await self.gate.wait()
                await stream.write(" Done.")
            case "Ask":
                await stream.ask("Where?")
            case "Fail":
                await stream.write("Half of ")
                await stream.fail("no_fuel", "The tank is empty.")
            case "Reject":
                await stream.reject("Not this.")
            case "History":
                said = [f"{message.role}: {message.text}" for message in await stream.history()]
                await stream.write(" | ".join(said) or "nothing")
            case _:
                await stream.write(f"You said {question}")

    async def _tell(self, stream: AgentStream, wait_after: int | None = None) -> None:
        for number, packet in enumerate(PACKETS):
            if number == wait_after:
                await self.gate.wait()
            await write(stream, packet)


async def write(stream: AgentStream, packet: str | Mapping[str, Any]) -> None:
    if isinstance(packet, str):
        await stream.write(packet)
    else:
        await stream.write_packet("EVENT", packet)


@dataclass(frozen=True, slots=True)
class Site:
    """A running application."""

    url: str
    agent: Agent
    app: AgentApp

    @property
    def api(self) -> str:
        """The URL for clients of OpenAI."""
        return f"{self.url}/v1"


@contextmanager
def site(**options: Any) -> Iterator[Site]:
    agent = Agent()
    options = {"agent_id": MODEL, "api_keys": KEYS, "drain_timeout": 0.0, **options}
    app = AgentApp(agent, openai=True, **options)
    with running(app) as server:
        try:
            yield Site(server.url, agent, app)
        finally:
            agent.gate.open()


def sdk(api: str, key: str = KEY, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(**_options(api, key, options))


def async_sdk(api: str, key: str = KEY, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**_options(api, key, options))


def _options(api: str, key: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"api_key": key, "base_url": api, "timeout": LIMIT, "max_retries": 0, **options}


_ID = re.compile(r"(resp|msg|rs|mcp)_[0-9a-f]{32}")
_CREATED = re.compile(r'"created_at": ?[0-9.]+')


def comparable(events: Any) -> Any:
    """Return events without what differs from one answer to another: ids and times."""
    text = _ID.sub(r"\1_…", json.dumps(events, ensure_ascii=False))
    return json.loads(_CREATED.sub('"created_at": 0', text))


def text_of(events: list[dict[str, Any]]) -> str:
    deltas = (event for event in events if event["type"] == "response.output_text.delta")
    return "".join(event["delta"] for event in deltas)


def check_whole(events: list[dict[str, Any]]) -> None:
    """Check that the events of an answer are all there, in order, and agree with its last one."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert text_of(events) == TEXT
    assert events[-1]["type"] == "response.completed"
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ITEMS
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert sorted(done, key=lambda item: int(item["id"].rpartition("_")[2])) == output


async def within(limit: float, work: Any) -> Any:
    async with asyncio.timeout(limit):
        return await work
