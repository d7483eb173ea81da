"""The gRPC server: its options, its port, TLS, and its end with the drain."""

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
import pytest
import trustme
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc

from coreason_client.server import AgentApp, MemoryStreamLog
from coreason_client.server.a2a import A2A
from coreason_client.server.a2a._grpc_server import channel_options
from coreason_client.server.a2a._operations import Operations
from coreason_client.server.a2a._settings import GrpcAddress, check_free

from ..aio import LIMIT, aio
from ..balancer import Balancer
from ..faulty_log import runtime_of
from .grpc_peer import Doors, channel_to, make_agent, refused, sending, serving, stub_of, until


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def test_the_options_of_the_application_are_those_of_grpc() -> None:
    limits: dict[str, Any] = {"max_body_bytes": 5, "max_header_bytes": 6}
    app = AgentApp(make_agent(Doors()), heartbeat=7, send_timeout=8, **limits)
    options = dict(channel_options(app._options, shares_port=False))
    assert options["grpc.max_receive_message_length"] == 5
    assert options["grpc.absolute_max_metadata_size"] == 6
    assert options["grpc.keepalive_time_ms"] == 7000
    assert options["grpc.keepalive_timeout_ms"] == 8000
    assert options["grpc.so_reuseport"] == 0
    assert dict(channel_options(app._options, shares_port=True))["grpc.so_reuseport"] == 1


# The port.


@aio
async def test_a_port_in_use_is_an_error_of_the_start() -> None:
    async with serving() as (first, _):
        address = f"127.0.0.1:{first.grpc_port}"
        second = AgentApp(make_agent(Doors()), a2a=A2A(grpc_address=address))
        with pytest.raises(OSError, match=f"cannot listen at {address}: Address already in use"):
            async with second.lifespan():
                pass
        assert isinstance(second.startup_error, OSError)
        assert second.grpc_port is None


@aio
async def test_only_workers_share_a_port() -> None:
    doors = Doors()
    workers = [AgentApp(make_agent(doors), a2a=A2A(grpc_address="127.0.0.1:0"))]
    workers[0].become_worker()
    async with workers[0].lifespan():
        address = f"127.0.0.1:{workers[0].grpc_port}"
        workers.append(AgentApp(make_agent(doors), a2a=A2A(grpc_address=address)))
        workers[1].become_worker()
        async with workers[1].lifespan():
            assert workers[1].grpc_port == workers[0].grpc_port
            stranger = AgentApp(make_agent(doors), a2a=A2A(grpc_address=address))
            with pytest.raises(OSError, match="in use"):
                async with stranger.lifespan():
                    pass


@pytest.mark.parametrize(("workers", "shares"), [(1, False), (2, True)])
@aio
async def test_the_workers_of_uvicorn_share_a_port(
    workers: int, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coreason_client.server.app.configured_workers", lambda: workers)
    async with serving(log=Shared()) as (app, _):
        assert app.grpc_port is not None
        address = GrpcAddress("127.0.0.1", app.grpc_port)
        if shares:
            check_free(address, shared=True)
        else:
            with pytest.raises(OSError, match="in use"):
                check_free(address, shared=True)


@pytest.mark.conforms("GRPC-SVC-003")
@aio
async def test_tls() -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    key = issued.private_key_pem.bytes()
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(key, chain)])
    async with serving(a2a={"grpc_credentials": credentials}) as (app, _):
        trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        options = [("grpc.ssl_target_name_override", "localhost")]
        target = f"127.0.0.1:{app.grpc_port}"
        async with grpc.aio.secure_channel(target, trusted, options) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            answered = await stub.SendMessage(sending("hi"))
            assert answered.task.status.state == pb.TASK_STATE_COMPLETED
        async with stub_of(app) as plain:
            found = await refused(plain.SendMessage(sending("hi")))
            assert found.code() is UNAVAILABLE


# The drain.


