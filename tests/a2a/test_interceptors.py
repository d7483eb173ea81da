"""Hooks that change the metadata of a request, and hooks that see every event of a stream."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from coreason_client.a2a import A2AClient, AsyncA2AClient, CallInfo, Event
from tests.a2a.loopback import CUT, Agent, Answer, Seen, serve, stream_of

WAYS = pytest.mark.parametrize("way", ["sync", "async"])
TEXT = "1\u20282\u20283\u20284\u2028"


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


pytestmark = pytest.mark.usefixtures("coreason_clock")  # no back-off takes time


def using(way: str, agent: Agent, use: Callable[[Any], Any], **options: Any) -> Any:
    """Do something with a client: `use` returns a value, an awaitable, or a stream to read."""
    if way == "sync":
        with A2AClient.connect(agent.url, **options) as client:
            found = use(client)
            return list(found) if isinstance(found, Iterator) else found

    async def main() -> Any:
        async with await AsyncA2AClient.connect(agent.url, **options) as client:
            found = use(client)
            if isinstance(found, Awaitable):
                return await found
            return [event async for event in found]

    return asyncio.run(main(), debug=True)


def calls(agent: Agent) -> list[Seen]:
    return [seen for seen in agent.seen if "well-known" not in seen.path]


def running_task(agent: Agent) -> None:
    status = {"state": "TASK_STATE_WORKING"}
    agent.tasks["t"] = {"id": "t", "contextId": "c", "status": status}


# Metadata


def tag(call: CallInfo) -> None:
    call.metadata["tag"] = call.operation


OWN = {"purpose": "test", "inner": {"a": [1]}}
WITH_METADATA: dict[str, Callable[[Any], Any]] = {
    "send_message": lambda c: c.send_message("say", metadata=OWN),
    "send_message_stream": lambda c: c.send_message_stream("say", metadata=OWN),
    "cancel_task": lambda c: c.cancel_task("t", metadata=OWN),
}


@WAYS
@pytest.mark.parametrize("name", WITH_METADATA)
def test_a_hook_adds_metadata(agent: Agent, way: str, name: str) -> None:
    running_task(agent)
    using(way, agent, WITH_METADATA[name], on_request=tag)
    [seen] = calls(agent)
    assert seen.json["params"]["metadata"] == {**OWN, "tag": name}


@WAYS
@pytest.mark.parametrize("name", WITH_METADATA)
def test_a_hook_removes_metadata(agent: Agent, way: str, name: str) -> None:
    running_task(agent)
    using(way, agent, WITH_METADATA[name], on_request=lambda call: call.metadata.clear())
    [seen] = calls(agent)
    assert "metadata" not in seen.json["params"]
    assert OWN == {"purpose": "test", "inner": {"a": [1]}}


@WAYS
def test_metadata_of_a_message_that_is_sent_to_an_agent_without_streams(
    agent: Agent, way: str
) -> None:
    agent.card_extra = {"capabilities": {"streaming": False}}
    using(way, agent, lambda c: c.send_message_stream("count"), on_request=tag)
    sent = calls(agent)[0].json
    assert sent["method"] == "SendMessage"
    assert sent["params"]["metadata"] == {"tag": "send_message_stream"}
    assert sent["params"]["configuration"]["returnImmediately"] is True


@WAYS
def test_the_other_calls_have_no_metadata(agent: Agent, way: str) -> None:
    running_task(agent)
    using(way, agent, lambda c: c.get_task("t"), on_request=tag)
    using(way, agent, lambda c: c.list_tasks(), on_request=tag)
    assert all("metadata" not in seen.json["params"] for seen in calls(agent))


@WAYS
def test_a_message_that_is_sent_twice_has_its_own_metadata(agent: Agent, way: str) -> None:
    numbers = iter(range(9))

    def number(call: CallInfo) -> None:
        call.metadata["number"] = next(numbers)

    for _ in range(2):
        using(way, agent, lambda c: c.send_message("say"), on_request=number)
    assert [seen.json["params"]["metadata"] for seen in calls(agent)] == [
        {"number": 0},
        {"number": 1},
    ]


@WAYS
def test_metadata_becomes_json_as_that_of_a_caller_does(agent: Agent, way: str) -> None:
    def add(call: CallInfo) -> None:
        call.metadata["at"] = datetime(2026, 10, 5, tzinfo=UTC)

    using(way, agent, lambda c: c.send_message("say"), on_request=add)
    assert calls(agent)[0].json["params"]["metadata"] == {"at": "2026-10-05T00:00:00Z"}

    def add_odd(call: CallInfo) -> None:
        call.metadata["odd"] = object()

    with pytest.raises(ValueError, match="object"):
        using(way, agent, lambda c: c.send_message("say"), on_request=add_odd)
    assert len(calls(agent)) == 1


# Events


class Watcher:
    """Keeps the events that a hook sees."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.operations: set[str] = set()

    def __call__(self, call: CallInfo, event: Event) -> None:
        self.operations.add(call.operation)
        self.events.append(event)


