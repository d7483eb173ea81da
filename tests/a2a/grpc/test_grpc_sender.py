"""The senders over gRPC, against real servers: calls, limits, cuts, and how they end."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx2
import pytest
import trio
import trustme
from a2a.types import a2a_pb2

from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AHTTPError,
    A2AResponseTooLargeError,
    A2AStreamClosedError,
    A2ATimeoutError,
    AsyncA2AClient,
    AsyncGrpcTransport,
    GrpcTransport,
    InternalError,
    MethodNotFoundError,
    TaskNotFoundError,
    TaskState,
    errors,
)
from coreason_client.a2a._grpc._status import STATUS_NUMBERS, status_from_error
from coreason_client.testing import virtual_clock
from tests.a2a.grpc.scripted import LIMIT, SdkServer, scripted, text, working
from tests.a2a.peer.driving import done, driven, each, every, opened
from tests.a2a.peer.facts import chunks

CODES = {code.value[0]: code for code in grpc.StatusCode}


@pytest.fixture(params=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


@pytest.fixture
def connect(is_async: bool) -> Callable[..., Any]:
    """Make a client of an address; it does not retry, unless a test says so."""

    def make(address: str, **options: Any) -> Any:
        options.setdefault("max_retries", 0)
        if is_async:
            return AsyncA2AClient.with_transport(AsyncGrpcTransport(address, **options))
        return A2AClient.with_transport(GrpcTransport(address, **options))

    return make


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def raised(error: type[BaseException], act: Callable[[], Any]) -> Any:
    """Return the error of an act, a call or a stream that is read."""
    with pytest.raises(error) as caught:
        result = act()
        if hasattr(result, "__aiter__") or hasattr(result, "__next__"):
            await every(result)
        else:
            await done(result)
    return caught.value


def abort(code: str, message: str = "") -> Callable[[Any, Any], Any]:
    def behave(request: Any, context: Any) -> Any:
        context.abort(CODES[STATUS_NUMBERS[code]], message)

    return behave


# Calls.


@driven
async def test_metadata_and_credentials_are_sent(connect: Any) -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()))
        return text("hello")

    with scripted(SendMessage=answer) as (address, _):
        async with opened(connect(address, auth="secret", headers={"X-Team": "a"})) as client:
            await done(client.send_message("hi", headers={"X-Call": "b"}))
    [metadata] = seen
    assert metadata["a2a-version"] == "1.0"
    assert metadata["authorization"] == "Bearer secret"
    assert (metadata["x-team"], metadata["x-call"]) == ("a", "b")
    assert metadata["user-agent"].startswith("coreason-client/")
    assert not {"accept", "content-type"} & set(metadata)


@driven
async def test_a_credential_is_refreshed_once(connect: Any) -> None:
    seen: list[str] = []

    def answer(request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata())["authorization"])
        if seen[-1] != "Bearer second":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who?")
        return text("hello")

    tokens = iter(["first", "second"])
    with scripted(SendMessage=answer) as (address, _):
        async with opened(connect(address, auth=lambda: next(tokens))) as client:
            assert (await done(client.send_message("hi"))).text == "hello"
    assert seen == ["Bearer first", "Bearer second"]


@driven
async def test_an_error_does_not_show_a_secret(connect: Any) -> None:
    with scripted(SendMessage=abort("PERMISSION_DENIED", "not with secret-1")) as (address, _):
        async with opened(connect(address, auth="secret-1")) as client:
            error = await raised(A2AHTTPError, lambda: client.send_message("hi"))
    assert error.status == 403
    assert "secret-1" not in str(error)
    assert "PERMISSION_DENIED" in str(error)


@driven
async def test_a_header_that_grpc_cannot_send(connect: Any) -> None:
    with scripted() as (address, _):
        async with opened(connect(address, headers={"x-data-bin": "x"})) as client:
            error = await raised(A2AConnectionError, lambda: client.get_task("t"))
    assert "gRPC cannot send a header with the name 'x-data-bin'" in str(error)


@pytest.mark.parametrize("kind", errors.A2AJSONRPCError.__subclasses__())
@pytest.mark.parametrize("stream", [False, True])
@driven
async def test_every_error_of_the_protocol(connect: Any, kind: Any, stream: bool) -> None:
    def behave(request: Any, context: Any) -> Any:
        status = status_from_error(kind("what is wrong"))
        context.set_trailing_metadata([("grpc-status-details-bin", status.details)])
        context.abort(CODES[STATUS_NUMBERS[status.code]], status.message)

    with scripted(SendMessage=behave, SendStreamingMessage=behave) as (address, _):
        async with opened(connect(address)) as client:
            send = client.send_message_stream if stream else client.send_message
            error = await raised(errors.A2AJSONRPCError, lambda: send("hi"))
    assert type(error) is kind
    assert error.message == "what is wrong"


@driven
async def test_an_exception_of_the_server(connect: Any) -> None:
    def fail(request: Any, context: Any) -> Any:
        raise RuntimeError("broken")

    with scripted(GetTask=fail) as (address, _):
        async with opened(connect(address)) as client:
            await raised(InternalError, lambda: client.get_task("t"))
            await raised(MethodNotFoundError, lambda: client.cancel_task("t"))


@driven
async def test_an_idempotent_call_is_retried(connect: Any) -> None:
    calls: list[str] = []

    def answer(request: Any, context: Any) -> Any:
        calls.append(request.id)
        if len(calls) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")
        return a2a_pb2.Task(id=request.id)

    with scripted(GetTask=answer, SendMessage=abort("UNAVAILABLE", "restarting")) as (address, _):
        async with opened(connect(address, max_retries=1)) as client:
            assert (await done(client.get_task("t"))).id == "t"
            error = await raised(A2AConnectionError, lambda: client.send_message("hi"))
    assert calls == ["t", "t"]
    assert error.attempts == 1


# Limits.


@driven
async def test_a_server_that_hangs(connect: Any) -> None:
    release = threading.Event()

    def hang(request: Any, context: Any) -> Any:
        release.wait(LIMIT)
        return text("late")

    def hang_stream(request: Any, context: Any) -> Iterator[Any]:
        yield working()
        release.wait(LIMIT)

    with scripted(SendMessage=hang, SendStreamingMessage=hang_stream) as (address, _):
        try:
            async with opened(connect(address, timeout=0.3, stream_timeout=0.3)) as client:
                error = await raised(A2ATimeoutError, lambda: client.send_message("hi"))
                assert "DEADLINE_EXCEEDED" in str(error)
                stream = client.send_message_stream("hi", resume=False)
                closed = await raised(A2AStreamClosedError, lambda: stream)
                assert "no message for 0.3 s" in str(closed)
                assert closed.task_id == "t"
        finally:
            release.set()


@driven
async def test_a_stream_that_never_begins(connect: Any) -> None:
    release = threading.Event()

    def hang(request: Any, context: Any) -> Iterator[Any]:
        release.wait(LIMIT)
        yield working()

    with scripted(SendStreamingMessage=hang) as (address, _):
        try:
            async with opened(connect(address, stream_timeout=0.3)) as client:
                await raised(A2AStreamClosedError, lambda: client.send_message_stream("hi"))
        finally:
            release.set()


@driven
async def test_a_message_that_is_too_large(connect: Any) -> None:
    def answer(request: Any, context: Any) -> Any:
        return text("x" * 3000)

    def stream(request: Any, context: Any) -> Iterator[Any]:
        yield a2a_pb2.StreamResponse(message=answer(request, context).message)

    limits = {"max_body_bytes": 2000, "max_event_bytes": 1000}
    with scripted(SendMessage=answer, SendStreamingMessage=stream) as (address, _):
        async with opened(connect(address, **limits)) as client:
            error = await raised(A2AConnectionError, lambda: client.send_message("hi"))
            assert "larger than max (3" in str(error)
            error = await raised(A2AConnectionError, lambda: client.send_message_stream("hi"))
            assert "larger than max (3" in str(error)
        # gRPC accepts the larger of the two limits; the rules of the client have both.
        async with opened(connect(address, max_body_bytes=2000)) as client:
            await raised(A2AResponseTooLargeError, lambda: client.send_message("hi"))


@driven
async def test_a_wrong_address(connect: Any, closed_port: int) -> None:
    async with opened(connect(f"127.0.0.1:{closed_port}")) as client:
        for _ in range(2):  # the second call does not wait for a back-off of the channel
            error = await raised(A2AConnectionError, lambda: client.send_message("hi"))
            assert f"no connection to 127.0.0.1:{closed_port}" in str(error)


@driven
async def test_a_server_that_starts_later_is_reached_at_once(connect: Any) -> None:
    with scripted() as (address, _):
        port = int(address.rpartition(":")[2])
    async with opened(connect(address)) as client:
        await raised(A2AConnectionError, lambda: client.send_message("hi"))
        with scripted(port=port, SendMessage=lambda r, c: text("hello")):
            assert (await done(client.send_message("hi"))).text == "hello"


@driven
async def test_a_server_that_does_not_speak_grpc(connect: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        limits = short_connect(0.3)
        async with opened(connect(f"127.0.0.1:{port}", timeout=limits)) as client:
            error = await raised(A2AConnectionError, lambda: client.send_message("hi"))
    assert f"no connection to 127.0.0.1:{port} within 0.3 s" in str(error)
    assert isinstance(error, A2ATimeoutError)


def short_connect(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(5.0, connect=seconds)


# TLS.


@driven
async def test_a_certificate_is_checked(
    connect: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1", "localhost")
    key, chain = pair.private_key_pem.bytes(), pair.cert_chain_pems[0].bytes()
    credentials = grpc.ssl_server_credentials([(key, chain)])
    with scripted(credentials=credentials, SendMessage=lambda r, c: text("safe")) as (address, _):
        async with opened(connect(f"https://{address}")) as client:
            await raised(A2AConnectionError, lambda: client.send_message("hi"))
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with opened(connect(f"https://{address}")) as client:
            assert (await done(client.send_message("hi"))).text == "safe"


# Streams that are cut.


@driven
async def test_a_stream_resumes_when_the_server_restarts(connect: Any) -> None:
    with SdkServer() as server:
        async with opened(connect(server.address, max_retries=5)) as client:
            stream = client.send_message_stream("hold 10")
            async with aclosing(each(stream)) as events:
                while stream.text != "".join(chunks(5)):
                    await anext(events)
                task_id = stream.task.id
                server.stop()
                server.start()
                async with opened(connect(server.address, max_retries=5)) as other:
                    await done(other.send_message(f"release {task_id}"))
                async for _ in events:
                    pass
            assert stream.text == "".join(chunks(10))
            assert stream.task.status.state is TaskState.COMPLETED
            assert stream.reconnects >= 1


@driven
async def test_a_stream_ends_with_an_error_if_the_server_stays_away(connect: Any) -> None:
    with SdkServer() as server:
        async with opened(connect(server.address)) as client:
            stream = client.send_message_stream("hold 10")
            async with aclosing(each(stream)) as events:
                while stream.text != "".join(chunks(5)):
                    await anext(events)
                server.stop()
                with pytest.raises(A2AStreamClosedError) as caught:
                    async for _ in events:
                        pass
            assert caught.value.task_id == stream.task.id


PIECES = [f"p{number} " for number in range(6)]


def artifact(pieces: list[str]) -> Any:
    parts = [a2a_pb2.Part(text=piece) for piece in pieces]
    return a2a_pb2.Artifact(artifact_id="a", parts=parts)


def events_from(position: int) -> Iterator[Any]:
    """Yield the events of a task after so many pieces; the first one is the task as it stands."""
    first = working()
    if position:
        first.task.artifacts.append(artifact(PIECES[:position]))
    yield first
    for number in range(position, len(PIECES)):
        yield a2a_pb2.StreamResponse(
            artifact_update=a2a_pb2.TaskArtifactUpdateEvent(
                task_id="t",
                context_id="c",
                artifact=artifact([PIECES[number]]),
                append=number > 0,
                last_chunk=number == len(PIECES) - 1,
            )
        )
    status = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_COMPLETED)
    yield a2a_pb2.StreamResponse(
        status_update=a2a_pb2.TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)
    )


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED", None])
@driven
async def test_a_stream_that_is_cut_after_every_event_is_exact(connect: Any, code: Any) -> None:
    delivered = 0

    def stream(request: Any, context: Any) -> Iterator[Any]:
        nonlocal delivered
        events = events_from(delivered)
        yield next(events)
        yield next(events)  # the next piece, or the end
        delivered += 1
        if code is not None:
            context.abort(CODES[STATUS_NUMBERS[code]], "cut")

    with (
        virtual_clock(),
        scripted(SendStreamingMessage=stream, SubscribeToTask=stream) as (address, _),
    ):
        async with opened(connect(address, max_retries=1)) as client:
            found = client.send_message_stream("hi")
            printed = "".join([event.text async for event in each(found)])
    assert printed == found.text == "".join(PIECES)
    assert found.reconnects == len(PIECES)


@driven
async def test_the_status_in_the_middle_of_a_stream(connect: Any) -> None:
    def stream(request: Any, context: Any) -> Iterator[Any]:
        yield working()
        context.abort(grpc.StatusCode.NOT_FOUND, "it is gone")

    with scripted(SendStreamingMessage=stream) as (address, _):
        async with opened(connect(address)) as client:
            error = await raised(TaskNotFoundError, lambda: client.send_message_stream("hi"))
    assert error.task_id == "t"


# Ends.


@driven
async def test_closing_a_stream_cancels_the_call(connect: Any) -> None:
    cancelled = threading.Event()

    def stream(request: Any, context: Any) -> Iterator[Any]:
        context.add_callback(cancelled.set)
        yield working()
        cancelled.wait(LIMIT)

    with scripted(SendStreamingMessage=stream) as (address, _):
        async with opened(connect(address)) as client:
            stream_of_events = client.send_message_stream("hi")
            async with opened(stream_of_events) as events, aclosing(each(events)) as found:
                await anext(found)
            assert await asyncio.to_thread(cancelled.wait, LIMIT)


@driven
async def test_a_closed_client(connect: Any) -> None:
    with scripted(SendMessage=lambda r, c: text("hello")) as (address, _):
        client = connect(address)
        async with opened(client):
            await done(client.send_message("hi"))
        error = await raised(A2AConnectionError, lambda: client.send_message("hi"))
    assert "the client was closed" in str(error)


def test_closing_from_another_thread_ends_a_stream() -> None:
    release = threading.Event()

    def stream(request: Any, context: Any) -> Iterator[Any]:
        yield working()
        release.wait(LIMIT)

    with scripted(SendStreamingMessage=stream) as (address, _):
        client = A2AClient.with_transport(GrpcTransport(address, max_retries=0))
        events = client.send_message_stream("hi")
        next(events)
        closer = threading.Thread(target=client.close)
        closer.start()
        with pytest.raises(A2AConnectionError, match="the client was closed"):
            next(events)
        closer.join(LIMIT)
        release.set()


def test_a_call_that_is_cancelled() -> None:
    cancelled, entered = threading.Event(), threading.Event()

    def hang(request: Any, context: Any) -> Any:
        context.add_callback(cancelled.set)
        entered.set()
        cancelled.wait(LIMIT)
        return text("late")

    async def main(address: str) -> None:
        transport = AsyncGrpcTransport(address)
        async with AsyncA2AClient.with_transport(transport) as client:
            task = asyncio.create_task(client.send_message("hi"))
            assert await asyncio.to_thread(entered.wait, LIMIT)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(cancelled.wait, LIMIT)

    with scripted(SendMessage=hang) as (address, _):
        asyncio.run(asyncio.wait_for(main(address), LIMIT))


def test_a_client_works_on_one_loop_after_another_and_may_be_left_open() -> None:
    with scripted(SendMessage=lambda r, c: text("hello")) as (address, _):
        client = AsyncA2AClient.with_transport(AsyncGrpcTransport(address))

        async def ask() -> Any:
            return (await client.send_message("hi")).text

        assert [asyncio.run(ask()) for _ in range(3)] == ["hello"] * 3
        gc.collect()


def test_threads_share_a_client() -> None:
    answers: list[str] = []
    with (
        scripted(SendMessage=lambda r, c: text("hello")) as (address, _),
        A2AClient.with_transport(GrpcTransport(address)) as client,
    ):

        def ask() -> None:
            answer: Any = client.send_message("hi")
            answers.append(answer.text)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
    assert answers == ["hello"] * 4


def test_another_event_loop_is_not_supported() -> None:
    async def main() -> None:
        async with AsyncA2AClient.with_transport(AsyncGrpcTransport("127.0.0.1:1")) as client:
            with pytest.raises(A2AConnectionError, match="gRPC needs asyncio"):
                await client.send_message("hi")

    trio.run(main)
