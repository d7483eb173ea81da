"""The sync client against a provider on loopback: time limits, closing, threads and breaks."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMTimeoutError,
    _session_sync,
)
from coreason_client.llm._session_sync import HTTPSession
from tests.dripping import BODY, ERROR_BODY, HEAD_WITHOUT_END, dripping

from .server import Provider, Replied, ServerInThread
from .test_client import KEY, MESSAGES, answer, held, streamed

LIMIT = 10.0


def test_the_price_table_is_loaded_while_the_first_request_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[int] = []
    with ServerInThread(answer()) as server, client(server) as ours:
        monkeypatch.setattr(
            "coreason_client.llm.client.load_prices", lambda: loaded.append(len(server.received))
        )
        ours.generate(MESSAGES)
        ours.generate(MESSAGES)
    assert loaded == [0]  # before the first request, and only then


def client(server: Provider, **options: Any) -> LLMClient:
    return LLMClient(KEY, server.url, "m", **{"timeout": LIMIT, "first_wait": 0.01, **options})


def test_a_failed_attempt_is_repeated() -> None:
    with ServerInThread(Replied(503), streamed("Hi", cut=True), answer()) as server:
        with client(server) as ours:
            assert ours.generate(MESSAGES)["data"]["content"] == "Hi"
        assert len(server.received) == 3


def test_a_silent_provider_is_a_timeout() -> None:
    with (
        ServerInThread(Replied(silent=True)) as server,
        client(server, timeout=0.1, max_retries=1) as ours,
    ):
        with pytest.raises(LLMTimeoutError, match=r"within 0\.1 s") as caught:
            ours.generate(MESSAGES)
        assert caught.value.attempts == 2


def test_the_timeout_covers_a_body_that_arrives_slowly() -> None:
    slow = Replied(chunks=[b" "] * 3, late=LIMIT)
    with ServerInThread(slow) as server, client(server, timeout=0.2, max_retries=0) as ours:
        start = time.monotonic()
        with pytest.raises(LLMTimeoutError):
            ours.generate(MESSAGES)
        assert time.monotonic() - start < LIMIT / 2


@pytest.mark.parametrize(
    ("beginning", "way"),
    [
        *product([HEAD_WITHOUT_END, ERROR_BODY], ["sync", "async", "sync stream", "async stream"]),
        *product([BODY], ["sync", "async"]),  # a stream that has begun is no longer limited
    ],
)
def test_the_deadline_holds_while_bytes_drip(beginning: bytes, way: str) -> None:
    options: dict[str, Any] = {"timeout": 0.6, "deadline": 0.6, "max_retries": 0}

    async def ask(url: str) -> None:
        async with AsyncLLMClient(KEY, url, "m", **options) as ours:
            if way == "async":
                await ours.generate(MESSAGES)
            async for _ in ours.stream(MESSAGES):
                pass

    with dripping(beginning) as url:
        start = time.monotonic()
        with pytest.raises(LLMError) as caught:
            if way.startswith("async"):
                asyncio.run(ask(url))
            with LLMClient(KEY, url, "m", **options) as ours:
                if way == "sync":
                    ours.generate(MESSAGES)
                list(ours.stream(MESSAGES))
        assert time.monotonic() - start < 1.6
        assert isinstance(caught.value, LLMTimeoutError) == (beginning != ERROR_BODY)


def test_a_stream_that_stops_is_an_error_with_the_received_part() -> None:
    with (
        ServerInThread(held("Hel")) as server,
        client(server, timeout=0.1) as ours,
        ours.stream(MESSAGES) as stream,
    ):
        with pytest.raises(LLMTimeoutError) as caught:
            list(stream)
        assert caught.value.partial is not None
        assert caught.value.partial["data"]["content"] == "Hel"


def test_a_stream_that_is_left_early_closes_its_connection() -> None:
    with ServerInThread(held("Hel")) as server, client(server) as ours:
        with ours.stream(MESSAGES) as stream:
            assert next(stream).text == "Hel"  # type: ignore[union-attr]
        deadline = time.monotonic() + LIMIT
        while server.open_connections and time.monotonic() < deadline:
            time.sleep(0.005)
        assert server.open_connections == 0


def test_streams_use_one_connection_although_their_end_arrives_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_session_sync, "_END_WAIT", LIMIT)  # however busy the machine is
    with ServerInThread(streamed("Hi", late=0.01)) as server:
        with client(server) as ours:
            for _ in range(3):
                assert list(ours.stream(MESSAGES).text()) == ["Hi"]
        assert server.connections == 1


def test_a_closed_client() -> None:
    with ServerInThread(answer()) as server:
        ours = client(server)
        ours.generate(MESSAGES)
        ours.close()
        ours.close()
        with pytest.raises(LLMConnectionError, match="the client is closed"):
            ours.generate(MESSAGES)
        with pytest.raises(LLMConnectionError, match="the client is closed"):
            ours.stream(MESSAGES).result()


def test_closing_ends_a_wait_before_a_retry() -> None:
    with ServerInThread(Replied(503)) as server:
        ours = client(server, first_wait=LIMIT)
        raised: list[BaseException] = []

        def work() -> None:
            try:
                ours.generate(MESSAGES)
            except LLMConnectionError as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        deadline = time.monotonic() + LIMIT
        while not server.received and time.monotonic() < deadline:
            time.sleep(0.005)
        ours.close()
        thread.join(LIMIT / 2)
        assert not thread.is_alive()
        assert "closed" in str(raised[0])


def test_max_concurrency_limits_the_threads() -> None:
    with ServerInThread(replace(answer(), slow=0.02)) as server:
        with client(server, max_concurrency=2) as ours:
            assert run_in_threads(6, lambda: ours.generate(MESSAGES)) == []
        assert len(server.received) == 6
        assert server.most_under_way == 2


def test_a_call_that_waits_for_its_turn_beyond_the_deadline() -> None:
    with (
        ServerInThread(Replied(silent=True)) as server,
        client(server, max_concurrency=1, deadline=0.2, max_retries=0) as ours,
    ):
        session = ours._session()
        with session.slot(lambda: 1.0, lambda: AssertionError("a slot is free")):
            failures = run_in_threads(2, lambda: ours.generate(MESSAGES))
        assert [type(error) for error in failures] == [LLMTimeoutError] * 2
        assert not server.received


def run_in_threads(count: int, work: Callable[[], object]) -> list[BaseException]:
    """Do a piece of work in several threads at a time; return what they raised."""
    raised: list[BaseException] = []

    def caught() -> None:
        try:
            work()
        except LLMError as error:
            raised.append(error)

    threads = [threading.Thread(target=caught) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_a_forked_child_has_all_slots() -> None:
    session = HTTPSession(1)
    slot = session.slot(lambda: 0.0, lambda: TimeoutError("no slot"))
    with slot:
        with pytest.raises(TimeoutError, match="no slot"):
            session.slot(lambda: 0.0, lambda: TimeoutError("no slot")).__enter__()
        session.after_fork()
        with session.slot(lambda: 0.0, lambda: TimeoutError("no slot")):
            pass


def test_a_close_during_a_call_is_named_as_the_reason() -> None:
    raised: list[Exception] = []

    def call() -> None:
        try:
            ours.generate(MESSAGES)
        except LLMConnectionError as error:
            raised.append(error)

    with ServerInThread(Replied(silent=True)) as server, client(server, max_retries=0) as ours:
        thread = threading.Thread(target=call)
        thread.start()
        deadline = time.monotonic() + LIMIT
        while not server.received and time.monotonic() < deadline:
            time.sleep(0.005)
        ours.close()
        thread.join(LIMIT)
    assert [str(error).rpartition(": ")[2] for error in raised] == ["the client was closed"]


_LEFT_OPEN = """
import sys
from coreason_client import LLMClient
client = LLMClient("k", sys.argv[1], "m")
client.generate([{"role": "user", "content": "Hi"}])
"""


_SHARED = """
import os, sys
from coreason_client import generate_sync
os.environ |= {"LLM_API_KEY": "k", "LLM_API_BASE_URL": sys.argv[1], "DEFAULT_MODEL": "m"}
generate_sync([{"role": "user", "content": "Hi"}])
"""


@pytest.mark.parametrize("program", [_LEFT_OPEN, _SHARED], ids=["client", "generate_sync"])
def test_a_client_that_is_open_when_the_program_ends_warns_of_nothing(program: str) -> None:
    with ServerInThread(answer()) as server:
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, server.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
