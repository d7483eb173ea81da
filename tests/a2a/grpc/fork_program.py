"""A program that uses gRPC and forks; run as `python -m tests.a2a.grpc.fork_program KIND ADDRESS`.

It prints what the parent and the child got, one line each.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from coreason_client.a2a import (
    A2AClient,
    A2AError,
    AsyncA2AClient,
    AsyncGrpcTransport,
    GrpcTransport,
)

LIMIT = 15


class Sync:
    def __init__(self, address: str) -> None:
        self._client = A2AClient.with_transport(GrpcTransport(address, max_retries=0))
        self._stream: Any = self._client.send_message_stream("hi")
        next(self._stream)

    def ask(self) -> str:
        answer: Any = self._client.send_message("hi")
        return str(answer.text)

    def read_on(self) -> None:
        next(self._stream)

    def close(self) -> None:
        self._stream.close()
        self._client.close()


class Async:
    def __init__(self, address: str) -> None:
        transport = AsyncGrpcTransport(address, max_retries=0)
        self._client = AsyncA2AClient.with_transport(transport)
        self._loop = asyncio.new_event_loop()

    def ask(self) -> str:
        answer: Any = self._loop.run_until_complete(self._client.send_message("hi"))
        return str(answer.text)

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


def tried(act: Any) -> str:
    try:
        return str(act())
    except A2AError as error:
        return str(error).rpartition(": ")[2]


def main(kind: str, address: str) -> None:
    user: Any = {"sync": Sync, "async": Async}[kind](address)
    print("parent", tried(user.ask), flush=True)
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)  # a child that hangs is ended
        if kind == "async":
            user._loop = asyncio.new_event_loop()
        else:
            print("child stream", tried(user.read_on), flush=True)
        print("child", tried(user.ask), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("status", status, flush=True)
    print("parent", tried(user.ask), flush=True)
    user.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
