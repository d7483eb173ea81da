"""An agent that exists on paper: a task told in either dialect over connections that break."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from coreason_client._http._types import Request, TransportFailure
from coreason_client._retry import Backoff
from coreason_client.a2a._bindings import JsonRpcChannel, RestChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import dialect_of
from coreason_client.a2a._resubscribe import ResubscribeMachine
from coreason_client.a2a._route import AgentRoute, Interface
from coreason_client.a2a.errors import A2AError
from coreason_client.a2a.streams import AsyncEventStream, EventStream
from coreason_client.a2a.types import (
    Event,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from coreason_client.server.a2a._v03._conversions import event_to_v03, task_to_v03
from tests.cap.scripted import AsyncPaper, Connection, Network, SyncPaper, failure

URL = "https://agent.example/a2a"
TASK, CONTEXT = "task-1", "context-1"
JSON = {"content-type": "application/json"}
UNSUPPORTED = {"code": -32004, "message": "the task is over"}


def chunk(
    text: str, *, append: bool = True, last: bool = False, artifact: str = "a"
) -> dict[str, Any]:
    update: dict[str, Any] = {
        "taskId": TASK,
        "contextId": CONTEXT,
        "artifact": {"artifactId": artifact, "parts": [{"text": text}]},
    }
    update |= {"append": True} if append else {}
    update |= {"lastChunk": True} if last else {}
    return {"artifactUpdate": update}


def status(state: str, text: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text is not None:
        said = {"messageId": f"m-{text}", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        found["message"] = said
    return {"statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": found, **more}}


def task(state: str = "SUBMITTED", *texts: str) -> dict[str, Any]:
    found: dict[str, Any] = {"id": TASK, "contextId": CONTEXT}
    found["status"] = {"state": f"TASK_STATE_{state}"}
    if texts:
        found["artifacts"] = [{"artifactId": "a", "parts": [{"text": text} for text in texts]}]
    return {"task": found}


def numbered(event: dict[str, Any], generation: int) -> dict[str, Any]:
    """Return an event with a number, as agents send it that count the changes of a task."""
    [(kind, content)] = event.items()
    return {kind: {**content, "metadata": {"generation": generation}}}


def story(texts: list[str]) -> list[dict[str, Any]]:
    """Return the events of a task that tells these texts."""
    chunks = [chunk(text, append=i > 0, last=i == len(texts) - 1) for i, text in enumerate(texts)]
    return [task(), status("WORKING"), *chunks, status("COMPLETED")]


def state_after(events: list[dict[str, Any]], count: int, *, joined: bool = False) -> Any:
    """Return the task as the agent knows it after so many events of a story."""
    found: dict[str, Any] = task()["task"]
    parts: list[Any] = []
    for event in events[:count]:
        if "statusUpdate" in event:
            found["status"] = event["statusUpdate"]["status"]
        elif "artifactUpdate" in event:
            parts += event["artifactUpdate"]["artifact"]["parts"]
    if joined and parts:
        parts = [{"text": "".join(part["text"] for part in parts)}]
    if parts:
        found["artifacts"] = [{"artifactId": "a", "parts": parts}]
    return found


def sse(request: Request, wrapper: Any, *, version: str = "1.0", event_id: str = "") -> bytes:
    result = event_to_v03(wrapper) if version == "0.3" else wrapper
    data = json.dumps({"jsonrpc": "2.0", "id": number_of(request), "result": result})
    return (f"id: {event_id}\n" if event_id else "").encode() + f"data: {data}\n\n".encode()


def answer(request: Request, **members: Any) -> Connection:
    body = json.dumps({"jsonrpc": "2.0", "id": number_of(request), **members}).encode()
    return Connection(chunks=[body], headers={**JSON, "content-length": str(len(body))})


def number_of(request: Request) -> int:
    number = json.loads(request.content)["id"]
    assert isinstance(number, int)
    return number


def method_of(request: Request) -> str:
    return str(json.loads(request.content)["method"])


@dataclass
class Leg:
    """One connection: how far the task has come when it is made, and where it ends.

    `told` events go over it; then it breaks, in the middle of the next one if `inside`, or ends
    cleanly if not `breaks`.
    """

    told: int
    missed: int = 0
    inside: int = 0
    breaks: bool = True
    manner: str = "snapshot"  # or "joined", "replay", "bare"


@dataclass
class PaperAgent:
    """Tells a story over legs; whatever comes after them is told to the end."""

    events: list[dict[str, Any]]
    legs: list[Leg]
    version: str = "1.0"
    position: int = 0
    fetches: int = 0
    subscriptions: list[int] = field(default_factory=list)

    def __call__(self, request: Request) -> Connection:
        method = method_of(request)
        if method in ("GetTask", "tasks/get"):
            self.fetches += 1
            # Meanwhile the task goes on.
            self.position = min(len(self.events), self.position + 1 + self.fetches)
            found = state_after(self.events, self.position)
            return answer(request, result=self._task(found))
        if method in ("SendStreamingMessage", "message/stream"):
            return self._tell(request, self._next_leg(), [])
        leg = self._next_leg()
        self.subscriptions.append(self.position)
        self.position = min(len(self.events), self.position + leg.missed)
        if self.position == len(self.events):
            return answer(request, error=UNSUPPORTED)
        return self._tell(request, leg, self._prelude(leg))

    def _task(self, found: Any) -> Any:
        return task_to_v03(found) if self.version == "0.3" else found

    def _next_leg(self) -> Leg:
        return self.legs.pop(0) if self.legs else Leg(told=len(self.events))

    def _prelude(self, leg: Leg) -> list[Any]:
        if leg.manner == "replay":
            return self.events[: self.position]
        if leg.manner == "bare":
            return []
        found = state_after(self.events, self.position, joined=leg.manner == "joined")
        return [{"task": found}]

    def _tell(self, request: Request, leg: Leg, prelude: list[Any]) -> Connection:
        end = min(len(self.events), self.position + leg.told)
        told = [*prelude, *self.events[self.position : end]]
        pieces = [sse(request, event, version=self.version) for event in told]
        if leg.inside and end < len(self.events):
            pieces.append(sse(request, self.events[end], version=self.version)[: leg.inside])
        whole = end == len(self.events)
        self.position = end
        return Connection(pieces, end=failure() if leg.breaks and not whole else None)


def route_to(
    *versions: str, settings: Settings | None = None, rest: bool = False
) -> tuple[AgentRoute, Settings]:
    settings = settings or Settings(backoff=Backoff())
    ids = iter(range(1, 10_000))
    if rest:
        return AgentRoute([Interface(RestChannel(URL, settings))], settings), settings
    channels = [
        JsonRpcChannel(URL, dialect, settings, ids)
        for version in versions or ("1.0",)
        if (dialect := dialect_of(version)) is not None
    ]
    return AgentRoute([Interface(*channels)], settings), settings


PARAMS: dict[str, Any] = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
}


def machine_for(
    route: AgentRoute | None = None,
    name: str = "send_message_stream",
    params: dict[str, Any] | None = None,
    **options: Any,
) -> ResubscribeMachine:
    if params is None:
        params = {"id": TASK} if name == "resubscribe" else PARAMS
    route = route or route_to()[0]
    return ResubscribeMachine(route, name, params, jitter=lambda: 0.0, now=lambda: 0.0, **options)


@dataclass
class Outcome:
    """The result of a run."""

    events: list[Event]
    error: A2AError | None
    network: Network
    machine: ResubscribeMachine

    @property
    def text(self) -> str:
        """The text of all artifacts, as a user prints it."""
        return "".join(
            event.text for event in self.events if isinstance(event, TaskArtifactUpdateEvent | Task)
        )

    @property
    def states(self) -> list[str]:
        return [
            str(event.status.state).removeprefix("TASK_STATE_")
            for event in self.events
            if isinstance(event, TaskStatusUpdateEvent | Task)
        ]


Server = Callable[[Request], Connection]


def run_sync(machine: ResubscribeMachine, network: Network) -> Outcome:
    events: list[Event] = []
    error: A2AError | None = None
    try:
        with EventStream.from_machine(machine, SyncPaper(network)) as stream:
            events.extend(_watched(stream))
    except A2AError as raised:
        error = raised
    assert network.open_responses == 0, "a response was left open"
    return Outcome(events, error, network, machine)


def _watched(stream: EventStream) -> Iterator[Event]:
    yield from stream


def run_async(machine: ResubscribeMachine, network: Network) -> Outcome:
    events: list[Event] = []

    async def main() -> A2AError | None:
        try:
            async with AsyncEventStream.from_machine(machine, AsyncPaper(network)) as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - those before an error count
        except A2AError as raised:
            return raised
        return None

    # Nothing on paper ever waits, so the coroutine runs through without an event loop.
    with pytest.raises(StopIteration) as stopped:
        main().send(None)
    assert network.open_responses == 0, "a response was left open"
    return Outcome(events, stopped.value.value, network, machine)


SHELLS = {"sync": run_sync, "async": run_async}


def told(server: Server, shell: str = "sync", **options: Any) -> Outcome:
    """Run the stream of a message against a server."""
    return SHELLS[shell](machine_for(**options), Network(server))


def broken(kind: TransportFailure | None = None) -> Connection:
    """A connection that never comes to be."""
    return Connection(refused=kind or failure())
