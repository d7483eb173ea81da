"""A server that is killed in the middle of runs: the runs go on, and the messages are exact."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.preloaded import PROJECT, PipedProcess

from ..peer import LIMIT
from .model import Model, events_of, frames_of
from .serving import KEY, MESSAGES, PACKETS, comparable, run_body

HEADERS = {"Authorization": f"Bearer {KEY}"}


@contextmanager
def replica(log: Path) -> Iterator[tuple[PipedProcess, httpx2.Client]]:
    process = PipedProcess(["-m", "tests.server.ag_ui.replica", str(log)], libraries=PROJECT)
    try:
        url = process.line()
        with httpx2.Client(base_url=url, headers=HEADERS, timeout=LIMIT) as http:
            yield process, http
    finally:
        process.close(LIMIT)


def without_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The numbers of packets differ after words were taken back."""
    return [{**message, "id": ""} for message in comparable(messages)]


def read_until_killed(answer: httpx2.Response) -> list[tuple[str, dict[str, Any]]]:
    received = b""
    try:
        for chunk in answer.iter_raw():
            received += chunk
    except httpx2.TransportError:
        return frames_of(received[: received.rindex(b"\n\n") + 2])
    raise AssertionError("half an answer looks whole")


def test_runs_go_on_after_a_kill(tmp_path: Path) -> None:
    """One kill in the middle of many runs, each of which is held after another packet."""
    counts = range(len(PACKETS) + 1)
    bodies = [run_body(f"Held after {count}") for count in counts]
    bodies += [run_body(f"Other after {count}") for count in counts]
    received: list[list[tuple[str, dict[str, Any]]]] = []
    with ExitStack() as stack:
        process, http = stack.enter_context(replica(tmp_path / "log.db"))
        answers = []
        for body in bodies:
            answers.append(stack.enter_context(http.stream("POST", "/ag-ui", json=body)))
            assert process.line() == "held"
        http.get("/health")  # what was written before has been sent now
        process.kill()
        received += map(read_until_killed, answers)
    rewound = 0
    with replica(tmp_path / "log.db") as (_, http):
        for body, frames in zip(bodies, received, strict=True):
            last = {"Last-Event-ID": frames[-1][0]}
            frames += frames_of(http.post("/ag-ui", json=body, headers=last).content)
            again = events_of(http.post("/ag-ui", json=body).content)
            rewound += "MESSAGES_SNAPSHOT" in [event["type"] for _, event in frames]
            for events in ([event for _, event in frames], again):
                model = Model(body["messages"]).add_all(events)
                assert model.messages[0] == body["messages"][0]
                assert without_ids(model.messages[1:]) == without_ids(MESSAGES)
                assert events[-1]["type"] == "RUN_FINISHED"
    assert rewound == len(counts)
