"""Runs over HTTP: started, cut at every event, joined, cancelled and left."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from coreason_client.server import (
    AGUI,
    AgentApp,
    AgentGroup,
    AgentStream,
    MemoryStreamLog,
    running,
)
from coreason_client.server.log.base import StreamLog
from tests.server.log.backends import BACKENDS, Clock

from ..openai.cutting import cutting
from ..peer import LIMIT, Gate, wait_for
from .model import Model, events_of, frames_of
from .serving import (
    CUSTOM,
    EVERYTHING,
    KEY,
    KEYS,
    MESSAGES,
    OTHER_KEY,
    PACKETS,
    USAGE,
    Site,
    comparable,
    expire,
    read_until,
    run_body,
    site,
    user,
)

LOGS = ["memory", "sqlite", "valkey"]
COUNT = 33  # of the events of the answer


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@contextmanager
def site_on(name: str, folder: Path, **options: Any) -> Iterator[Site]:
    log: StreamLog = BACKENDS[name](Clock(), folder)
    with site(log=log, **options) as server:
        yield server


def check_whole(events: list[dict[str, Any]], *, custom: bool = True) -> None:
    """Check that events are those of the whole answer."""
    model = Model([user(EVERYTHING)]).add_all(events)
    answer = [one for one in model.messages if one["role"] != "user"]
    assert comparable(answer) == MESSAGES
    assert [one["role"] for one in model.messages].index("user") == 0
    assert events[-1]["type"] == "RUN_FINISHED"
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["usage"] == [USAGE]
    if custom:
        assert [name for name, _ in model.custom] == CUSTOM


def test_a_whole_answer(server: Site) -> None:
    body = run_body(EVERYTHING)
    answer = server.http.post(
        "/ag-ui",
        json=body,
        headers={"Authorization": f"Bearer {KEY}", "Accept": "application/vnd.ag-ui.event+proto"},
    )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    events = events_of(answer.content)
    assert len(events) == COUNT
    check_whole(events)
    assert {events[index][name] for index in (0, -1) for name in ("threadId", "runId")} == {
        body["threadId"],
        body["runId"],
    }


def test_the_path_is_a_setting() -> None:
    with site(ag_ui=AGUI(path="/chat/run")) as server:
        headers = {"Authorization": f"Bearer {KEY}"}
        body = run_body()
        for path, status in (("/chat/run", 200), ("/chat/run/", 200), ("/ag-ui", 404)):
            assert server.http.post(path, json=body, headers=headers).status_code == status
        path = f"/chat/run/runs/{body['runId']}"
        assert server.http.delete(path, headers=headers).status_code == 204


@pytest.mark.parametrize("name", LOGS)
def test_an_answer_is_exact_after_any_event(name: str, tmp_path: Path) -> None:
    with site_on(name, tmp_path) as server:
        body = run_body(EVERYTHING)
        frames = server.frames(body)
        check_whole([event for _, event in frames])
        for index, (last, _) in enumerate(frames):
            assert server.frames(body, last) == frames[index + 1 :]
        joined = server.frames(body)
        assert [one["type"] for _, one in joined] == [
            *("RUN_STARTED", "MESSAGES_SNAPSHOT", *["CUSTOM"] * 4, "RUN_FINISHED")
        ]
        check_whole([event for _, event in joined])
        for index, (last, _) in enumerate(joined):
            assert server.frames(body, last) == joined[index + 1 :]
        assert len(server.agent.runs) == 1


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
def test_an_answer_is_exact_after_a_cut_at_any_event(server: Site, half: bool) -> None:
    """With `half`, a half of the next event arrives too."""
    with cutting(server.url) as proxy:
        proxy.half = half
        headers = {"Authorization": f"Bearer {KEY}", "Connection": "close"}
        for after in range(1, COUNT):
            proxy.after = after
            body, runs = run_body(EVERYTHING), len(server.agent.runs)
            received = b""
            with (
                pytest.raises(httpx2.TransportError),
                httpx2.stream(
                    "POST", f"{proxy.url}/ag-ui", json=body, headers=headers, timeout=LIMIT
                ) as answer,
            ):
                for chunk in answer.iter_raw():
                    received += chunk
            frames = frames_of(received[: received.rindex(b"\n\n") + 2])
            assert len(frames) == after
            frames += server.frames(body, frames[-1][0])
            assert len(frames) == COUNT
            check_whole([event for _, event in frames])
            assert len(server.agent.runs) == runs + 1


@pytest.mark.parametrize("name", LOGS)
def test_a_reload_in_mid_answer_shows_each_message_once(name: str, tmp_path: Path) -> None:
    steps = range(len(PACKETS)) if name == "memory" else (1, 5, 12)
    with site_on(name, tmp_path) as server:
        for count in steps:
            body = run_body(f"Wait after:{count}")
            with server.reading(body) as first:
                server.agent.gates[f"Wait after:{count}"].seen()
                with server.reading(body) as second:
                    wanted = b"MESSAGES_SNAPSHOT" if count else b"RUN_STARTED"
                    start, rest = read_until(second, wanted)
                    server.agent.gates[f"Wait after:{count}"].open()
                    again = frames_of(start + b"".join(rest))
                frames = frames_of(first.read())
            check_whole([event for _, event in frames])
            check_whole([event for _, event in again])
            models = [
                Model(body["messages"]).add_all([event for _, event in one])
                for one in (frames, again)
            ]
            assert models[0].messages == models[1].messages
            # What comes live has the ids that it has for every reader.
            live = [one for one in again if ".s." not in one[0]]
            assert live == frames[len(frames) - len(live) :]
        assert len(server.agent.runs) == len(steps)


def test_a_reload_can_be_resumed_while_the_answer_goes_on(server: Site) -> None:
    question = "Wait after:6"
    body = run_body(question)
    with server.reading(body):
        server.agent.gates[question].seen()
        with server.reading(body) as second:
            start, _ = read_until(second, b"TEXT_MESSAGE_START")
        frames = frames_of(start[: start.rindex(b"\n\n") + 2])
    assert [one["type"] for _, one in frames][:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    server.agent.gates[question].open()
    for count in range(1, len(frames) + 1):
        events = [
            event for _, event in [*frames[:count], *server.frames(body, frames[count - 1][0])]
        ]
        check_whole(events)


def test_the_same_run_twice_at_once_runs_once(server: Site) -> None:
    body, runs = run_body(EVERYTHING), len(server.agent.runs)
    with ThreadPoolExecutor(4) as pool:
        for events in pool.map(server.events, [body] * 4):
            check_whole(events)
    assert len(server.agent.runs) == runs + 1


def test_two_runs_of_one_thread_at_once(server: Site) -> None:
    bodies = [run_body(f"Hello {number}", threadId="one thread") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for number, events in enumerate(pool.map(server.events, bodies)):
            [message] = Model([]).add_all(events).messages
            assert message["content"] == f"You said Hello {number}"


def test_a_run_id_belongs_to_one_input(server: Site) -> None:
    body = run_body()
    last = server.frames(body)[1][0]
    changes: list[dict[str, Any]] = [{"state": 1}, {"threadId": "other"}, {"messages": []}]
    for changed in changes:
        for position in (None, last):
            answer = server.post({**body, **changed}, position)
            assert answer.status_code == 409
            assert "The runId was used before with another input" in answer.json()["detail"]
    other = server.post({**body, "runId": "other"}, last)
    assert other.status_code == 409


def test_a_run_of_another_caller_is_unknown(server: Site) -> None:
    body = run_body()
    last = server.frames(body)[1][0]
    assert server.post(body, last, OTHER_KEY).status_code == 404
    assert server.post(body, last[:24] + "0" * 12 + last[36:]).status_code == 404
    runs = len(server.agent.runs)
    assert server.post(body, None, OTHER_KEY).status_code == 200  # a run of the other caller
    assert len(server.agent.runs) == runs + 1
    assert server.post(body, None, "nobody").status_code == 401


@pytest.mark.parametrize(
    "last",
    [
        *("", "x", "{id}", "{id}:1", "{id}:1.", "{id}:1.-1", "{id}:1.+1", "{id}:1.01", "{id}.0x"),
        *("{id}:1.1.1", "{id}:1.s", "{id}:1.s1", "{id}:1.x.1", "{id}:01.0", "{id}:1.1_0", ".0"),
        *("{id}:1.0, {id}:1.0", "{id}:1:0.0", "{id}:1.9999999999", "not-an-id:1.0", "{id}:1.٣"),
    ],
)
def test_a_position_of_another_form_is_refused(server: Site, last: str) -> None:
    body = run_body()
    name = server.frames(body)[0][0].partition(":")[0]
    given = last.replace("{id}", name).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Last-Event-ID": given}
    answer = server.http.post("/ag-ui", json=body, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Last-Event-ID must be the id of an event of this run."


def test_two_positions_are_refused(server: Site) -> None:
    body = run_body()
    last = server.frames(body)[0][0]
    headers = [("Authorization", f"Bearer {KEY}"), *[("Last-Event-ID", last)] * 2]
    assert server.http.post("/ag-ui", json=body, headers=headers).status_code == 400


def test_a_position_after_the_end_is_refused(server: Site) -> None:
    body = run_body()
    name = server.frames(body)[0][0].partition(":")[0]
    assert server.post(body, f"{name}:99.0").status_code == 410


def test_leaving_is_not_cancelling(server: Site) -> None:
    body = run_body("Wait after:7")
    with server.reading(body) as answer:
        read_until(answer, b"RUN_STARTED")
    server.agent.gates["Wait after:7"].open()
    check_whole(server.events(body))


def test_cancelling() -> None:
    with site() as server:
        body = run_body("Wait after:6")
        with server.reading(body) as answer:
            server.agent.gates["Wait after:6"].seen()
            assert server.cancel(body["runId"], OTHER_KEY) == 404
            assert server.cancel("unknown") == 404
            assert server.cancel("a%09b") == 404
            assert server.cancel(body["runId"], "nobody") == 401
            assert server.cancel(body["runId"]) == 204
            events = events_of(answer.read())
        model = Model([]).add_all(events)
        assert (events[-1]["type"], events[-1]["outcome"]) == (
            "RUN_FINISHED",
            {"type": "cancelled"},
        )
        assert server.cancel(body["runId"]) == 204
        assert server.events(body)[-1] == events[-1]
        assert comparable(model.messages)[:3] == MESSAGES[:3]


def test_an_answer_that_fails_ends_with_its_error(server: Site) -> None:
    events = server.events(run_body("Fail"))
    assert [one["type"] for one in events[-2:]] == ["TOOL_CALL_RESULT", "RUN_ERROR"]
    assert events[-1] == {
        "type": "RUN_ERROR",
        "message": "The tank is empty.",
        "code": "no_fuel",
    }


def test_an_expired_run_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    with site(log=BACKENDS["sqlite"](clock, tmp_path), retention=10.0) as server:
        body = run_body()
        last = server.frames(body)[1][0]
        clock.now += 60.0
        expire(server, 10.0)
        answer = server.post(body)
        assert (answer.status_code, server.post(body, last).status_code) == (410, 410)
        assert "has expired" in answer.json()["detail"]


def test_heartbeats_are_comments() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await asyncio.sleep(0.15)
        await stream.write("two")

    with site(agent, heartbeat=0.05) as server:
        answer = server.post(run_body())
        assert b"\n\n:" in answer.content
        [message] = Model([]).add_all(events_of(answer.content)).messages
        assert message["content"] == "one two"


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


def test_a_drain_cuts_readers_off() -> None:
    """A regular end would be half an answer that looks whole."""
    gate, stop, ready = Gate(), threading.Event(), threading.Event()
    urls: list[str] = []

    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await gate.wait()

    app = AgentApp(agent, log=Shared(), ag_ui=True, api_keys=KEYS, drain_timeout=LIMIT)

    def serve() -> None:
        with running(app) as server:
            urls.append(server.url)
            ready.set()
            stop.wait(LIMIT)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(LIMIT)
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx2.stream(
            "POST", f"{urls[0]}/ag-ui", json=run_body(), headers=headers, timeout=LIMIT
        ) as answer:
            _, rest = read_until(answer, b"one ")
            stop.set()
            with pytest.raises(httpx2.TransportError):
                list(rest)
    finally:
        gate.open()
        stop.set()
        thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_reader_that_takes_nothing_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """What it has received does not end as a whole answer does, and the run has the rest."""
    written = threading.Event()

    async def agent(_: Any, stream: AgentStream) -> None:
        for _number in range(80):
            await stream.write("x" * 90_000)
        written.set()

    def has_cut() -> bool:
        return any("was disconnected" in record.getMessage() for record in caplog.records)

    with caplog.at_level("INFO"), site(agent, send_timeout=0.2) as server:
        body = run_body()
        address = (server.http.base_url.host, server.http.base_url.port)
        with socket.create_connection(address, timeout=LIMIT) as stuck:
            content = json.dumps(body).encode()
            head = f"Authorization: Bearer {KEY}\r\nContent-Length: {len(content)}\r\n\r\n"
            stuck.sendall(
                b"POST /ag-ui HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + head.encode()
                + content
            )
            wait_for(written)
            for _ in range(int(LIMIT * 100)):
                if has_cut():
                    break
                threading.Event().wait(0.01)
            assert has_cut()
            received = b""
            with suppress(ConnectionError):
                while data := stuck.recv(65_536):
                    received += data
        assert not received.endswith(b"0\r\n\r\n")
        assert b"RUN_FINISHED" not in received
        events = server.events(body)
        assert events[-1]["type"] == "RUN_FINISHED"
        assert len(Model([]).add_all(events).messages[-1]["content"]) == 7_200_000


def test_what_the_agent_gets(server: Site) -> None:
    history = [
        {"id": "s", "role": "system", "content": "Be short."},
        user("First", "u1"),
        {"id": "r", "role": "reasoning", "content": "Hm."},
        {"id": "a", "role": "assistant", "content": "Second"},
        {"id": "x", "role": "activity", "activityType": "plan", "content": {}},
        user("Third", "u2"),
    ]
    given: dict[str, Any] = {
        "tools": [{"name": "click", "description": "Clicks"}],
        "context": [{"description": "d", "value": "v"}],
        "state": {"a": 1},
        "forwardedProps": {"b": 2},
        "parentRunId": "parent",
    }
    body = run_body(messages=history, protocolVersion="1.0", **given)
    server.events(body)
    request = server.agent.requests[-1]
    names = {name: body[name] for name in ("threadId", "runId")}
    assert request.payload.metadata == {"ag_ui": {**names, **given}}
    messages = request.payload.messages or []
    assert [(str(one.role), one.text) for one in messages] == [
        ("system", "Be short."),
        ("user", "Third"),
    ]
    events = request.payload.capabilities
    assert events is not None
    assert "REWIND" in events.supported_events


def test_the_history_is_the_one_of_the_input() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        said = [f"{message.role}:{message.text}" for message in await stream.history()]
        await stream.write(" ".join(said))

    with site(agent) as server:
        messages = [user("a"), {"id": "2", "role": "assistant", "content": "b"}, user("c", "3")]
        for thread in ("one", "one"):  # nothing is stored
            events = server.events(run_body(threadId=thread, messages=messages))
            [message] = Model([]).add_all(events).messages
            assert message["content"] == "user:a assistant:b"


def test_a_page_of_another_origin_may_resume_and_cancel() -> None:
    origin = "https://app.example"
    with site(cors_origins=[origin]) as server:
        for method, path in (("POST", "/ag-ui"), ("DELETE", "/ag-ui/runs/x")):
            asked = {
                "Origin": origin,
                "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": "authorization,content-type,last-event-id",
            }
            assert server.http.options(path, headers=asked).status_code == 200


def test_agents_of_a_group_have_their_own_runs() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("yes")

    log = MemoryStreamLog()
    apps = [AgentApp(agent, agent_id=name, ag_ui=True, log=log) for name in ("a", "b")]
    body = run_body()
    with running(AgentGroup(apps)) as server, httpx2.Client(base_url=server.url) as http:
        path = f"ag-ui/runs/{body['runId']}"
        first = http.post("/a/ag-ui", json=body)
        assert (first.status_code, http.delete(f"/b/{path}").status_code) == (200, 404)
        second = http.post("/b/ag-ui", json=body)
        assert first.headers["x-stream-id"] != second.headers["x-stream-id"]
        assert [http.delete(f"/{name}/{path}").status_code for name in ("a", "b")] == [204, 204]