@WAYS
def test_a_hook_sees_every_event_of_a_stream(agent: Agent, way: str) -> None:
    watcher = Watcher()
    events = using(way, agent, lambda c: c.send_message_stream("count"), on_event=watcher)
    assert len(events) == 6
    assert [a is b for a, b in zip(watcher.events, events, strict=True)] == [True] * 6
    assert watcher.operations == {"send_message_stream"}


@WAYS
def test_an_event_is_seen_once_although_the_connection_was_lost(agent: Agent, way: str) -> None:
    def cut(seen: Seen) -> Answer | None:
        if seen.path != "/rpc" or len(calls(agent)) > 1:
            return None
        events = list(agent.stream(seen.json["params"]))
        head = [{"jsonrpc": "2.0", "id": seen.json["id"], "result": event} for event in events[:3]]
        return stream_of([*head, CUT])

    agent.rules.append(cut)
    watcher = Watcher()
    events = using(way, agent, lambda c: c.send_message_stream("count"), on_event=watcher)
    assert len(calls(agent)) > 1
    assert watcher.events == events
    assert "".join(event.text for event in watcher.events) == TEXT


@WAYS
def test_a_stream_of_an_agent_without_streams_is_seen_too(agent: Agent, way: str) -> None:
    agent.card_extra = {"capabilities": {"streaming": False}}
    watcher = Watcher()
    events = using(way, agent, lambda c: c.send_message_stream("count"), on_event=watcher)
    assert watcher.events == events
    assert "".join(event.text for event in watcher.events) == TEXT


@WAYS
def test_a_unary_call_has_no_events(agent: Agent, way: str) -> None:
    watcher = Watcher()
    using(way, agent, lambda c: c.send_message("say"), on_event=watcher)
    assert watcher.events == []


@WAYS
def test_no_event_is_lost_if_the_hook_raises(
    agent: Agent, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(call: CallInfo, event: Event) -> None:
        raise PermissionError("hook")

    events = using(way, agent, lambda c: c.send_message_stream("count"), on_event=fail)
    assert "".join(event.text for event in events) == TEXT
    # On a busy machine, asyncio may log that a step of the loop was slow.
    messages = [record.message for record in caplog.records if record.name != "asyncio"]
    assert messages == ["on_event failed for send_message_stream"] * 6


@WAYS
def test_the_hooks_of_a_stream_share_their_call(agent: Agent, way: str) -> None:
    def start(call: CallInfo) -> None:
        call.state["count"] = 0

    def count(call: CallInfo, event: Event) -> None:
        call.state["count"] += 1

    ended: list[Any] = []

    def end(call: CallInfo) -> None:
        ended.append((call.state["count"], call.error))

    hooks: Any = {"on_request": start, "on_event": count, "on_response": end}
    using(way, agent, lambda c: c.send_message_stream("count"), **hooks)
    assert ended == [(6, None)]