async def rest_of(call: Any) -> list[Any]:
    found = []
    while (event := await call.read()) is not grpc.aio.EOF:
        found.append(event)
    return found


READY = grpc.ChannelConnectivity.READY


async def told_to_connect_anew(channel: Any) -> None:
    """Wait until a channel no longer uses its connection for new calls."""
    while channel.get_state() is READY:
        await asyncio.wait_for(channel.wait_for_state_change(READY), LIMIT)


@aio
async def test_a_drain_lets_running_calls_finish_and_refuses_new_messages() -> None:
    async with serving(drain_timeout=LIMIT) as (app, doors), channel_to(app) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        stream = stub.SendStreamingMessage(sending("wait"))
        task_id = (await stream.read()).task.id
        unary = asyncio.ensure_future(stub.SendMessage(sending("wait")))  # joins it
        # gRPC cancels a call that has not reached the server yet.
        await until(lambda: runtime_of(app).producers.readers == 2)
        drain = asyncio.ensure_future(app.drain())
        await told_to_connect_anew(channel)
        assert runtime_of(app).closing
        found = await refused(stub.SendMessage(sending("new", "n"), wait_for_ready=True))
        assert (found.code(), found.details()) == (UNAVAILABLE, "The server is shutting down.")
        assert (await stub.GetTask(pb.GetTaskRequest(id=task_id))).id == task_id
        late = stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task_id))
        assert (await late.read()).task.id == task_id
        doors.go.set()
        for call in (stream, late):
            [*_, last] = await rest_of(call)
            assert last.status_update.status.state == pb.TASK_STATE_COMPLETED
        assert (await unary).task.status.state == pb.TASK_STATE_COMPLETED
        await drain


@aio
async def test_behind_a_balancer_no_next_message_fails_when_a_replica_drains() -> None:
    async with AsyncExitStack() as stack:
        first, doors = await stack.enter_async_context(serving(drain_timeout=LIMIT))
        second, _ = await stack.enter_async_context(serving())
        assert first.grpc_port is not None
        assert second.grpc_port is not None
        balancer = stack.enter_context(Balancer(first.grpc_port))
        # Otherwise all channels of a process share one connection.
        own = [("grpc.use_local_subchannel_pool", 1)]
        target = f"127.0.0.1:{balancer.port}"
        channels = [grpc.aio.insecure_channel(target, own) for _ in range(20)]
        for channel in channels:
            await stack.enter_async_context(channel)
        stubs: list[Any] = [*map(a2a_pb2_grpc.A2AServiceStub, channels)]
        for number, stub in enumerate(stubs):
            await stub.SendMessage(sending("hi", f"first {number}"))
        assert balancer.opened == 20
        stream = stubs[0].SendStreamingMessage(sending("wait"))
        await stream.read()
        await asyncio.wait_for(doors.reached.wait(), LIMIT)
        balancer.send_to(second.grpc_port)
        drain = asyncio.ensure_future(first.drain())
        for channel in channels:
            await told_to_connect_anew(channel)
        for number, stub in enumerate(stubs):
            found = await stub.SendMessage(sending("next", f"next {number}"))
            assert found.task.status.state == pb.TASK_STATE_COMPLETED
        assert balancer.opened == 40
        doors.go.set()
        [*_, last] = await rest_of(stream)
        assert last.status_update.status.state == pb.TASK_STATE_COMPLETED
        await drain


@aio
async def test_a_connection_to_a_draining_server_is_short() -> None:
    async with serving(drain_timeout=LIMIT) as (app, doors), stub_of(app) as stub:
        stream = stub.SendStreamingMessage(sending("wait"))
        task_id = (await stream.read()).task.id
        drain = asyncio.ensure_future(app.drain())
        await until(lambda: runtime_of(app).closing)
        async with channel_to(app, **{"grpc.use_local_subchannel_pool": 1}) as channel:
            late = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            await late.GetTask(pb.GetTaskRequest(id=task_id), wait_for_ready=True)
            assert channel.get_state() is READY
            await told_to_connect_anew(channel)
        doors.go.set()
        await rest_of(stream)
        await drain


