"""Agents that are plain functions run in their own threads."""

import asyncio
import functools
import gc
import inspect
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from starlette.datastructures import Headers

from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    StreamCancelled,
    StreamEnded,
    SyncAgentStream,
)
from coreason_client.server.engine import _producers
from coreason_client.server.log import NewStream
from coreason_client.server.sync_stream import Bridge
from coreason_manifest.definitions.presentation import PresentationEvent
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .conftest import Serve
from .peer import LIMIT, envelope, wait_for
from .streams import agent_stream


def in_agent_thread() -> bool:
    thread = threading.current_thread()
    return thread.name.startswith("coreason-agent-") and thread.daemon


def returning(request: ServiceRequest) -> str:
    return f"returned {in_agent_thread()}"


def writing(request: ServiceRequest, stream: SyncAgentStream) -> None:
    stream.write("written ")
    stream.write(str(in_agent_thread()))


def both(request: ServiceRequest, stream: SyncAgentStream) -> str:
    stream.write(f"both {in_agent_thread()}"[:5])
    return str(in_agent_thread())


def yielding(request: ServiceRequest) -> Iterator[str]:
    yield "yielded "
    yield str(in_agent_thread())


def yielding_with_stream(request: ServiceRequest, stream: SyncAgentStream) -> Iterator[str]:
    stream.write("mixed ")
    yield str(in_agent_thread())


def iterator(request: ServiceRequest) -> Iterator[str]:
    return iter(["iterated ", str(in_agent_thread())])


