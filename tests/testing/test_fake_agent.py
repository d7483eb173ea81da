"""A scripted agent is the real server: its streams resume, and it records what it receives."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trio

from coreason_client import AsyncCAPClient, CAPClient, CAPConnectionError, CAPRuntimeError
from coreason_client.server import SQLiteStreamLog
from coreason_client.testing import (
    VirtualClock,
    assert_exactly_once,
    delay,
    disconnect,
    fail,
    fake_agent,
)

CUTS: list[Any] = [
    *(disconnect(), "a ", disconnect(), {"an": "event"}, disconnect(), disconnect()),
    *("b ", delay(0.01), disconnect(), delay(0.01), "c", disconnect()),
]


@pytest.mark.proves("KIT-agent-resume")
def test_a_client_resumes_after_each_disconnect(coreason_clock: VirtualClock) -> None:
    with fake_agent(CUTS) as agent, CAPClient(agent.url, "key") as client:
        stream = client.assist(client.chat("Hi").request)  # type: ignore[arg-type]
        packets = list(stream)
        assert_exactly_once(packets, ["a ", "b ", "c"])
        assert agent.disconnects == stream.reconnects == len(coreason_clock.waits) == 6
        at = [None, None, *(f"{stream.stream_id}:{seq}" for seq in (1, 2, 2, 3, 4))]
        assert agent.last_event_ids == at
        assert agent.questions == ["Hi"], "a reconnect is no question"


def test_a_durable_agent_is_disconnected_too(tmp_path: Path, coreason_clock: VirtualClock) -> None:
    log = SQLiteStreamLog(tmp_path / "log.db")
    script = ["a", "b", disconnect(), "c", "d", disconnect(), "e"]
    with fake_agent(script, log=log, durable=True) as agent, CAPClient(agent.url, "key") as client:
        assert client.ask("Hi") == "abcde"
        assert agent.disconnects == 2
        ids = [(at or "").partition(":")[2] for at in agent.last_event_ids]
        assert ids == ["", "2:1", "4:1"], "the number of a packet, and then its epoch"


def test_a_second_client_of_a_stream_is_not_disconnected_again() -> None:
    with fake_agent(["a", disconnect(), "b"]) as agent, CAPClient(agent.url, "key") as client:
        request: Any = client.chat("Hi").request
        assert_exactly_once(client.assist(request), "ab")
        assert_exactly_once(client.assist(request), "ab")
        assert agent.disconnects == 1


def test_a_client_that_does_not_retry_gets_an_error() -> None:
    with fake_agent(["a", disconnect(), "b"]) as agent:
        with CAPClient(agent.url, "key", max_retries=0) as client:
            stream = client.chat("Hi")
            with pytest.raises(CAPConnectionError):
                list(stream)
        assert stream.text == "a"


@pytest.mark.proves("KIT-agent-scripts")
def test_each_question_has_its_script_and_the_last_one_answers_the_rest() -> None:
    with fake_agent("one", ["t", "wo"]) as agent, CAPClient(agent.url, "key") as client:
        assert [client.ask(question) for question in "abc"] == ["one", "two", "two"]
        assert agent.questions == ["a", "b", "c"]
        assert len(agent.requests) == 3
        first = agent.requests[0]
        assert (first.method, first.path) == ("POST", "/assist")
        assert first.headers["authorization"] == "Bearer key"
        assert "Bearer" not in repr(agent.requests)
        assert first.json()["payload"]["messages"][0]["role"] == "user"
        assert repr(agent) == f"<FakeAgent at {agent.url}: 3 requests>"


def test_errors_of_a_script_reach_the_client(coreason_clock: VirtualClock) -> None:
    warning = fail("slow", code="slow", severity="WARNING")
    transient = fail("wait", code="busy", severity="TRANSIENT", details={"retry_after": 7})
    scripts = ([warning, "a", fail("no", code="down")], [transient, "b"])
    with fake_agent(*scripts) as agent, CAPClient(agent.url, "key") as client:
        for code, text in (("down", "a"), ("busy", "b")):
            stream = client.chat("Hi")
            with pytest.raises(CAPRuntimeError) as raised:
                list(stream)
            assert stream.text == text
            assert raised.value.stream_error is not None
            assert raised.value.stream_error.code == code
    assert coreason_clock.waits == [pytest.approx(7, abs=2)]


def test_options_go_to_the_server() -> None:
    with fake_agent("a", api_keys=["right"]) as agent, CAPClient(agent.url, "wrong") as client:
        with pytest.raises(CAPRuntimeError, match="401"):
            client.ask("Hi")
        assert agent.questions == []


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_it_serves_async_programs(library: str, coreason_clock: VirtualClock) -> None:
    async def main() -> None:
        async with (
            fake_agent(["a", disconnect(), "b"]) as agent,
            AsyncCAPClient(agent.url, "key") as client,
        ):
            assert await client.ask("Hi") == "ab"
        assert agent.disconnects == 1

    asyncio.run(main()) if library == "asyncio" else trio.run(main)


def test_its_life_has_a_beginning_and_an_end() -> None:
    agent = fake_agent(["a", delay(3600)])
    with pytest.raises(RuntimeError, match="no URL yet"):
        _ = agent.url
    for _ in range(2):  # it can be served again
        with agent, CAPClient(agent.url, "key") as client:
            assert next(iter(client.chat("Hi"))) == "a"  # and it need not come to its end
            with pytest.raises(RuntimeError, match="already"):
                agent.__enter__()
    assert len(agent.questions) == 2
