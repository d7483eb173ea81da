"""A2A on three replicas with one store: any of them serves any task, while one dies or leaves."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from coreason_client import A2AClient
from coreason_client.a2a import TaskState
from coreason_client.sse import SSEDecoder

from ..server.log.valkey_server import fresh_prefix, shared_server
from ..soak.fleet import Fleet, Replica
from ..soak.options import ReplicaOptions
from .a2a_replica import HELD_AT, PROGRAM, text
from .durable_fleet import LEASE, LIMIT, proxy_to, url_of

HEADERS = {"A2A-Version": "1.0", "Accept": "text/event-stream"}
WORKING, FAILED = "TASK_STATE_WORKING", "TASK_STATE_FAILED"
COMPLETED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"


# A test may end some of the replicas; the next one restarts only those.
@contextmanager
def fleet(folder: Path, *, durable: bool, drain_timeouts: Sequence[float]) -> Iterator[Fleet]:
    url, prefix = shared_server().url, fresh_prefix()
    options = [
        ReplicaOptions(
            url=url,
            prefix=prefix,
            lease=LEASE,
            durable=durable,
            drain_timeout=seconds,
            program=PROGRAM,
        )
        for seconds in drain_timeouts
    ]
    replicas = Fleet(folder, options)
    try:
        yield replicas
    finally:
        for replica in replicas.replicas:
            replica.kill()


def complete(replicas: Fleet) -> list[Replica]:
    """Start what does not run; return all three."""

    async def start() -> None:
        gone = [one for one in replicas.replicas if one.exited or not one.fit]
        await asyncio.gather(*(one.start() for one in gone))

    asyncio.run(start())
    return replicas.replicas


@pytest.fixture(scope="module")
def plain_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("plain")
    with fleet(folder, durable=False, drain_timeouts=[10.0, 10.0, 0.5]) as replicas:
        yield replicas


@pytest.fixture(scope="module")
def durable_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("durable")
    with fleet(folder, durable=True, drain_timeouts=[0.5, 0.5, 0.5]) as replicas:
        yield replicas


@pytest.fixture
def plain(plain_fleet: Fleet) -> list[Replica]:
    """Three replicas; the drain of the last one is short."""
    return complete(plain_fleet)


@pytest.fixture
def durable(durable_fleet: Fleet) -> list[Replica]:
    """Three replicas whose answers continue elsewhere; their drain is short."""
    return complete(durable_fleet)


# A client that shows every event as it was sent.


@contextmanager
def events(
    replica: Replica, path: str, headers: Mapping[str, str] = HEADERS, **request: Any
) -> Iterator[Iterator[dict[str, Any]]]:
    """Open a stream; yield its events, each with its kind and position."""
    url = f"{replica.url}/a2a{path}"
    with httpx2.stream("POST", url, headers=headers, timeout=LIMIT, **request) as response:
        assert response.status_code == 200, response.read()

        def read() -> Iterator[dict[str, Any]]:
            decoder = SSEDecoder()
            for chunk in response.iter_bytes():
                for event in decoder.feed(chunk):
                    [(kind, value)] = json.loads(event.data).items()
                    yield {"kind": kind, "position": event.id, **value}

        yield read()


def message(words: str) -> dict[str, Any]:
    parts = [{"text": words}]
    return {"message": {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts}}


def sending(replica: Replica, words: str) -> Any:
    return events(replica, "/message:stream", json=message(words))


def watching(replica: Replica, task_id: str) -> Any:
    return events(replica, f"/tasks/{task_id}:subscribe")


def get(replica: Replica, path: str) -> dict[str, Any]:
    response = httpx2.get(f"{replica.url}/a2a{path}", headers=HEADERS, timeout=LIMIT)
    found: dict[str, Any] = response.json()
    return found


def cancel(replica: Replica, task_id: str) -> dict[str, Any]:
    url = f"{replica.url}/a2a/tasks/{task_id}:cancel"
    task: dict[str, Any] = httpx2.post(url, headers=HEADERS, timeout=LIMIT).json()
    return task


def text_of(seen: list[dict[str, Any]]) -> str:
    """Return the answer in events that begin with the task; nothing may be replaced."""
    first, *updates = seen
    assert first["kind"] == "task"
    artifacts = [*first.get("artifacts", []), *(e["artifact"] for e in updates if "artifact" in e)]
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


def states_of(seen: list[dict[str, Any]]) -> list[str]:
    return [event["status"]["state"] for event in seen if "status" in event]


def until_held(stream: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Read until the agent has written the words before its pause."""
    seen = []
    for event in stream:
        seen.append(event)
        if "held" in json.dumps(event.get("status", {})):
            return seen
    pytest.fail(f"the agent did not pause: {seen}")