@aio
async def test_an_address_that_is_taken_during_a_drain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def in_use(*_: object, **__: object) -> None:
        raise OSError("the gRPC server cannot listen here")

    async with serving(drain_timeout=LIMIT) as (app, doors), stub_of(app) as stub:
        stream = stub.SendStreamingMessage(sending("wait"))
        await stream.read()
        monkeypatch.setattr("coreason_client.server.a2a._grpc_server.check_free", in_use)
        monkeypatch.setattr("coreason_client.server.a2a._grpc_server._FREE_WITHIN", 0.0)
        drain = asyncio.ensure_future(app.drain())
        await until(lambda: "during the drain: the gRPC server cannot" in caplog.text)
        doors.go.set()
        [*_, last] = await rest_of(stream)
        assert last.status_update.status.state == pb.TASK_STATE_COMPLETED
        await drain


@aio
async def test_a_reader_that_is_behind_gets_everything_after_the_drain() -> None:
    async with serving(drain_timeout=LIMIT) as (app, _), stub_of(app) as stub:
        stream = stub.SendStreamingMessage(sending("much"))
        await stream.read()
        await app.drain()
        events = await rest_of(stream)
        assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
        texts = [part.text for e in events for part in e.artifact_update.artifact.parts]
        assert sum(map(len, texts)) == 200 * 50_000


@aio
async def test_a_drain_ends_agents_that_do_not_end() -> None:
    async with serving(drain_timeout=0.0) as (app, doors), stub_of(app) as stub:
        stream = stub.SendStreamingMessage(sending("wait"))
        await stream.read()
        await asyncio.wait_for(doors.reached.wait(), LIMIT)
        await app.drain()
        assert (await rest_of(stream))[-1].status_update.status.state == pb.TASK_STATE_FAILED


@aio
async def test_a_subscription_to_a_task_that_waits_for_input_ends_with_the_drain() -> None:
    async with serving(heartbeat=0.5) as (app, _), stub_of(app) as stub:
        task = (await stub.SendMessage(sending("ask"))).task
        waiting = stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))
        assert (await waiting.read()).task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        reading = asyncio.ensure_future(rest_of(waiting))
        await app.drain()
        found = await refused(reading)
        assert (found.code(), found.details()) == (UNAVAILABLE, "The server is shutting down.")


@aio
async def test_calls_that_do_not_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = asyncio.Event()

    async def wait(*_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Operations, "call", wait)
    monkeypatch.setattr("coreason_client.server.a2a._grpc_server._END_CALLS", 0.01)
    async with AsyncExitStack() as stack:  # the client must outlive the server
        async with serving() as (app, _):
            stub = await stack.enter_async_context(stub_of(app))
            hanging = asyncio.ensure_future(refused(stub.GetTask(pb.GetTaskRequest(id="t"))))
            await asyncio.wait_for(reached.wait(), LIMIT)
        found = await asyncio.wait_for(hanging, LIMIT)
        assert (found.code(), found.details()) == (UNAVAILABLE, "The server is shutting down.")


@pytest.mark.parametrize("log", [MemoryStreamLog, Shared])
@aio
async def test_the_port_is_closed_at_the_end(log: type[MemoryStreamLog]) -> None:
    async with serving(log=log()) as (app, _):
        port = app.grpc_port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port), LIMIT):
            pass
    assert app.grpc_port is None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), LIMIT)


@aio
async def test_the_lifespan_can_begin_again() -> None:
    app = AgentApp(make_agent(Doors()), a2a=A2A(grpc_address="127.0.0.1:0"))
    for number in range(2):
        async with app.lifespan(), stub_of(app) as stub:
            answered = await stub.SendMessage(sending("hi", f"m{number}"))
            assert answered.task.status.state == pb.TASK_STATE_COMPLETED
