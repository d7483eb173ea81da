"""Calls over gRPC by real clients: results, errors, limits, and clients that leave."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
import pytest
from a2a.client.transports.grpc import GrpcTransport as SdkTransport
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk_errors
from a2a.utils.grpc_status import status_from_call
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from coreason_client.a2a import AsyncA2AClient, AsyncGrpcTransport, TaskState, errors
from coreason_client.a2a.errors import A2AJSONRPCError
from coreason_client.a2a.types import AgentCapabilities, AgentCard, AgentExtension
from coreason_client.server import (
    AgentApp,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    StreamLog,
)
from coreason_client.server.a2a._operations import Operations

from ..aio import LIMIT, aio
from ..faulty_log import Faulty, runtime_of
from .grpc_peer import (
    V10,
    bearer,
    channel_to,
    expected_code,
    message,
    refused,
    sending,
    serving,
    stub_of,
    until,
)

Logs = Callable[[], StreamLog]


@pytest.fixture(params=["memory", "sqlite"])
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> Logs:
    if request.param == "memory":
        return MemoryStreamLog
    return lambda: SQLiteStreamLog(tmp_path / "log.db")


# Clients of a2a-sdk.


@asynccontextmanager
async def sdk_client(app: AgentApp, version: str) -> AsyncIterator[Any]:
    async with channel_to(app) as channel:
        make = SdkTransport if version == "1.0" else CompatGrpcTransport
        yield make(channel, None)


def text_of(task: pb.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def blocking(text: str, message_id: str = "m", **fields: Any) -> pb.SendMessageRequest:
    configuration = pb.SendMessageConfiguration(return_immediately=False)
    return pb.SendMessageRequest(
        message=message(text, message_id, **fields), configuration=configuration
    )


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@aio
async def test_messages_of_the_clients_of_a2a_sdk(version: str, make_log: Logs) -> None:
    async with serving(log=make_log()) as (app, _), sdk_client(app, version) as client:
        answered = await client.send_message(blocking("hi"))
        assert text_of(answered.task) == "You said hi."
        assert answered.task.status.state == pb.TASK_STATE_COMPLETED
        found = await client.get_task(pb.GetTaskRequest(id=answered.task.id))
        assert found == answered.task
        direct = await client.send_message(blocking("message", "n"))
        assert [part.text for part in direct.message.parts] == ["just this"]
        asked = (await client.send_message(blocking("ask", "o"))).task
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        more = await client.send_message(blocking("here", "p", task_id=asked.id))
        assert more.task.id == asked.id
        assert text_of(more.task) == "You said here."


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@aio
async def test_streams_of_the_clients_of_a2a_sdk(version: str, make_log: Logs) -> None:
    async with serving(log=make_log()) as (app, doors), sdk_client(app, version) as client:
        events = client.send_message_streaming(sending("wait"))
        first = await anext(events)
        assert first.task.status.state == pb.TASK_STATE_WORKING
        request = pb.SubscribeToTaskRequest(id=first.task.id)
        await asyncio.wait_for(doors.reached.wait(), LIMIT)
        subscribed = client.subscribe(request)
        assert (await anext(subscribed)).task.id == first.task.id
        doors.go.set()
        rest = [event async for event in events]
        task = pb.Task()
        for event in rest:
            if event.HasField("artifact_update"):
                append_artifact_to_task(task, event.artifact_update)
        assert text_of(task) == "ab"
        assert rest[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
        assert [event async for event in subscribed][-1] == rest[-1]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@aio
async def test_a_running_task_is_cancelled(version: str, make_log: Logs) -> None:
    async with serving(log=make_log()) as (app, doors), sdk_client(app, version) as client:
        events = client.send_message_streaming(sending("wait"))
        task_id = (await anext(events)).task.id
        await asyncio.wait_for(doors.reached.wait(), LIMIT)
        cancelled = await client.cancel_task(pb.CancelTaskRequest(id=task_id))
        assert cancelled.status.state == pb.TASK_STATE_CANCELED
        assert [e async for e in events][-1].status_update.status.state == pb.TASK_STATE_CANCELED
        with pytest.raises(sdk_errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task_id))
        with pytest.raises(sdk_errors.UnsupportedOperationError):
            await anext(client.subscribe(pb.SubscribeToTaskRequest(id=task_id)))


@aio
async def test_tasks_are_listed() -> None:
    async with serving() as (app, _), sdk_client(app, "1.0") as client:
        for number in range(3):
            await client.send_message(sending(f"q{number}", f"m{number}"))
        first = await client.list_tasks(pb.ListTasksRequest(page_size=2))
        assert (len(first.tasks), first.total_size, first.page_size) == (2, 3, 2)
        rest = await client.list_tasks(
            pb.ListTasksRequest(page_size=2, page_token=first.next_page_token)
        )
        assert (len(rest.tasks), rest.next_page_token) == (1, "")
        done = await client.list_tasks(
            pb.ListTasksRequest(status=pb.TASK_STATE_COMPLETED, include_artifacts=True)
        )
        assert {text_of(task) for task in done.tasks} == {f"You said q{n}." for n in range(3)}


# Our own clients.

MISSING_CARD = {
    "1.0": errors.UnsupportedOperationError,
    "0.3": errors.ExtendedAgentCardNotConfiguredError,
}


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@aio
async def test_our_own_client(version: str, make_log: Logs) -> None:
    async with serving(log=make_log()) as (app, _):
        transport = AsyncGrpcTransport(f"127.0.0.1:{app.grpc_port}", version=version)
        async with AsyncA2AClient.with_transport(transport) as client:
            answered = await client.send_message("hi")
            assert answered.text == "You said hi."
            async with client.send_message_stream("again") as stream:
                assert [event async for event in stream]
                assert stream.text == "You said again."
                assert stream.task is not None
            task = await client.get_task(stream.task.id)
            assert task.status.state is TaskState.COMPLETED
            with pytest.raises(errors.TaskNotFoundError):
                await client.get_task("unknown")
            with pytest.raises(MISSING_CARD[version]):
                await client.get_extended_card()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@aio
async def test_the_extended_card(version: str) -> None:
    extended = AgentCard(name="more", description="More.", version="1")
    settings = {"a2a": {"extended_card": extended}, "api_keys": {"k": "ann"}}
    async with serving(**settings) as (app, _):
        transport = AsyncGrpcTransport(
            f"127.0.0.1:{app.grpc_port}", version=version, headers={"Authorization": "Bearer k"}
        )
        async with AsyncA2AClient.with_transport(transport) as client:
            card = await client.get_extended_card()
    assert card.name == "more"
    assert {found.protocol_binding for found in card.supported_interfaces} == {"GRPC"}
    assert card.security_requirements


# Errors.


@pytest.mark.conforms("GRPC-ERR-002")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("kind", A2AJSONRPCError.__subclasses__(), ids=lambda kind: kind.__name__)
@aio
async def test_every_error_reaches_the_clients(
    kind: type[A2AJSONRPCError], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = kind("It is so.")

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Operations, "call", fail)
    monkeypatch.setattr(Operations, "open", fail)
    async with serving() as (app, _):
        async with stub_of(app, old=version == "0.3") as stub:
            if version == "0.3":
                unary = stub.GetTask(old_pb.GetTaskRequest(name="tasks/t"))
                stream = stub.TaskSubscription(old_pb.TaskSubscriptionRequest(name="tasks/t"))
            else:
                unary = stub.GetTask(pb.GetTaskRequest(id="t"))
                stream = stub.SubscribeToTask(pb.SubscribeToTaskRequest(id="t"))
            for found in (await refused(unary), await refused(stream.read())):
                assert found.code().name == expected_code(error)
                named = f"{kind.__name__}: It is so." if version == "0.3" else "It is so."
                assert found.details() == named
        transport = AsyncGrpcTransport(f"127.0.0.1:{app.grpc_port}", version=version, max_retries=0)
        async with AsyncA2AClient.with_transport(transport) as client:
            with pytest.raises(kind, match=r"It is so\."):
                await client.get_task("t")


@pytest.mark.parametrize(
    ("method", "request_", "metadata", "code", "reason"),
    [
        ("GetTask", pb.GetTaskRequest(id="t"), V10, "NOT_FOUND", "TASK_NOT_FOUND"),
        ("GetTask", pb.GetTaskRequest(id="t"), (), "NOT_FOUND", "TASK_NOT_FOUND"),
        ("GetTask", pb.GetTaskRequest(), V10, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        ("CancelTask", pb.CancelTaskRequest(id="t"), V10, "NOT_FOUND", "TASK_NOT_FOUND"),
        ("SendMessage", pb.SendMessageRequest(), V10, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        (
            "SendMessage",
            sending("x", task_id="t"),
            V10,
            "NOT_FOUND",
            "TASK_NOT_FOUND",
        ),
        (
            "ListTasks",
            pb.ListTasksRequest(page_size=1000),
            V10,
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
        ),
        (
            "GetTask",
            pb.GetTaskRequest(id="t"),
            (("a2a-version", "9.9"),),
            "UNIMPLEMENTED",
            "VERSION_NOT_SUPPORTED",
        ),
        (
            "GetTask",
            pb.GetTaskRequest(id="t"),
            (("a2a-version", "0.3"),),
            "UNIMPLEMENTED",
            "VERSION_NOT_SUPPORTED",
        ),
        (
            "GetExtendedAgentCard",
            pb.GetExtendedAgentCardRequest(),
            V10,
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
        ),
        (
            "GetTaskPushNotificationConfig",
            pb.GetTaskPushNotificationConfigRequest(task_id="t", id="c"),
            V10,
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
    ],
)
@pytest.mark.conforms("GRPC-ERR-001")
@aio
async def test_errors(method: str, request_: Any, metadata: Any, code: str, reason: str) -> None:
    async with serving(a2a={"push": False}) as (app, _), stub_of(app) as stub:
        found = await refused(getattr(stub, method)(request_, metadata=metadata))
        assert found.code().name == code
        status = status_from_call(found)
        assert status is not None
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info)
        assert (info.reason, info.domain) == (reason, "a2a-protocol.org")


@aio
async def test_what_is_no_call_of_the_protocol() -> None:
    async with serving() as (app, _), channel_to(app) as channel:
        unknown = channel.unary_unary("/lf.a2a.v1.A2AService/Nothing")
        assert (await refused(unknown(b""))).code() is grpc.StatusCode.UNIMPLEMENTED
        wrong = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
        assert (await refused(wrong(b"\xff"))).code() is grpc.StatusCode.INVALID_ARGUMENT
        empty = channel.stream_unary("/lf.a2a.v1.A2AService/GetTask")(iter(()))
        assert (await refused(empty)).code() is grpc.StatusCode.INVALID_ARGUMENT


@aio
async def test_an_unexpected_failure_is_logged_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Operations, "call", fail)
    async with serving() as (app, _), stub_of(app) as stub:
        found = await refused(stub.GetTask(pb.GetTaskRequest(id="t")))
    assert found.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in found.details()
    assert "GetTask failed" in caplog.text


# Extensions.


@pytest.mark.conforms("GRPC-META-001")
@aio
async def test_extensions() -> None:
    uri = "https://ext.example/1"
    extension = AgentExtension(uri=uri, required=True)
    card = AgentCard(
        name="x",
        description="x",
        version="1",
        default_input_modes=["text/plain"],
        capabilities=AgentCapabilities(extensions=[extension]),
    )
    async with serving(a2a={"card": card}) as (app, _), stub_of(app) as stub:
        found = await refused(stub.SendMessage(sending("hi"), metadata=V10))
        status = status_from_call(found)
        assert status is not None
        assert b"EXTENSION_SUPPORT_REQUIRED" in status.details[0].value
        named = (*V10, ("a2a-extensions", f"https://other.example, {uri}"))
        for call in (
            stub.SendMessage(sending("hi"), metadata=named),
            stub.SendStreamingMessage(sending("hi"), metadata=named),
        ):
            assert dict(await call.initial_metadata())["a2a-extensions"] == uri


# Keys and tenants.


@aio
async def test_a_key_is_needed_before_the_message_is_read() -> None:
    async with serving(api_keys={"k": "ann"}) as (app, _), channel_to(app) as channel:
        method = channel.stream_unary("/lf.a2a.v1.A2AService/GetTask")
        for metadata in (V10, bearer("wrong"), (*V10, ("authorization", "Basic k"))):
            call = method(metadata=metadata)  # it never sends a message
            found = await refused(call)
            assert found.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "Authorization: Bearer" in found.details()


@aio
async def test_principals_and_tenants_have_their_own_tasks() -> None:
    keys = {"a": "ann", "b": "bob"}
    async with serving(api_keys=keys) as (app, _), stub_of(app) as stub:
        request = sending("hi")
        request.tenant = "acme"
        task = (await stub.SendMessage(request, metadata=bearer("a"))).task
        for key, tenant, code in (
            ("a", "acme", None),
            ("a", "", grpc.StatusCode.NOT_FOUND),
            ("a", "other", grpc.StatusCode.NOT_FOUND),
            ("b", "acme", grpc.StatusCode.NOT_FOUND),
        ):
            get = stub.GetTask(pb.GetTaskRequest(tenant=tenant, id=task.id), metadata=bearer(key))
            if code is None:
                assert (await get).id == task.id
            else:
                assert (await refused(get)).code() is code
            listed = await stub.ListTasks(pb.ListTasksRequest(tenant=tenant), metadata=bearer(key))
            assert len(listed.tasks) == (code is None)


# Limits.


def retry_delay(error: grpc.aio.AioRpcError) -> int:
    status = status_from_call(error)
    assert status is not None
    info = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    return int(info.retry_delay.seconds)


@aio
async def test_the_rate_limit() -> None:
    async with serving(max_requests_per_minute=1) as (app, _), stub_of(app) as stub:
        await stub.SendMessage(sending("hi"))
        found = await refused(stub.SendMessage(sending("hi")))
        assert found.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1 requests a minute" in found.details()
        assert 50 < retry_delay(found) <= 60


@aio
async def test_the_limits_of_streams_and_readers() -> None:
    limits = {"max_streams_per_key": 1, "max_readers_per_key": 1}
    async with serving(**limits) as (app, doors), stub_of(app) as stub:
        reading = stub.SendStreamingMessage(sending("wait"))
        await reading.read()
        for call in (
            stub.SendMessage(sending("hi", "n")),
            stub.SendStreamingMessage(sending("hi", "n")).read(),
        ):
            found = await refused(call)
            assert found.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert retry_delay(found) == 1
        doors.go.set()
        while await reading.read() is not grpc.aio.EOF:
            pass
        assert runtime_of(app).producers.readers == 0


@pytest.mark.parametrize(
    ("options", "request_", "metadata", "code"),
    [
        ({"max_body_bytes": 1000}, sending("x" * 2000), V10, "RESOURCE_EXHAUSTED"),
        (
            {"max_json_values": 50},
            pb.SendMessageRequest(message=pb.Message(parts=[pb.Part()] * 60)),
            V10,
            "INVALID_ARGUMENT",
        ),
        (
            {"max_header_bytes": 1000},
            sending("x"),
            (*V10, ("x-long", "x" * 1200)),
            "RESOURCE_EXHAUSTED",
        ),
    ],
)
@aio
async def test_the_limits_of_requests(
    options: dict[str, Any], request_: Any, metadata: Any, code: str
) -> None:
    async with serving(**options) as (app, _), stub_of(app) as stub:
        found = await refused(stub.SendMessage(request_, metadata=metadata))
        assert found.code().name == code
        await stub.SendMessage(sending("hi"), metadata=V10)


@aio
async def test_large_messages_are_answered() -> None:
    async with serving() as (app, _), stub_of(app) as stub:
        answered = await stub.SendMessage(sending("x" * 1_000_000))
        assert text_of(answered.task) == f"You said {'x' * 1_000_000}."


@aio
async def test_compressed_messages_are_refused() -> None:
    async with serving() as (app, _), stub_of(app) as stub:
        packed = stub.SendMessage(sending("x"), compression=grpc.Compression.Gzip)
        assert (await refused(packed)).code() is grpc.StatusCode.UNIMPLEMENTED


@aio
async def test_a_message_that_does_not_arrive() -> None:
    async with serving(body_timeout=0.05) as (app, _), channel_to(app) as channel:
        call = channel.stream_unary("/lf.a2a.v1.A2AService/GetTask")(metadata=V10)
        found = await refused(call)
        assert found.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert found.details() == "The body did not arrive within 0.05 s."


@aio
async def test_a_log_that_does_not_work(caplog: pytest.LogCaptureFixture) -> None:
    log = Faulty()
    async with serving(log=log) as (app, _), stub_of(app) as stub:
        log.fail("open", error=LogUnavailable("the disk of db7 is full"))
        for call in (
            stub.SendMessage(sending("hi")),
            stub.SendStreamingMessage(sending("hi")).read(),
        ):
            found = await refused(call)
            assert found.code() is grpc.StatusCode.UNAVAILABLE
            assert "db7" not in found.details()
            assert retry_delay(found) == 1
        log.repair()
    assert "the disk of db7 is full" in caplog.text


# Clients that leave.


@pytest.mark.parametrize("leave", ["cancel", "disconnect"])
@pytest.mark.parametrize("streams", [True, False])
@aio
async def test_a_client_that_leaves_does_not_stop_the_agent(streams: bool, leave: str) -> None:
    async with serving() as (app, doors), stub_of(app) as stub:
        producers = runtime_of(app).producers
        async with stub_of(app) as leaving:
            make = leaving.SendStreamingMessage if streams else leaving.SendMessage
            call = make(sending("wait"))
            reading = asyncio.ensure_future(call.read() if streams else call)
            await asyncio.wait_for(doors.reached.wait(), LIMIT)
            if streams:
                await reading
                assert producers.readers == 1
            if leave == "cancel":
                call.cancel()
                await asyncio.wait({reading})
        await asyncio.wait({reading})
        await until(lambda: producers.readers == 0)
        assert len(producers) == 1
        doors.go.set()
        await asyncio.wait_for(doors.done.wait(), LIMIT)
        await until(lambda: len(producers) == 0)
        [task] = (await stub.ListTasks(pb.ListTasksRequest(include_artifacts=True))).tasks
        assert text_of(task) == "ab"


@aio
async def test_a_reader_that_reads_nothing_is_disconnected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with serving(send_timeout=0.2) as (app, doors), channel_to(app) as channel:
        call = channel.unary_stream("/lf.a2a.v1.A2AService/SendStreamingMessage")(
            sending("much").SerializeToString()
        )
        assert await call.read()
        await asyncio.wait_for(doors.done.wait(), LIMIT)
        await until(lambda: runtime_of(app).producers.readers == 0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await call.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "read nothing for 0.2 s" in caplog.text


@aio
async def test_a_slow_reader_gets_every_event_in_order() -> None:
    async with serving() as (app, _), stub_of(app) as stub:
        received = 0
        async for event in stub.SendStreamingMessage(sending("much")):
            if event.HasField("artifact_update"):
                received += sum(len(part.text) for part in event.artifact_update.artifact.parts)
            await asyncio.sleep(0)
        assert received == 200 * 50_000