def generation_of(event: dict[str, Any]) -> int:
    number: int = event.get("metadata", {}).get("generation") or event["generation"]
    return number


def assert_gapless(seen: list[dict[str, Any]]) -> None:
    """Each event is one change of the task, and none is missing or repeated."""
    numbers = [generation_of(event) for event in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# The replica of the producer dies.


def test_a_task_of_a_dead_replica_fails_once_with_all_that_was_written(
    plain: list[Replica],
) -> None:
    first, second, third = plain
    with sending(first, "held") as sent:
        task_id = until_held(sent)[0]["id"]
        with watching(second, task_id) as watched:
            seen = [next(watched)]
            first.kill()
            seen += watched
    assert text_of(seen) == text(HELD_AT)
    assert states_of(seen) == [WORKING, FAILED]
    assert_gapless(seen)
    for replica in (second, third):
        task = get(replica, f"/tasks/{task_id}")
        assert task["status"]["state"] == FAILED
        assert generation_of(task) == generation_of(seen[-1])
        assert text_of([{"kind": "task", **task}]) == text(HELD_AT)
    listed = get(third, f"/tasks?status={FAILED}&contextId={seen[0]['contextId']}")
    assert [task["id"] for task in listed["tasks"]] == [task_id]


def test_a_task_of_a_dead_replica_is_cancelled_at_another(plain: list[Replica]) -> None:
    first, second, third = plain
    with sending(first, "held") as sent:
        task_id = until_held(sent)[0]["id"]
        with watching(second, task_id) as watched:
            seen = [next(watched)]
            first.kill()
            cancelled = cancel(third, task_id)
            seen += watched
    assert cancelled["status"]["state"] == states_of(seen)[-1] == CANCELED
    assert text_of(seen) == text_of([{"kind": "task", **cancelled}]) == text(HELD_AT)


def test_a_durable_task_of_a_dead_replica_continues_with_the_exact_text(
    durable: list[Replica],
) -> None:
    first, second, third = durable
    with sending(first, "held") as sent:
        before = until_held(sent)
        task_id = before[0]["id"]
        with watching(second, task_id) as watched:
            seen = [next(watched)]
            first.kill()
            seen += watched
    assert text_of(seen) == text()
    assert states_of(seen)[-1] == COMPLETED
    assert states_of(seen).count(COMPLETED) == 1
    assert_gapless(seen)
    task = get(third, f"/tasks/{task_id}")
    assert text_of([{"kind": "task", **task}]) == text()
    # Whoever sent the message continues after its last event, at any replica.
    headers = HEADERS | {"Last-Event-ID": before[-1]["position"]}
    with events(third, f"/tasks/{task_id}:subscribe", headers=headers) as rest:
        start, *missed = rest
    assert generation_of(start) == generation_of(before[-1])
    assert text_of([*before, *missed]) == text()
    assert_gapless([*before, *missed])


@pytest.mark.parametrize(
    ("kind", "words", "state"),
    [("plain", text(HELD_AT), TaskState.FAILED), ("durable", text(), TaskState.COMPLETED)],
    ids=["plain", "durable"],
)
def test_our_client_gets_everything_through_a_load_balancer(
    request: pytest.FixtureRequest, kind: str, words: str, state: TaskState
) -> None:
    first, second, third = request.getfixturevalue(kind)
    with (
        proxy_to(first) as proxy,
        A2AClient(f"{proxy.url}/a2a", max_retries=100) as client,
    ):
        stream = client.send_message_stream("held")
        shown, killed = "", False
        for event in stream:
            shown += event.text
            if shown == text(HELD_AT) and not killed:
                proxy.route_to(url_of(second), url_of(third))
                first.kill()
                killed = True
        assert shown == stream.text == words
        assert stream.task is not None
        assert stream.task.status.state is state


# A replica leaves.


def wait_until_draining(replica: Replica) -> None:
    deadline = time.monotonic() + LIMIT
    while httpx2.get(f"{replica.url}/health", timeout=LIMIT).json()["status"] == "ok":
        assert time.monotonic() < deadline, "the replica does not drain"
        time.sleep(0.02)


def test_open_streams_get_the_whole_answer_while_their_replica_drains(
    plain: list[Replica], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    first, second, _ = plain
    with ThreadPoolExecutor() as threads, sending(first, f"gated {gate}") as sent:
        seen = [next(sent)]
        task_id = seen[0]["id"]
        with watching(first, task_id) as local, watching(second, task_id) as remote:
            begun = [next(local)], [next(remote)]
            leaving = threads.submit(asyncio.run, first.leave())
            wait_until_draining(first)
            gate.touch()
            ended = [
                [*seen, *sent],
                [*begun[0], *local],
                [*begun[1], *remote],
            ]
    assert leaving.result(LIMIT) == 0
    for events_seen in ended:
        assert text_of(events_seen) == text()
        assert states_of(events_seen) == [WORKING, COMPLETED]
        assert_gapless(events_seen)
    assert get(second, f"/tasks/{task_id}")["status"]["state"] == COMPLETED


def test_a_task_that_outlasts_the_drain_fails_once(plain: list[Replica]) -> None:
    _, second, leaver = plain
    with sending(leaver, "held") as sent:
        task_id = until_held(sent)[0]["id"]
        with watching(second, task_id) as watched:
            seen = [next(watched)]
            assert asyncio.run(leaver.leave()) == 0
            seen += watched
    assert text_of(seen) == text(HELD_AT)
    assert states_of(seen) == [WORKING, FAILED]
    about = seen[-1]["metadata"]["coreason"]
    assert about["code"] == "server_stopped"


def test_a_durable_task_moves_to_another_replica_when_its_own_leaves(
    durable: list[Replica],
) -> None:
    first, second, _ = durable
    with sending(first, "held") as sent:
        task_id = until_held(sent)[0]["id"]
        with watching(second, task_id) as watched:
            seen = [next(watched)]
            assert asyncio.run(first.leave()) == 0
            seen += watched
    assert text_of(seen) == text()
    assert states_of(seen)[-1] == COMPLETED
    assert_gapless(seen)


# Without faults.


def test_a_question_is_answered_at_another_replica_and_a_subscriber_sees_both(
    plain: list[Replica],
) -> None:
    first, second, third = plain
    with sending(first, "ask") as sent:
        asked = list(sent)
    task_id = asked[0]["id"]
    assert states_of(asked)[-1] == "TASK_STATE_INPUT_REQUIRED"
    with watching(second, task_id) as watched:
        seen = [next(watched)]
        reply = message("here")
        reply["message"]["taskId"] = task_id
        with events(third, "/message:stream", json=reply) as answered:
            answers = list(answered)
        seen += watched
    assert states_of(answers)[-1] == states_of(seen)[-1] == COMPLETED
    final = get(first, f"/tasks/{task_id}")
    assert text_of([{"kind": "task", **final}]) == "here"
    assert [part["parts"][0]["text"] for part in final["history"]] == ["ask", "Where?", "here"]


def test_a_client_that_leaves_does_not_end_its_task(plain: list[Replica], tmp_path: Path) -> None:
    first, second, _ = plain
    gate = tmp_path / "gate"
    with sending(first, f"gated {gate}") as sent:
        task_id = next(sent)["id"]
    with watching(second, task_id) as watched:
        seen = [next(watched)]
        gate.touch()
        seen += watched
    assert text_of(seen) == text()
    assert states_of(seen)[-1] == COMPLETED


def test_a_task_is_cancelled_at_another_replica(plain: list[Replica]) -> None:
    first, second, _ = plain
    with sending(first, "held") as sent:
        seen = until_held(sent)
        assert cancel(second, seen[0]["id"])["status"]["state"] == CANCELED
        seen += sent
    assert states_of(seen)[-1] == CANCELED
    assert states_of(seen).count(CANCELED) == 1


def test_a_message_that_is_sent_again_joins_its_task_at_any_replica(
    plain: list[Replica], tmp_path: Path
) -> None:
    first, second, _ = plain
    gate = tmp_path / "gate"
    same = message(f"gated {gate}")
    with events(first, "/message:stream", json=same) as sent:
        begun = next(sent)
        with events(second, "/message:stream", json=same) as joined:
            seen = [next(joined)]
            gate.touch()
            seen += joined
        rest = [begun, *sent]
    assert seen[0]["id"] == begun["id"]
    assert text_of(seen) == text_of(rest) == text()
    context = begun["contextId"]
    assert get(second, f"/tasks?contextId={context}")["totalSize"] == 1