class Instance:
    def __call__(self, request: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write(f"called {in_agent_thread()}")

    def method(self, request: ServiceRequest) -> str:
        return f"method {in_agent_thread()}"


def with_more(request: ServiceRequest, stream: SyncAgentStream, word: str) -> str:
    return f"{word} {in_agent_thread()}"


@pytest.mark.parametrize(
    ("agent", "word"),
    [
        (returning, "returned"),
        (writing, "written"),
        (both, "both"),
        (yielding, "yielded"),
        (yielding_with_stream, "mixed"),
        (iterator, "iterated"),
        (Instance(), "called"),
        (Instance().method, "method"),
        (functools.partial(with_more, word="partial"), "partial"),
        (lambda request: f"lambda {in_agent_thread()}", "lambda"),
    ],
)
def test_plain_agents(serve: Serve, agent: Any, word: str) -> None:
    answer = serve(agent).ask()
    assert (answer.text, answer.last.op) == (f"{word} True", "CLOSE")


def test_an_agent_that_writes_nothing(serve: Serve) -> None:
    assert serve(lambda request: None).ask().payloads == [{"reason": "complete"}]


@pytest.mark.parametrize("plain", [True, False])
def test_every_method_writes_the_same_as_on_an_async_stream(serve: Serve, plain: bool) -> None:
    def sync_agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.thought("t")
        stream.progress("p", 0.5, status="running")
        stream.cite("https://a.example", title="A")
        stream.media("https://a.example/a.png", alt_text="a")
        stream.markdown("# m")
        stream.tool_result(stream.tool_call("find", {"a": 1}), "r", seconds=1)
        stream.usage(prompt_tokens=1, completion_tokens=2)
        stream.warn("minor", "It was minor.", {"a": 1})
        stream.write_packet("DELTA", "d")
        stream.write(f"{len(stream.history())} {stream.question} {stream.ended}")
        assert stream.request is request
        assert isinstance(stream.history(limit=1), list)
        stream.fail("no_data", "There is none.")
        assert stream.ended

    async def async_agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought("t")
        await stream.progress("p", 0.5, status="running")
        await stream.cite("https://a.example", title="A")
        await stream.media("https://a.example/a.png", alt_text="a")
        await stream.markdown("# m")
        await stream.tool_result(await stream.tool_call("find", {"a": 1}), "r", seconds=1)
        await stream.usage(prompt_tokens=1, completion_tokens=2)
        await stream.warn("minor", "It was minor.", {"a": 1})
        await stream.write_packet("DELTA", "d")
        await stream.write(f"{len(await stream.history())} {stream.question} {stream.ended}")
        await stream.fail("no_data", "There is none.")

    answer = serve(sync_agent if plain else async_agent).ask()
    kinds = [p.type.value for p in answer.payloads if isinstance(p, PresentationEvent)]
    assert len(kinds) == 5
    call, result, usage = (p["data"] for p in answer.payloads if isinstance(p, dict))
    assert (call["name"], call["arguments"]) == ("find", {"a": 1})
    assert (result["call_id"], result["result"], result["seconds"]) == (call["call_id"], "r", 1)
    assert usage["total_tokens"] == 3
    assert answer.text == "d0 hi False"
    assert answer.last.p.code == "no_data"
    assert len(answer.packets) == 12


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Return the names, kinds and defaults of parameters."""
    given = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in given]


def test_the_sync_stream_has_all_that_an_agent_may_use() -> None:
    wanted = {name for name in vars(AgentStream) if not name.startswith("_")}
    assert {name for name in vars(SyncAgentStream) if not name.startswith("_")} == wanted
    for name in wanted:
        ours, theirs = (getattr(kind, name) for kind in (SyncAgentStream, AgentStream))
        assert ours.__doc__
        if inspect.isfunction(theirs):
            assert parameters(ours) == parameters(theirs)
            assert not inspect.iscoroutinefunction(ours)


@pytest.mark.parametrize("generates", [False, True])
def test_an_exception_in_the_thread_is_an_error_of_the_agent(
    serve: Serve, caplog: pytest.LogCaptureFixture, generates: bool
) -> None:
    def breaks() -> None:
        raise KeyError("hidden from readers")

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write("half")
        breaks()

    def generator(request: ServiceRequest) -> Iterator[str]:
        yield "half"
        breaks()

    answer = serve(generator if generates else agent).ask()
    assert (answer.text, answer.last.p.code) == ("half", "agent_error")
    assert "hidden" not in answer.last.p.message
    assert "in breaks" in caplog.text  # the traceback is that of the thread


@pytest.mark.parametrize("error", [StopIteration, SystemExit])
def test_what_would_end_a_loop_or_the_process_is_an_error_of_the_agent(
    serve: Serve, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def agent(request: ServiceRequest) -> str:
        if not asked:
            asked.append(1)
            raise error
        return "still here"

    asked: list[int] = []
    peer = serve(agent)
    assert peer.ask().last.p.code == "agent_error"
    assert f"the agent raised {error.__name__}" in caplog.text
    assert peer.ask().text == "still here"


@pytest.mark.parametrize(
    ("returned", "words"),
    [(lambda: 7, ", got int"), (lambda: asyncio.sleep(0), "Declare it with `async def`")],
)
def test_any_other_returned_value_is_an_error_of_the_agent(
    serve: Serve, caplog: pytest.LogCaptureFixture, returned: Any, words: str
) -> None:
    assert serve(lambda request: returned()).ask().last.p.code == "agent_error"
    assert words in caplog.text
    gc.collect()  # a coroutine that was never awaited would warn now


def test_a_blocking_agent_does_not_hold_up_the_others(serve: Serve) -> None:
    free, blocked = threading.Event(), threading.Event()

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> str:
        if stream.question == "block":
            blocked.set()
            assert free.wait(LIMIT)
        return stream.question

    peer = serve(agent)
    with peer.open(envelope("block")) as answer:
        wait_for(blocked)
        assert peer.ask(envelope("quick")).text == "quick"
        free.set()
        answer.rest()
    assert answer.text == "block"


# Cancelling.


def test_a_cancelled_agent_learns_of_it_from_its_next_write(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    go_on, left = threading.Event(), threading.Event()

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write("a")
        assert go_on.wait(LIMIT)
        seen.append(stream.cancelled)
        try:
            stream.write("b")
        except StreamCancelled as error:
            seen.append(str(error))
            raise
        finally:
            left.set()

    monkeypatch.setattr(_producers, "_CANCEL_WAIT", 0.01)
    peer = serve(agent, cancel_grace=LIMIT)
    with peer.open() as answer:
        answer.until(1)
        peer.cancel(answer.stream_id)  # the agent has not stopped yet
        go_on.set()
        answer.rest()
    wait_for(left)
    assert seen == [
        True,
        f"the stream {answer.stream_id} was cancelled: the agent should return now",
    ]
    assert (answer.text, answer.last.p.code) == ("a", "cancelled")


def test_a_cancelled_generator_is_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed, go_on = threading.Event(), threading.Event()

    def agent(request: ServiceRequest) -> Iterator[str]:
        try:
            yield "a"
            assert go_on.wait(LIMIT)
            yield "b"
        finally:
            closed.set()

    monkeypatch.setattr(_producers, "_CANCEL_WAIT", 0.01)
    peer = serve(agent, cancel_grace=LIMIT)
    with peer.open() as answer:
        answer.until(1)
        peer.cancel(answer.stream_id)  # the agent has not stopped yet
        go_on.set()
        answer.rest()
    wait_for(closed)
    assert (answer.text, answer.last.p.code) == ("a", "cancelled")
    assert "failed" not in caplog.text


def test_a_thread_that_does_not_stop_is_left_alone_and_counted(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    go_on, left, errors = threading.Event(), threading.Event(), []

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> str:
        if stream.question != "block":
            return "quick"
        stream.write("a")
        assert go_on.wait(LIMIT)
        try:
            stream.write("too late")
        except StreamCancelled as error:
            errors.append(error)
        left.set()
        return "too late as well"

    peer = serve(agent, cancel_grace=0.05, max_streams_per_key=1)
    with peer.open(envelope("block")) as answer:
        answer.until(1)
        assert peer.cancel(answer.stream_id) == 204
        answer.rest()
    assert (answer.text, answer.last.p.code) == ("a", "cancelled")
    assert "ignores its cancellation" in caplog.text
    # Its thread still runs, and whoever starts and cancels must not have any number of them.
    assert peer.ask(envelope("next")).status == 429
    go_on.set()
    wait_for(left)
    deadline = time.monotonic() + LIMIT
    while (after := peer.ask(envelope("next"))).status == 429:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert after.text == "quick"
    assert len(errors) == 1


def test_a_thread_that_outlives_its_event_loop_gets_an_error() -> None:
    go_on, ended = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        started.set()
        assert go_on.wait(LIMIT)
        for _ in range(2):
            try:
                stream.write("nobody is there")
            except (StreamCancelled, StreamEnded) as error:
                errors.append(error)
        ended.set()

    started = threading.Event()
    app = AgentApp(agent, drain_timeout=0.0, cancel_grace=0.0)

    async def run() -> None:
        async with app.lifespan():
            assert app._runtime is not None
            request = ServiceRequest.model_validate(envelope())
            opened = await app.log.open(_new(request), "owner")
            app._runtime.producers.start(request, opened.meta, Headers({}), 0.0)
            await asyncio.to_thread(wait_for, started)

    asyncio.run(run())
    go_on.set()
    wait_for(ended)
    assert len(errors) == 2


@aio
async def test_the_sync_stream_cannot_be_used_on_the_event_loop() -> None:
    log, request = MemoryStreamLog(), ServiceRequest.model_validate(envelope())
    stream = agent_stream(request, (await log.open(_new(request), "owner")).meta, log)
    with pytest.raises(RuntimeError, match="in the thread of the agent"):
        SyncAgentStream(Bridge(stream)).write("a")
    gc.collect()  # a coroutine that was never awaited would warn now


def _new(request: ServiceRequest) -> NewStream:
    return NewStream(uuid4(), "p", request.request_id, "f")


# What holds a writer back, and what it learns of a log that fails.


def test_a_write_waits_for_the_log(serve: Serve) -> None:
    appending, go_on, wrote = threading.Event(), threading.Event(), threading.Event()

    class Slow(MemoryStreamLog):
        async def append(self, *args: Any) -> bool:
            appending.set()
            await asyncio.to_thread(go_on.wait, LIMIT)
            return await super().append(*args)

        def begin_append(self, *args: Any) -> Any:
            return asyncio.ensure_future(self.append(*args))

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.thought("this waits")
        wrote.set()

    with serve(agent, log=Slow()).open() as answer:
        wait_for(appending)
        assert not wrote.is_set()
        go_on.set()
        answer.rest()
    assert wrote.is_set()
    assert answer.last.op == "CLOSE"


def test_an_agent_sees_why_the_log_did_not_take_its_text(serve: Serve) -> None:
    class Full(MemoryStreamLog):
        async def append(self, *_: Any) -> bool:
            raise LogUnavailable("the store is full")

        def begin_append(self, *args: Any) -> Any:
            return asyncio.ensure_future(self.append(*args))

    seen: list[Exception] = []
    left = threading.Event()

    def agent(request: ServiceRequest, stream: SyncAgentStream) -> None:
        try:
            stream.write("a")
        except LogUnavailable as error:
            seen.append(error)
        left.set()

    peer = serve(agent, log=Full())
    with peer.open():
        wait_for(left)
    assert [str(error) for error in seen] == ["the store is full"]


@pytest.mark.parametrize("value", [7, "\ud800"])
def test_mistakes_in_an_argument_reach_the_agent(serve: Serve, value: Any) -> None:
    def agent(request: ServiceRequest, stream: SyncAgentStream) -> str:
        with pytest.raises((TypeError, ValueError)):
            stream.write(value)
        with pytest.raises(TypeError, match="argument"):
            stream.write()  # type: ignore[call-arg]
        return "fine"

    assert serve(agent).ask().text == "fine"


def test_log_lines_name_the_agent(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def forgetful(request: ServiceRequest) -> Any:
        return 7

    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        serve(forgetful).ask()
    assert "forgetful must return its text as a string" in caplog.text
    assert ", got int" in caplog.text
