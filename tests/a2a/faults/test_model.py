"""The task that the faulty server tells of is the same, however much of it has happened."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import httpx2
import pytest

from coreason_client.sse import SSEDecoder
from tests.faults import FaultServer

from .model import METHODS, Dialect, Model, counting
from .scripts import A2A_FAULTS, TaskRun, start

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
RPC: tuple[Dialect, ...] = ("1.0", "0.3")
NAMES = {
    dialect: {kind: method for method, kind in methods.items()}
    for dialect, methods in METHODS.items()
}


def text_of(artifacts: list[dict[str, Any]]) -> str:
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def call(run: TaskRun, kind: str) -> httpx2.Response:
    method = NAMES[run.model.dialect][kind]
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": "task-1"}}
    with httpx2.Client(timeout=5.0) as client:
        return client.post(run.url, json=body)


def results(response: httpx2.Response) -> list[dict[str, Any]]:
    events = [json.loads(event.data_bytes) for event in SSEDecoder().feed(response.content)]
    assert all(event["id"] == 7 for event in events)
    return [event["result"] for event in events]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("happened", range(1, 21))
def test_a_snapshot_and_the_events_after_it_are_the_whole_task(
    dialect: Dialect, happened: int
) -> None:
    model = Model(dialect, counting(20, "w{} ".format), happened)
    text = text_of(model.task().get("artifacts", []))
    for number in range(happened + 1, 21):
        event = model.event(number)
        update = event.get("artifactUpdate", event)
        text += text_of([update["artifact"]] if "artifact" in update else [])
    assert text == model.text == "".join(f"w{number} " for number in range(1, 18))
    assert model.finished
    assert model.state() == "completed"


@pytest.mark.parametrize("dialect", RPC)
def test_a_correct_stream_has_every_event(dialect: Dialect, server: FaultServer) -> None:
    run = start(server, "correct", dialect=dialect)
    found = results(call(run, "stream"))
    assert len(found) == 20
    kinds = [item.get("kind") or next(iter(item)) for item in found]
    assert kinds[0] == "task"
    assert kinds[2:-1] == ["artifact-update" if dialect == "0.3" else "artifactUpdate"] * 17
    assert found[-1].get("final", True) is True
    assert call(run, "get").json()["result"]["status"]["state"].lower().endswith("completed")


@pytest.mark.parametrize("dialect", RPC)
def test_a_finished_task_cannot_be_subscribed_to(dialect: Dialect, server: FaultServer) -> None:
    run = start(server, "correct", dialect=dialect)
    call(run, "send")
    response = call(run, "subscribe")
    data = response.text.removeprefix("data: ")
    assert json.loads(data)["error"]["code"] == -32004
    assert run.calls == ["send", "subscribe"]


@pytest.mark.parametrize("dialect", RPC)
def test_who_subscribes_after_a_clean_end_misses_nothing(
    dialect: Dialect, server: FaultServer
) -> None:
    run = start(server, "cut", dialect=dialect, how="end", meanwhile=3)
    assert len(results(call(run, "stream"))) == 8
    snapshot, *rest = results(call(run, "subscribe"))
    assert len(rest) == 20 - 8 - 3
    task = snapshot.get("task", snapshot)
    assert text_of(task["artifacts"]) == "".join(f"w{number} " for number in range(1, 10))


def test_an_option_that_nobody_reads_is_refused(server: FaultServer) -> None:
    with pytest.raises(TypeError, match="takes"):
        start(server, "cut", afterwards=3)


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.summary.endswith(".") for fault in A2A_FAULTS.values())
