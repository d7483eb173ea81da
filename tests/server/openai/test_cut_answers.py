"""Connections that are cut at every event, and a server that is killed: the answer is exact."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from coreason_client.llm import AsyncLLMClient, LLMClient, TextDelta
from tests.preloaded import PROJECT, PipedProcess

from ..peer import LIMIT
from .cutting import CuttingProxy, cutting
from .serving import (
    EVERYTHING,
    KEY,
    MODEL,
    PACKETS,
    TEXT,
    Site,
    async_sdk,
    check_whole,
    comparable,
    sdk,
    site,
)

COUNT = 57  # of the events of the answer
CHUNKS = 13  # of the same answer as a chat, with the end mark
BROKEN = (httpx.TransportError, openai.APIConnectionError)
ALONE = {"Connection": "close"}  # one connection for each request


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(server: Site) -> Iterator[CuttingProxy]:
    with cutting(server.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def client(proxy: CuttingProxy) -> Iterator[openai.OpenAI]:
    with sdk(proxy.api, default_headers=ALONE) as client:
        yield client


@pytest.fixture(scope="module")
def uncut(server: Site) -> list[dict[str, Any]]:
    with sdk(server.api) as client:
        stream = client.responses.create(model=MODEL, input=EVERYTHING, stream=True)
        events = [event.to_dict(mode="json") for event in stream]
    check_whole(events)
    assert len(events) == COUNT
    return comparable(events)  # type: ignore[no-any-return]


def read(stream: Any, events: list[dict[str, Any]]) -> bool:
    """Add the events of a stream, and return True if it has ended and was not cut."""
    try:
        for event in stream:
            events.append(event.to_dict(mode="json"))  # noqa: PERF401 - those before a cut are kept
    except BROKEN:
        return False
    return True


def read_on(client: openai.OpenAI, events: list[dict[str, Any]]) -> None:
    """Read the rest of an answer, on as many connections as it takes."""
    name = events[0]["response"]["id"]
    for _ in range(2 * COUNT):
        last = events[-1]["sequence_number"]
        stream = client.responses.retrieve(name, stream=True, starting_after=last)
        if read(stream, events):
            return
    raise AssertionError("the answer did not end")


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("after", range(1, COUNT + 1))
def test_an_answer_is_exact_after_a_cut_at_any_event(
    client: openai.OpenAI,
    proxy: CuttingProxy,
    server: Site,
    uncut: list[dict[str, Any]],
    after: int,
    half: bool,
) -> None:
    """With `half`, a half of the next event arrives too."""
    proxy.after, proxy.half = after, half
    runs = len(server.agent.runs)
    events: list[dict[str, Any]] = []
    stream = client.responses.create(model=MODEL, input=EVERYTHING, stream=True)
    assert not read(stream, events)
    assert len(events) == after
    proxy.after = None
    read_on(client, events)
    assert comparable(events) == uncut
    assert len(server.agent.runs) == runs + 1


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_answer_is_exact_if_every_connection_is_cut(
    client: openai.OpenAI,
    proxy: CuttingProxy,
    uncut: list[dict[str, Any]],
    after: int,
    half: bool,
) -> None:
    proxy.after, proxy.half = after, half
    cuts = proxy.cuts
    events: list[dict[str, Any]] = []
    read(client.responses.create(model=MODEL, input=EVERYTHING, stream=True), events)
    read_on(client, events)
    assert comparable(events) == uncut
    assert proxy.cuts - cuts == COUNT // after


@pytest.mark.parametrize("after", [1, 2, 7])
def test_an_async_client_reads_an_answer_that_is_cut(
    proxy: CuttingProxy, uncut: list[dict[str, Any]], after: int
) -> None:
    proxy.after, proxy.half = after, False

    async def go() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        async with async_sdk(proxy.api, default_headers=ALONE) as client, asyncio.timeout(LIMIT):
            asked: Any = {"model": MODEL, "input": EVERYTHING}
            stream: Any = await client.responses.create(**asked, stream=True)
            while True:
                try:
                    async for event in stream:
                        events.append(event.to_dict(mode="json"))  # noqa: PERF401
                except BROKEN:
                    name, last = events[0]["response"]["id"], events[-1]["sequence_number"]
                    retrieve = client.responses.retrieve
                    stream = await retrieve(name, stream=True, starting_after=last)
                else:
                    return events

    assert comparable(asyncio.run(go())) == uncut


@pytest.mark.parametrize("after", [1, 5, CHUNKS - 1])
def test_a_chat_that_is_cut_is_an_error(
    client: openai.OpenAI, proxy: CuttingProxy, after: int
) -> None:
    """Chat completions cannot be resumed, but half an answer must not look like a whole one."""
    proxy.after, proxy.half = after, False
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": EVERYTHING}]}
    with pytest.raises(BROKEN):
        list(client.chat.completions.create(**asked, stream=True))


# Our own client


def deltas_text(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


LLM_OPTIONS: Any = {"provider": "openai", "timeout": LIMIT, "first_wait": 0.001}
MESSAGES: Any = [{"role": "user", "content": EVERYTHING}]


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("after", [2, 3, 4, 5, 8, 13, 21, 34, COUNT - 1])
def test_our_client_resumes_an_answer_that_is_cut(
    proxy: CuttingProxy, server: Site, after: int, half: bool
) -> None:
    proxy.after, proxy.half = after, half
    runs = len(server.agent.runs)
    with LLMClient(KEY, proxy.api, MODEL, wire="responses", **LLM_OPTIONS) as client:
        stream = client.stream(MESSAGES, resume=True)
        assert deltas_text(list(stream)) == TEXT == stream.result()["data"]["content"]
        usage = stream.result()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (30, 8)
    assert len(server.agent.runs) == runs + 1


def test_our_async_client_resumes_an_answer_that_is_cut(proxy: CuttingProxy) -> None:
    proxy.after, proxy.half = 3, False

    async def go() -> tuple[str, Any]:
        async with AsyncLLMClient(KEY, proxy.api, MODEL, wire="responses", **LLM_OPTIONS) as client:
            stream = client.stream(MESSAGES, resume=True)
            return deltas_text([delta async for delta in stream]), await stream.result()

    text, result = asyncio.run(asyncio.wait_for(go(), LIMIT))
    assert text == TEXT == result["data"]["content"]


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_our_client_reads_both_apis(server: Site, wire: Any) -> None:
    with LLMClient(KEY, server.api, MODEL, wire=wire, **LLM_OPTIONS) as client:
        whole = client.generate(MESSAGES)
        stream = client.stream(MESSAGES)
        assert deltas_text(list(stream)) == TEXT == whole["data"]["content"]
        for result in (whole, stream.result()):
            assert result["usage"]["completion_tokens"] == 8


# SIGKILL


class Replica:
    """A durable server in a separate process, on a file."""

    def __init__(self, log: Path) -> None:
        self._process = PipedProcess(
            ["-m", "tests.server.openai.replica", str(log)], libraries=PROJECT
        )
        self.api = f"{self._process.line()}/v1"

    def until_held(self) -> None:
        """Wait until an agent has stopped in the middle of its answer."""
        assert self._process.line() == "held"

    def kill(self) -> None:
        self._process.close(LIMIT)


@contextmanager
def replica(log: Path) -> Iterator[Replica]:
    found = Replica(log)
    try:
        yield found
    finally:
        found.kill()


def test_a_server_that_is_killed_changes_nothing(
    tmp_path: Path, uncut: list[dict[str, Any]]
) -> None:
    """One kill in the middle of many answers, each of which is held after another packet."""
    answers: list[list[dict[str, Any]]] = []
    with replica(tmp_path / "log.db") as first, sdk(first.api) as client:
        streams = []
        for count in range(len(PACKETS) + 1):
            asked: Any = {"model": MODEL, "input": f"Held after {count}"}
            streams.append(client.responses.create(**asked, stream=True))
            first.until_held()
        client.models.list()  # what was written before has been sent now
        first.kill()
        for stream in streams:
            answers.append([])
            assert not read(stream, answers[-1])
    counts = [len(events) for events in answers]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (2, COUNT - 4)  # without those of the end
    with replica(tmp_path / "log.db") as second, sdk(second.api) as client:
        for events in answers:
            read_on(client, events)
            check_whole(events)
            assert comparable(events) == uncut
            whole = client.responses.retrieve(events[0]["response"]["id"])
            assert whole.to_dict(mode="json") == events[-1]["response"]
