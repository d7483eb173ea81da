"""`Resumable`: an event stream that survives cuts, reloads and the death of its process."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import pytest
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import Response as FastAPIResponse
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coreason_client.errors import ArgumentError
from coreason_client.server import (
    MemoryStreamLog,
    Resumable,
    SQLiteStreamLog,
    StreamLog,
    ValkeyStreamLog,
    running,
)
from coreason_client.sse import ServerSentEvent
from coreason_client.testing import ChaosProxy, ConnectionPlan
from tests.preloaded import PROJECT, WITH_STORES, PipedProcess

from .aio import aio
from .interrupted_log import InterruptedLog
from .log.backends import BACKENDS, Clock
from .log.valkey_server import fresh_prefix, shared_server
from .peer import LIMIT, Answer, Gate, Peer
from .program import Program
from .test_failing_once import Away, read

Make = Callable[[str], Any]


async def words(name: str) -> AsyncIterator[str]:
    for word in (name, "two", "three"):
        yield word


async def never_awaited() -> AsyncIterator[str]:
    return words("one")


SOURCE = "source must be an async iterator, or a function that returns one, got a value of type"


async def never(name: str) -> AsyncIterator[str]:
    raise AssertionError("a second run of the source")
    yield ""


class Site:
    """An application with one route, `/answers/{name}`, whose header `user` names the owner."""

    def __init__(self, make: Make, log: StreamLog | None = None, **options: Any) -> None:
        options.setdefault("drain_timeout", 0.0)
        self.events = Resumable(log, **options)
        self._make = make

    async def answer(self, request: Request) -> Response:
        name, owner = request.path_params["name"], request.headers.get("user")
        return await self.events.response(request, name, self._make(name), owner=owner)

    def starlette(self) -> Starlette:
        routes = [Route("/answers/{name}", self.answer, methods=["GET", "POST"])]
        return Starlette(routes=routes, lifespan=self.events.lifespan)


class Reader(Peer):
    """Reads streams of a site."""

    @contextmanager
    def stream(
        self,
        name: str = "one",
        cursor: str | None = None,
        **headers: str,
    ) -> Iterator[Answer]:
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        with self.http.stream("GET", f"/answers/{name}", headers=headers) as response:
            yield Answer(response)

    def read(
        self,
        name: str = "one",
        cursor: str | None = None,
        **headers: str,
    ) -> Answer:
        with self.stream(name, cursor, **headers) as answer:
            return answer.rest()


Serve = Callable[..., Reader]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(make: Make | Starlette, log: StreamLog | None = None, **options: Any) -> Reader:
            app = make if isinstance(make, Starlette) else Site(make, log, **options).starlette()
            reader = Reader(stack.enter_context(running(app)).url)
            stack.callback(reader.close)
            return reader

        yield start


def shown(answer: Answer) -> list[tuple[str, str]]:
    return [(event.event, event.data) for event in answer.events]


WHOLE = [("message", "one"), ("message", "two"), ("message", "three"), ("end", "complete")]


@pytest.mark.parametrize("log", list(BACKENDS))
def test_a_stream_is_joined_and_resumed_on_every_log(
    serve: Serve, log: str, tmp_path: Path
) -> None:
    gate, runs = Gate(), []

    async def slow(name: str) -> AsyncIterator[str]:
        runs.append(name)
        yield name
        await gate.wait()
        yield "two"
        yield "three"

    reader = serve(slow, BACKENDS[log](Clock(), tmp_path))
    with reader.stream() as first:
        first.until(1)
        with reader.stream() as second, reader.stream(cursor=first.events[0].id) as third:
            second.until(1)
            gate.open()
            assert shown(third.rest()) == WHOLE[1:]
            assert shown(second.rest()) == WHOLE
        assert shown(first.rest()) == WHOLE
    assert first.raw == second.raw
    assert third.events == first.events[1:]
    later = reader.read()
    assert later.events == first.events
    assert reader.read("other").events[0].data == "other"
    assert runs == ["one", "other"]


def test_a_resume_after_the_end_is_204_so_that_a_page_stops(serve: Serve) -> None:
    reader = serve(words)
    whole = reader.read()
    assert whole.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "x-request-id" not in whole.headers
    after = reader.read(cursor=whole.events[-1].id)
    assert (after.status, after.raw) == (204, b"")
    assert after.headers["x-stream-outcome"] == "complete"


@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_a_cut_after_any_byte_costs_nothing(serve: Serve, fault: Any) -> None:
    async def constant(name: str) -> AsyncIterator[str]:
        yield "one"
        await asyncio.sleep(0)
        yield "two"
        yield "three"

    first, most = len("HTTP/1.1 200 OK"), 1000
    cuts = [ConnectionPlan(fault, after) for after in range(first, most)]
    plan = [one for cut in cuts for one in (cut, ConnectionPlan())]
    sizes: list[int] = []
    is_whole = False
    with ChaosProxy(str(serve(constant).http.base_url), plan=plan) as proxy:
        while not is_whole:  # each time another stream, which is live
            name = str(len(sizes))
            before, is_whole = read_until_cut(proxy.url, name)
            last = before[-1].id if before else None
            rest, _ = read_until_cut(proxy.url, name, last)
            events = before + rest
            assert [(event.event, event.data) for event in events] == WHOLE
            assert [event.id.split(":")[1] for event in events] == ["1", "2", "3", "4"]
            sizes.append(len(before))
    assert set(sizes) == {0, 1, 2, 3, 4}


def read_until_cut(
    url: str, name: str, last: str | None = None
) -> tuple[list[ServerSentEvent], bool]:
    """Return the events of a new connection, and whether it came to its end."""
    with httpx2.Client(base_url=url, timeout=LIMIT) as client:
        headers = {"Connection": "close"} | ({} if last is None else {"Last-Event-ID": last})
        answer = None
        try:
            with client.stream("GET", f"/answers/{name}", headers=headers) as response:
                answer = Answer(response)
                answer.rest()
        except httpx2.TransportError:
            return ([] if answer is None else answer.events), False
        return answer.events, True


def test_it_is_a_route_of_fastapi_and_may_start_with_the_first_request(serve: Serve) -> None:
    events, app = Resumable(), FastAPI()

    @app.post("/answers/{name}")
    async def post(request: Request, name: str, question: dict[str, str]) -> FastAPIResponse:
        return await events.response(request, name, words(question["text"]))

    @app.get("/answers/{name}")
    async def get(request: Request, name: str) -> FastAPIResponse:
        return await events.response(request, name, lambda: words(name))

    reader = serve(app)
    posted = reader.http.post("/answers/7", json={"text": "one"})
    assert posted.content == reader.read("7").raw
    assert shown(reader.read("7")) == WHOLE


def test_items_are_text_bytes_and_events_of_any_kind(serve: Serve) -> None:
    async def items(name: str) -> AsyncIterator[Any]:
        yield "two\nlines"
        yield "data: not a field\n\n"
        yield ""
        yield "né 🎈".encode()
        yield ServerSentEvent(b"5", b"progress", b"an id that is not used")

    assert shown(serve(items).read()) == [
        ("message", "two\nlines"),
        ("message", "data: not a field\n\n"),
        ("message", ""),
        ("message", "né 🎈"),
        ("progress", "5"),
        ("end", "complete"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        ValueError("a secret"),
        b"\xff",
        7,
        ServerSentEvent(b"", b"a\nb"),
        "\ud800",
        pytest.param("x" * 10_000_000, id="too long"),
    ],
)
def test_a_source_that_fails_ends_its_stream_with_an_error(
    serve: Serve, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned = []

    async def failing(name: str) -> AsyncIterator[Any]:
        try:
            yield "one"
            if isinstance(wrong, Exception):
                raise wrong
            yield wrong
        finally:
            cleaned.append(name)

    reader = serve(failing)
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        answer = reader.read()
    assert cleaned == ["one"]  # before the readers know
    assert [event.event for event in answer.events] == ["message", "error"]
    assert json.loads(answer.events[-1].data) == {
        "code": "source_failed",
        "message": "The source of this stream has failed.",
    }
    assert "the source of stream" in caplog.text
    after = reader.read(cursor=answer.events[-1].id)
    assert (after.status, after.headers["x-stream-outcome"]) == (204, "source_failed")


def test_owners_have_different_streams_with_the_same_id(serve: Serve) -> None:
    runs: list[str] = []

    def make(name: str) -> AsyncIterator[str]:
        async def numbered() -> AsyncIterator[str]:
            runs.append(name)
            yield str(len(runs))

        return numbered()

    reader = serve(make)
    ann, bob, nobody = reader.read(user="ann"), reader.read(user="bob"), reader.read()
    assert [answer.events[0].data for answer in (ann, bob, nobody)] == ["1", "2", "3"]
    assert reader.read(user="ann").events == ann.events
    stolen = reader.read(cursor=ann.events[0].id, user="bob")
    assert stolen.status == 410
    assert stolen.problem == reader.read(cursor=unknown(ann), user="bob").problem | {
        "detail": stolen.problem["detail"]
    }
    with pytest.raises(ArgumentError, match="owner must be a name"):
        asyncio.run(Resumable().cancel("one", owner=""))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"id": 7}, "id must be a str, got 7"),
        ({"id": None}, "id must be a str, got None"),
        ({"owner": 0}, "owner must be a name, or None for streams without an owner, got 0"),
        ({"owner": 1}, "owner must be a name, or None for streams without an owner, got 1"),
        ({"source": ["one"]}, f"{SOURCE} list"),
        ({"source": iter(["one"])}, f"{SOURCE} list_iterator"),
        ({"source": never_awaited}, f"{SOURCE} function"),
        ({"source": partial(never_awaited)}, f"{SOURCE} partial"),
        ({"source": lambda: (yield "one")}, f"{SOURCE} function"),
    ],
)
def test_a_wrong_argument_is_an_error_that_opens_no_stream(
    wrong: dict[str, Any], message: str
) -> None:
    log = MemoryStreamLog()
    events = Resumable(log)

    async def ask() -> None:
        arguments = {"id": "one", "source": words("one"), **wrong}
        with pytest.raises(ArgumentError) as caught:
            await events.response(
                Request({"type": "http", "method": "GET", "headers": []}), **arguments
            )
        assert str(caught.value) == message
        if "source" not in wrong:
            with pytest.raises(ArgumentError, match=next(iter(wrong))):
                await events.cancel(arguments["id"], owner=arguments.get("owner"))

    asyncio.run(ask())
    assert not log._store.requests


def test_head_is_refused_and_starts_nothing(serve: Serve) -> None:
    reader = serve(never)
    refused = reader.http.head("/answers/one")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert shown(serve(words).read()) == WHOLE


def unknown(answer: Answer) -> str:
    return "00000000-0000-4000-8000-000000000000:1"


@pytest.mark.parametrize("wrong", ["7", "one:1", "", "a,b", "{}:-1", "{}:1_0"])
def test_a_wrong_position_is_400(serve: Serve, wrong: str) -> None:
    reader = serve(words)
    stream_id = reader.read().stream_id
    refused = reader.read(cursor=wrong.format(stream_id))
    assert (refused.status, refused.problem["type"]) == (
        400,
        "urn:coreason:problem:bad-last-event-id",
    )


def test_a_position_of_another_stream_is_400_and_one_beyond_the_end_410(serve: Serve) -> None:
    reader = serve(words)
    one, two = reader.read("one"), reader.read("two")
    assert reader.read("one", two.events[0].id).status == 400
    assert reader.read("one", f"{one.stream_id}:99").status == 410


def test_an_expired_position_is_410_and_starts_nothing(serve: Serve) -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    site = Site(words, log, retention=10, final_retention=100)

    async def expire(_: Request) -> Response:
        await log.expire(10, 100)
        return Response()

    app = site.starlette()
    app.router.routes.append(Route("/expire", expire))
    reader = serve(app)
    whole = reader.read()
    position, end = whole.events[0].id, whole.events[-1].id
    clock.now += 11
    reader.http.get("/expire")
    assert [reader.read(cursor=at).status for at in (None, position, end)] == [410, 410, 204]
    clock.now += 100
    reader.http.get("/expire")
    assert reader.read(cursor=position).status == 410
    assert reader.read().stream_id != whole.stream_id
    assert reader.read(cursor=position).status == 410


def test_a_cancelled_source_cleans_up_and_its_readers_get_an_error(serve: Serve) -> None:
    cleaned = Gate()

    async def endless(name: str) -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            cleaned.reached.set()

    site = Site(endless)

    async def cancel(request: Request) -> Response:
        await site.events.cancel(request.path_params["name"], owner=request.headers.get("user"))
        return Response(status_code=204)

    app = site.starlette()
    app.router.routes.append(Route("/answers/{name}", cancel, methods=["DELETE"]))
    reader = serve(app)
    with reader.stream() as answer:
        answer.until(1)
        assert reader.http.delete("/answers/other").status_code == 204
        assert reader.http.delete("/answers/one", headers={"user": "bob"}).status_code == 204
        assert not cleaned.reached.is_set()
        assert reader.http.delete("/answers/one").status_code == 204
        assert json.loads(answer.rest().events[-1].data)["code"] == "cancelled"
    cleaned.seen()


def test_a_reader_that_leaves_does_not_stop_the_source(serve: Serve) -> None:
    gate = Gate()

    async def slow(name: str) -> AsyncIterator[str]:
        yield "one"
        await gate.wait()
        yield "two"

    reader = serve(slow)
    with reader.stream() as answer:
        answer.until(1)
    gate.open()
    assert shown(reader.read()) == [*WHOLE[:2], WHOLE[-1]]


def test_limits_of_an_owner_are_429(serve: Serve) -> None:
    gate = Gate()

    async def slow(name: str) -> AsyncIterator[str]:
        yield name
        await gate.wait()

    reader = serve(slow, max_streams_per_owner=1, max_readers_per_owner=2)
    with reader.stream() as first:
        first.until(1)
        refused = reader.read("two")
        assert refused.status == 429
        assert refused.problem["detail"].startswith("This caller has 1 running streams")
        with reader.stream() as second, reader.stream("two", user="bob") as other:
            assert (second.status, other.status) == (200, 200)
            refused = reader.read()
            assert refused.status == 429
            assert refused.problem["detail"].startswith("This caller has 2 open responses")
            gate.open()


def test_a_response_that_is_never_sent_keeps_no_reader(serve: Serve) -> None:
    site = Site(words, max_readers_per_owner=1)

    async def unpaid(request: Request) -> Response:
        await site.answer(request)
        raise HTTPException(402)

    app = site.starlette()
    app.router.routes.append(Route("/unpaid/{name}", unpaid))
    reader = serve(app)
    assert [reader.http.get(f"/unpaid/{n}").status_code for n in range(3)] == [402] * 3
    assert shown(reader.read()) == WHOLE


def test_a_response_is_refused_when_it_is_sent_if_others_were_faster(serve: Serve) -> None:
    gate, ran, end = Gate(), Queue[str](), Gate()

    async def slow(name: str) -> AsyncIterator[str]:
        yield name
        await end.wait()

    site = Site(slow, max_readers_per_owner=1)

    async def late(request: Request) -> Response:
        response = await site.answer(request)
        response.background = BackgroundTask(ran.put, "late")
        async with asyncio.timeout(LIMIT):
            await gate.wait()
        return response

    app = site.starlette()
    app.router.routes.append(Route("/late/{name}", late))
    reader = serve(app)
    with ThreadPoolExecutor(1) as pool:
        delayed = pool.submit(reader.http.get, "/late/one")
        gate.seen()
        with reader.stream("two") as other:
            other.until(1)
            gate.open()
            refused = delayed.result(LIMIT)
            assert refused.status_code == 429
            assert ran.get(timeout=LIMIT) == "late"
            assert refused.json()["type"] == "urn:coreason:problem:too-many-readers"
            end.open()


def test_background_tasks_run_after_the_stream_also_if_the_reader_has_left(serve: Serve) -> None:
    events, app, gate, ran = Resumable(drain_timeout=0.0), FastAPI(), Gate(), Queue[str]()

    async def slow(name: str) -> AsyncIterator[str]:
        yield name
        await gate.wait()

    @app.get("/answers/{name}")
    async def get(request: Request, name: str, tasks: BackgroundTasks) -> FastAPIResponse:
        tasks.add_task(ran.put, name)
        return await events.response(request, name, slow(name))

    reader = serve(app)
    with reader.stream("left") as answer:
        answer.until(1)
        assert ran.empty()
    assert ran.get(timeout=LIMIT) == "left"
    gate.open()
    whole = reader.read("read")
    assert ran.get(timeout=LIMIT) == "read"
    assert reader.read("read", whole.events[-1].id).status == 204
    assert ran.get(timeout=LIMIT) == "read"


@pytest.mark.parametrize("opens", [True, False])
def test_a_request_that_is_cancelled_while_it_opens_its_stream_starts_the_source(
    serve: Serve, *, opens: bool
) -> None:
    log, runs = InterruptedLog(opens=opens), []

    async def noted(name: str) -> AsyncIterator[str]:
        runs.append(name)
        async for word in words(name):
            yield word

    site = Site(noted, log, max_streams_per_owner=1, max_readers_per_owner=1)

    async def cancelled(request: Request) -> Response:
        await log.interrupt(asyncio.ensure_future(site.answer(request)))
        return Response(status_code=503)

    app = site.starlette()
    app.router.routes.append(Route("/cancelled/{name}", cancelled))
    reader = serve(app)
    assert reader.http.get("/cancelled/one").status_code == 503
    assert shown(reader.read()) == WHOLE
    assert runs == ["one"]
    assert shown(reader.read("other"))[-1] == WHOLE[-1]  # no limit counts the cancelled request


@pytest.mark.parametrize("done", [True, False])
def test_a_source_runs_once_whichever_use_of_the_log_fails(
    serve: Serve, done: bool, tmp_path: Path
) -> None:
    """The id of a stream that was opened without its source would be used up."""
    log, runs = Away(tmp_path / "log.db", lease=600.0), []

    async def noted(name: str) -> AsyncIterator[str]:
        runs.append(name)
        async for word in words("one"):
            yield word

    reader = serve(noted, log)
    while log.left <= 0:
        name = f"{len(runs) + 1}"
        log.left, log.done = int(name), done
        text = read(lambda _, name=name: reader.http.get(f"/answers/{name}"))  # type: ignore[misc]
        assert "data: one" in text
        assert text.endswith("event: end\ndata: complete\n\n")
        assert runs[-1] == name
    assert len(runs) > 3


@pytest.mark.parametrize("opens", [True, False])
@aio
async def test_a_stop_waits_for_the_stream_of_a_cancelled_request(*, opens: bool) -> None:
    log = InterruptedLog(opens=opens)
    events = Resumable(log, drain_timeout=0.0)
    async with events.lifespan():
        request = Request({"type": "http", "method": "GET", "path": "/", "headers": []})
        await log.interrupt(asyncio.ensure_future(events.response(request, "one", words("one"))))
    [stream] = log._store.requests.values()
    assert stream.outcome == "server_stopped"


# It never ends: whatever is read, the process dies in the middle.
ENDLESS = """
import asyncio, sys
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.routing import Route
from coreason_client.server import Resumable, SQLiteStreamLog, ValkeyStreamLog, running

