"""Webhooks without sockets, and an agent whose tasks are delivered to them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, ServiceRequest
from coreason_client.server.a2a._operations import TaskService
from coreason_client.server.a2a._protocol import V10, WORKING, Caller
from coreason_client.server.a2a._push._configs import PushConfig
from coreason_client.server.a2a._push._deliverer import LEASE, Deliverer, DeliveryTools
from coreason_client.server.a2a._push._progress import DeliveryObserver, DeliveryProgress
from coreason_client.server.a2a._push._sender import WebhookResponse, WebhookSender
from coreason_client.server.a2a._push._urls import URLRules, WebhookURL
from coreason_client.server.a2a._reading import EventPosition
from coreason_client.server.log.deliveries import Delivery
from coreason_client.server.log.tasks import TaskRecord
from coreason_client.server.observe._metrics import NO_METRICS

from ..aio import LIMIT
from ..faulty_log import runtime_of
from ..log.backends import Clock

ANN = Caller("agent/ann", "ann", Headers({}))
BOB = Caller("agent/bob", "bob", Headers({}))
OPEN = URLRules(allow_http=True, allow_private=True)
URL = "https://example.org/hook"
BEGINNING = DeliveryProgress(EventPosition(0, 0))


class FakeSender(WebhookSender):
    """Records requests; `answers` are those of the next ones, and the others are accepted.

    While `gate` is closed, requests wait.
    """

    def __init__(self) -> None:
        super().__init__(OPEN)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.answers: list[WebhookResponse | Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Condition()
        self.in_flight = 0

    async def post(
        self, url: WebhookURL, headers: Mapping[str, str], body: bytes
    ) -> WebhookResponse:
        self.bodies.append(json.loads(body))
        self.headers.append(headers)
        self.in_flight += 1
        assert self.in_flight == 1, "two requests at the same time"
        try:
            async with self.arrived:
                self.arrived.notify_all()
            await self.gate.wait()
            answer = self.answers.pop(0) if self.answers else WebhookResponse(204)
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def received(self, count: int) -> None:
        """Wait for so many requests."""
        async with asyncio.timeout(LIMIT), self.arrived:
            await self.arrived.wait_for(lambda: len(self.bodies) >= count)


class Desk:
    """The question of a user, and what the agent does next."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[str | None] = asyncio.Queue()

    async def agent(self, request: ServiceRequest, stream: AgentStream) -> None:
        match stream.question:
            case "ask":
                await stream.ask("Where?")
            case "sign in":
                await stream.ask("Sign in.", auth=True)
            case "message":
                await stream.message("just this")
            case "dictate":
                while (word := await self.words.get()) is not None:
                    await stream.write(word)
            case question:
                await stream.write(f"You said {question}.")

    def say(self, *words: str | None) -> None:
        """Let the agent write words; None ends its answer."""
        for word in words:
            self.words.put_nowait(word)


class World:
    """An application with one webhook, on its own clock."""

    def __init__(self, app: AgentApp, log: MemoryStreamLog, desk: Desk) -> None:
        self.log = log
        self.desk = desk
        self.clock = Clock()
        self.sender = FakeSender()
        self.stopping = asyncio.Event()
        self.service = TaskService(runtime_of(app), log.tasks, None)
        self.tools = DeliveryTools(
            log.tasks,
            log,
            self.service.states,
            self.sender,
            OPEN,
            DeliveryObserver(NO_METRICS),
            self.stopping,
            clock=self.clock,
            jitter=lambda: 0.0,
        )

    async def begin(self, text: str, message_id: str = "m", **ids: str) -> TaskRecord:
        sent = await self.service.turns.begin(ANN, message(text, message_id, **ids))
        return sent.record

    async def hold(
        self, record: TaskRecord, progress: DeliveryProgress = BEGINNING, version: str = V10
    ) -> Delivery:
        config = PushConfig("a", URL, "token", "Bearer", "s3cret", version)
        held = Delivery(record.task_id, "a", config.dump(), progress.dump(), self.clock.now + LEASE)
        assert await self.log.tasks.deliveries.put(held, 10)
        return held

    def start(self, held: Delivery) -> "asyncio.Task[None]":
        return asyncio.create_task(Deliverer(self.tools, held).run())

    async def deliver(
        self, record: TaskRecord, progress: DeliveryProgress = BEGINNING, version: str = V10
    ) -> Delivery:
        """Deliver until the deliverer ends; return what is stored then."""
        held = await self.hold(record, progress, version)
        await asyncio.wait_for(self.start(held), LIMIT)
        return await self.stored(record)

    async def stored(self, record: TaskRecord) -> Delivery:
        [delivery] = await self.log.tasks.deliveries.all(record.task_id)
        return delivery

    async def delivered(self, record: TaskRecord, generation: int) -> None:
        """Wait until it is stored that the webhook has received this generation."""
        async with asyncio.timeout(LIMIT):
            while True:
                progress = DeliveryProgress.load((await self.stored(record)).progress)
                if progress.generation == generation:
                    return
                await asyncio.sleep(0.005)

    async def ended(self, record: TaskRecord) -> None:
        """Wait until the last turn of a task is over."""
        async with asyncio.timeout(LIMIT):
            while True:
                latest = await self.service.states.settled(await self.current(record))
                if latest.state != WORKING:
                    return
                await asyncio.sleep(0.005)

    async def current(self, record: TaskRecord) -> TaskRecord:
        found = await self.log.tasks.get(record.task_id)
        assert found is not None
        return found


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    desk, log = Desk(), MemoryStreamLog()
    app = AgentApp(desk.agent, log=log, drain_timeout=0.0, cancel_grace=0.5)
    async with app.lifespan():
        yield World(app, log, desk)


def message(text: str, message_id: str = "m", **ids: str) -> dict[str, Any]:
    parts = [{"text": text}]
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "parts": parts, **ids}}


def kinds(bodies: list[dict[str, Any]]) -> list[str]:
    return [next(iter(body)) for body in bodies]


def content(body: dict[str, Any]) -> dict[str, Any]:
    [found] = body.values()
    assert isinstance(found, dict)
    return found


def check_no_gap(bodies: list[dict[str, Any]], after: int = 0) -> None:
    """Check that the generations of events follow each other, or repeat."""
    for body in bodies:
        event = content(body)
        first = event.get("metadata", {}).get("coreason", {}).get("firstGeneration")
        first = event["metadata"]["generation"] if first is None else first
        assert first <= after + 1, f"{first} after {after}"
        after = max(after, event["metadata"]["generation"])


def text_of(bodies: list[dict[str, Any]]) -> str:
    """Return the text that a client has put together."""
    text, seen = "", 0
    for body in bodies:
        event = content(body)
        if event.get("metadata", {}).get("generation", seen + 1) <= seen:
            continue
        seen = event.get("metadata", {}).get("generation", seen)
        if "task" in body:
            artifacts = event.get("artifacts", ())
            text = "".join(p["text"] for one in artifacts for p in one["parts"])
        elif "artifactUpdate" in body:
            added = "".join(part["text"] for part in event["artifact"]["parts"])
            text = text + added if event.get("append") else added
    return text


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.005)
