"""A gRPC server that does what a test says, and the SDK's server in a thread of this process."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, Self

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.types import a2a_pb2, a2a_pb2_grpc

from tests.a2a.peer.server import make_handler

HOST: Final = "127.0.0.1"
LIMIT: Final = 20.0
Behaviour = Callable[[Any, Any], Any]
add_servicer: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
add_old_servicer: Any = a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server


class Servicer:
    """Answers each method with the function of its name; others are not implemented."""

    def __init__(self, behaviours: dict[str, Behaviour]) -> None:
        self._behaviours = behaviours

    def __getattr__(self, name: str) -> Behaviour:
        return self._behaviours.get(name, not_implemented)


def not_implemented(request: Any, context: Any) -> Any:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")


@contextmanager
def scripted(
    *, port: int = 0, credentials: Any = None, old: bool = False, **behaviours: Behaviour
) -> Iterator[tuple[str, Any]]:
    """Run a server with these methods, of 1.0 or of 0.3; give its address and the server."""
    with ThreadPoolExecutor(8) as threads:
        server = grpc.server(threads)
        add = add_old_servicer if old else add_servicer
        add(Servicer(behaviours), server)
        address = f"{HOST}:{port}"
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
        server.start()
        try:
            yield f"{HOST}:{port}", server
        finally:
            server.stop(0).wait(LIMIT)


def text(words: str) -> Any:
    """Return the answer to a message: a message with a text."""
    parts = [a2a_pb2.Part(text=words)]
    message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_AGENT, parts=parts)
    return a2a_pb2.SendMessageResponse(message=message)


def working(task_id: str = "t") -> Any:
    """Return the first event of a task."""
    status = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_WORKING)
    return a2a_pb2.StreamResponse(task=a2a_pb2.Task(id=task_id, context_id="c", status=status))


class SdkServer:
    """The SDK's handler on an event loop in a thread; its gRPC server can be restarted."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: Any = None
        self._handler: Any = self._run(self._make_handler())
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Listen, at the same port as before."""
        self._run(self._start())

    def stop(self) -> None:
        """Break all calls and close the port; tasks go on."""
        if self._server is not None:
            self._run(self._server.stop(0))
            self._server = None

    async def _make_handler(self) -> Any:
        return make_handler(able=True)

    async def _start(self) -> None:
        self._server = grpc.aio.server()
        add_servicer(GrpcHandler(self._handler), self._server)
        self.port = self._server.add_insecure_port(self.address)
        await self._server.start()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT)
