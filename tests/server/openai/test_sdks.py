"""The SDKs of OpenAI: both major versions for Python, sync and async, and that of npm."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from coreason_client.server import MemoryStreamLog, SQLiteStreamLog, StreamLog, ValkeyStreamLog
from tests.installed import npm_package, python_packages, run

from ..log.valkey_server import fresh_prefix, shared_server
from ..peer import LIMIT
from .judge import judge
from .serving import (
    EVERYTHING,
    ITEMS,
    KEY,
    MODEL,
    OPENAI_3,
    PACKETS,
    TEXT,
    TEXTS,
    THOUGHTS,
    Site,
    async_sdk,
    check_whole,
    comparable,
    sdk,
    site,
    within,
)

HERE = Path(__file__).parent
KINDS = ["sync", "async"]
RUN_SECONDS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def check(got: dict[str, Any]) -> None:
    """Check what a judge has got."""
    unknown = ["NotFoundError", 404, "model_not_found"]
    assert (got["models"], got["model"], got["unknown model"]) == ([MODEL], MODEL, unknown)
    check_chat(got)
    check_whole(got["events"])
    assert (got["wrong"], got["filtered wrong"]) == ([], [])
    check_response(got["response"])
    assert comparable(got["response"]) == comparable(got["events"][-1]["response"])
    assert got["text"] == got["helper"] == TEXT
    assert got["read"] is True
    assert got["input items"] == [EVERYTHING]
    assert got["background"] == ["in_progress", "in_progress", "Working."]
    assert got["cancelled"] == ["cancelled", "Working."]
    assert got["cancelled again"] == "cancelled"
    assert got["last event of a cancelled one"] == ["response.incomplete", "cancelled"]
    assert got["deleted"] is None
    assert got["gone"] == [["NotFoundError", 404, "response_not_found"]] * 6


def check_chat(got: dict[str, Any]) -> None:
    annotations = [
        {
            "type": "url_citation",
            "url_citation": {
                "url": f"https://example.com/{name}",
                "title": name.upper(),
                "start_index": position,
                "end_index": position,
            },
        }
        for name, position in (("a", sum(map(len, TEXTS[:3]))), ("b", len(TEXT) - 1))
    ]
    spoken = {
        "content": TEXT,
        "reasoning": THOUGHTS,
        "annotations": annotations,
        "finish_reason": "stop",
    }
    assert got["chat"] == got["chunks"] == got["counted chunks"] == spoken
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 8,
        "total_tokens": 38,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert (got["chat usage"], got["last chunk"]) == (usage, [[], usage])
    assert (got["chunks have usage"], got["usage before the last chunk"]) == (False, [])
    assert got["ids of chunks"] == 1
    if got["chat helper"]["reasoning"] != THOUGHTS:  # that of npm keeps only the last piece
        assert THOUGHTS.endswith(got["chat helper"].pop("reasoning"))
        del spoken["reasoning"]
    assert got["chat helper"] == spoken


def check_response(response: dict[str, Any]) -> None:
    assert response["status"] == "completed"
    assert response["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 38,
    }
    output = response["output"]
    assert [item["type"] for item in output] == ITEMS
    assert [item["status"] for item in output] == [
        *("completed", "completed", "completed", "completed"),
        *("failed", "completed", "completed", "completed"),
    ]
    assert [item["output"] for item in output if item["type"] == "mcp_call"] == [
        '{"found":["a","b"]}',
        "No route.",
        "",
        "1.5",
    ]
    # Version 2 of the SDK has text here, version 3 an object.
    assert {item["error"] for item in output if item["type"] == "mcp_call"} == {None}
    assert [item["arguments"] for item in output if item["type"] == "mcp_call"] == [
        '{"query":"Grüße","limit":2}',
        "{}",
        '"some text"',
        '{"path":"x"}',
    ]
    [first, second] = [item["content"][0] for item in output if item["type"] == "message"]
    assert [one["start_index"] for one in first["annotations"]] == [sum(map(len, TEXTS[:3]))]
    assert [one["start_index"] for one in second["annotations"]] == [len(TEXTS[-2])]
    summaries = [item["summary"] for item in output if item["type"] == "reasoning"]
    assert "\n\n".join(part["text"] for parts in summaries for part in parts) == THOUGHTS


@pytest.mark.parametrize("kind", KINDS)
def test_openai_2(server: Site, kind: str) -> None:
    got = asyncio.run(within(5 * LIMIT, judge(server.api, KEY, MODEL, EVERYTHING, kind)))
    check(got)
    first, second = "".join(TEXTS[:4]), "".join(TEXTS[4:])
    assert got["done texts"] == [first, second]
    written = [0, 0]
    for snapshot in got["snapshots"]:
        assert (first if first.startswith(snapshot) else second).startswith(snapshot)
        written[not first.startswith(snapshot)] = len(snapshot)
    assert written == [len(first), len(second)]


@pytest.mark.timeout(200)  # the first run installs it
def test_openai_3(server: Site) -> None:
    folder = python_packages(OPENAI_3)
    command = [sys.executable, "-W", "error", str(HERE / "judge.py")]
    env = {"PYTHONPATH": str(folder)}
    got = run([*command, server.api, KEY, MODEL, EVERYTHING], env, folder, RUN_SECONDS)
    assert got["version"].startswith("3.")
    for kind in KINDS:
        check(got[kind])


@pytest.mark.timeout(200)
def test_npm(server: Site) -> None:
    folder = npm_package("openai@6.49.0")
    command = ["node", str(HERE / "judge.mjs"), str(folder)]
    check(run([*command, server.api, KEY, MODEL, EVERYTHING], {}, folder, RUN_SECONDS))


# The logs


def logs(folder: Path) -> dict[str, StreamLog]:
    return {
        "memory": MemoryStreamLog(),
        "SQLite": SQLiteStreamLog(folder / "log.db"),
        "Valkey": ValkeyStreamLog(shared_server().url, prefix=fresh_prefix()),
    }


def events_of(stream: Any) -> list[dict[str, Any]]:
    return [event.to_dict(mode="json") for event in stream]


def test_the_events_are_the_same_on_every_log(tmp_path: Path) -> None:
    streamed = {}
    for name, log in logs(tmp_path).items():
        with site(log=log) as server, sdk(server.api) as client:
            asked: Any = {"model": MODEL, "input": EVERYTHING}
            live = events_of(client.responses.create(**asked, stream=True))
            check_whole(live)
            stored = live[0]["response"]["id"]
            for after in range(0, len(live), 4):
                rest = client.responses.retrieve(stored, stream=True, starting_after=after)
                assert events_of(rest) == live[after + 1 :]
            read = client.responses.retrieve(stored).to_dict(mode="json")
            assert read == live[-1]["response"]
            streamed[name] = comparable(live)
    assert streamed["memory"] == streamed["SQLite"] == streamed["Valkey"]


@pytest.mark.parametrize("written", [0, 4, 9, len(PACKETS) - 1])
def test_a_running_answer_is_read_after_every_event(written: int) -> None:
    """All readers join while the agent waits after some packets."""

    async def check_readers(server: Site, client: AsyncOpenAI) -> None:
        asked: Any = {"model": MODEL, "input": f"In two halves:{written}"}
        first = await client.responses.create(**asked, stream=True)
        name = (await anext(first)).response.id
        await asyncio.to_thread(server.agent.gate.seen)
        assert (await client.responses.retrieve(name)).status == "in_progress"
        readers = []
        with pytest.raises(openai.APIStatusError, match="no event") as caught:
            for after in range(100):
                reader = await client.responses.retrieve(name, stream=True, starting_after=after)
                readers.append(reader)
        assert (caught.value.status_code, caught.value.code) == (410, "position_gone")
        assert len(readers) > written
        server.agent.gate.open()
        events = [event.to_dict(mode="json") async for event in first]
        assert [one["sequence_number"] for one in events] == list(range(1, len(events) + 1))
        for after, reader in enumerate(readers):
            assert [event.to_dict(mode="json") async for event in reader] == events[after:]

    async def go(server: Site) -> None:
        async with async_sdk(server.api) as client, asyncio.timeout(LIMIT):
            await check_readers(server, client)

    with site() as server:
        asyncio.run(go(server))


# Another replica


@pytest.fixture
def replicas() -> Iterator[tuple[Site, Site]]:
    url, prefix = shared_server().url, fresh_prefix()
    with (
        site(log=ValkeyStreamLog(url, prefix=prefix)) as first,
        site(log=ValkeyStreamLog(url, prefix=prefix)) as second,
    ):
        yield first, second


def test_another_replica_reads_a_running_answer(replicas: tuple[Site, Site]) -> None:
    first, second = replicas
    asked: Any = {"model": MODEL, "input": "In two halves:9", "background": True}
    with sdk(first.api) as here, sdk(second.api) as there:
        name = here.responses.create(**asked).id
        first.agent.gate.seen()
        assert there.responses.retrieve(name).status == "in_progress"
        streams = {
            after: client.responses.retrieve(name, stream=True, starting_after=after)
            for after, client in ((0, here), (1, there), (20, there))
        }
        first.agent.gate.open()
        events = {after: events_of(stream) for after, stream in streams.items()}
        whole = events_of(there.responses.retrieve(name, stream=True))
    check_whole(whole)
    assert events == {after: whole[after + 1 :] for after in streams}


def test_another_replica_cancels_and_deletes_running_answers(replicas: tuple[Site, Site]) -> None:
    first, second = replicas
    asked: Any = {"model": MODEL, "input": "Wait", "background": True}
    with sdk(first.api) as here, sdk(second.api) as there:
        cancelled, deleted = [here.responses.create(**asked).id for _ in range(2)]
        first.agent.gate.seen()
        there.responses.cancel(cancelled)
        *_, last = there.responses.retrieve(cancelled, stream=True)
        assert last.type == "response.incomplete"
        assert last.response.status == here.responses.retrieve(cancelled).status == "cancelled"
        there.responses.delete(deleted)
        with pytest.raises(openai.NotFoundError):
            here.responses.retrieve(deleted)