async def count():
    number = 0
    while True:
        number += 1
        yield str(number)
        await asyncio.sleep(0.001)

async def answer(request):
    return await events.response(request, request.path_params["id"], count())

kind, place, prefix = sys.argv[1:]
if kind == "sqlite":
    log = SQLiteStreamLog(place)
else:
    log = ValkeyStreamLog(place, prefix=prefix, lease=1.5)
events = Resumable(log)
app = Starlette(routes=[Route("/answers/{id}", answer)], lifespan=events.lifespan)
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_after_a_kill_the_next_process_ends_the_stream_with_an_error(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "events.db"
    process = PipedProcess(["-c", ENDLESS, "sqlite", str(path), ""], libraries=PROJECT)
    try:
        reader = Reader(process.line())
        with pytest.raises(httpx2.TransportError), reader.stream() as answer:
            answer.until(50)
            os.kill(process.pid, signal.SIGKILL)
            answer.rest()
        reader.close()
    finally:
        process.close(LIMIT)
    # With so long a lease only the start itself can end the stream in time.
    again = serve(never, SQLiteStreamLog(path, lease=10_000))
    events = answer.events + again.read(cursor=answer.events[-1].id).events
    assert again.read().events == events
    assert [event.data for event in events[:-1]] == [str(n) for n in range(1, len(events))]
    assert (events[-1].event, json.loads(events[-1].data)["code"]) == ("error", "producer_lost")
    assert again.read(cursor=events[-1].id).status == 204


def test_after_a_kill_readers_at_another_process_get_an_error(serve: Serve) -> None:
    url, prefix = shared_server().url, fresh_prefix()
    process = PipedProcess(["-c", ENDLESS, "valkey", url, prefix], libraries=WITH_STORES)
    try:
        reader = Reader(process.line())
        with pytest.raises(httpx2.TransportError), reader.stream() as answer:
            answer.until(10)
            other = serve(never, ValkeyStreamLog(url, prefix=prefix, lease=1.5))
            with other.stream(cursor=answer.events[0].id) as elsewhere:
                elsewhere.until(10)
                os.kill(process.pid, signal.SIGKILL)
                elsewhere.rest()
            answer.rest()
        reader.close()
    finally:
        process.close(LIMIT)
    last = elsewhere.events[-1]
    assert (last.event, json.loads(last.data)["code"]) == ("error", "producer_lost")
    numbers = [int(event.data) for event in elsewhere.events[:-1]]
    assert numbers == list(range(2, len(numbers) + 2))


STOPPED = """
import asyncio, sys
import uvicorn
from fastapi import FastAPI, Request
from coreason_client.server import Resumable

events = Resumable(drain_timeout=0)
app = FastAPI(lifespan=events.lifespan) if sys.argv[1] == "lifespan" else FastAPI()

async def endless():
    try:
        yield "one"
        await asyncio.Event().wait()
    finally:
        print("cleaned up", file=sys.stderr)

@app.get("/answers/{id}")
async def answer(request: Request, id: str):
    return await events.response(request, id, endless())

uvicorn.run(app, port=0)
"""


@pytest.mark.parametrize("started", ["lifespan", "first request"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_sources_and_streams(started: str, number: signal.Signals) -> None:
    with Program(STOPPED, started) as program:
        reader = Reader(program.url())
        with reader.stream() as answer:
            answer.until(1)
            program.signal(number)
            last = answer.rest().events[-1]
        reader.close()
        assert (last.event, json.loads(last.data)["code"]) == ("error", "server_stopped")
        program.end()
        program.expect("cleaned up")
        assert "Traceback" not in program.errors
