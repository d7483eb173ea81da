"""An application that serves gRPC on the event loop of a test, and the clients of a2a-sdk."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc

from coreason_client.a2a.errors import A2AJSONRPCError, VersionNotSupportedError
from coreason_client.server import AgentApp, AgentStream, ServiceRequest
from coreason_client.server.a2a import A2A
from coreason_client.server.a2a._error_formats import status_of

from ..aio import LIMIT

V10 = (("a2a-version", "1.0"),)


def expected_code(error: A2AJSONRPCError) -> str:
    """Return the code of the table of specification 1.0.1, with the one exception."""
    if isinstance(error, VersionNotSupportedError):
        return "UNIMPLEMENTED"  # as in specification 1.0.0, which the conformance kit tests
    return status_of(error).grpc


class Doors:
    """The events that an agent waits for and sets, on the event loop of a test."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.reached = asyncio.Event()
        self.done = asyncio.Event()


def make_agent(doors: Doors) -> Callable[[ServiceRequest, AgentStream], Awaitable[None]]:
    """Return an agent that does what the question says."""

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        """Answers questions."""
        match stream.question:
            case "ask":
                await stream.ask("Where?")
            case "message":
                await stream.message("just this")
            case "wait":
                await stream.write("a")
                doors.reached.set()
                await doors.go.wait()
                await stream.write("b")
                doors.done.set()
            case "much":
                for _ in range(200):
                    await stream.write("x" * 50_000)
                doors.done.set()
            case question:
                await stream.write("You said ")
                await stream.write(f"{question}.")

    return agent


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[AgentApp, Doors]]:
    """Run an application with gRPC, without HTTP; `a2a` may have more settings."""
    doors = Doors()
    settings = {"grpc_address": "127.0.0.1:0", **options.pop("a2a", {})}
    options.setdefault("drain_timeout", 0.0)
    app = AgentApp(make_agent(doors), a2a=A2A(**settings), **options)
    async with asyncio.timeout(LIMIT), app.lifespan():
        yield app, doors


@asynccontextmanager
async def channel_to(app: AgentApp, **options: Any) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{app.grpc_port}", options=[*options.items()]
    ) as channel:
        yield channel


@asynccontextmanager
async def stub_of(app: AgentApp, *, old: bool = False) -> AsyncIterator[Any]:
    """Connect with the code that the proto files of a2a-sdk give."""
    module = a2a_v0_3_pb2_grpc if old else a2a_pb2_grpc
    async with channel_to(app) as channel:
        yield module.A2AServiceStub(channel)


def message(text: str, message_id: str = "m", **fields: Any) -> pb.Message:
    parts = [pb.Part(text=text)]
    return pb.Message(message_id=message_id, role=pb.ROLE_USER, parts=parts, **fields)


def sending(text: str, message_id: str = "m", **fields: Any) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=message(text, message_id, **fields))


def bearer(key: str) -> tuple[tuple[str, str], ...]:
    return (*V10, ("authorization", f"Bearer {key}"))


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Return the status that a call ended with."""
    try:
        found = await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"it was answered with {found}")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen on this event loop."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.005)
