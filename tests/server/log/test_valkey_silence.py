"""Time and the store: a silent store is noticed, and a process that was held up blames nobody."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from uuid import uuid4

import httpx2
import pytest
from redis.crc import key_slot

from coreason_client import CAPClient
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import NewStream, ValkeyStreamLog
from tests.preloaded import run_preloaded

from ..aio import aio, turns
from .valkey_logs import everything, logs, new, until
from .valkey_server import ValkeyServer, fresh_prefix, shared_cluster, shared_server

# Of the logs here: a freeze has to be longer, and a store on a busy machine faster.
PATIENCE = 1.0
FREEZE = 2.0


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A server that a test may harm."""
    with ValkeyServer() as server:
        yield server


class Proxy:
    """Passes bytes on to the shared server; slowly, or not at all, if a test wants it."""

    def __init__(self) -> None:
        self.delay = 0.0  # seconds for each piece of an answer
        self.mute = False  # new and old connections swallow everything
        self.connections = 0
        self.port = 0
        self._muted: set[int] = set()

    def mute_old_connections(self) -> None:
        """Let the connections of now swallow everything, and new ones work."""
        self._muted = set(range(self.connections + 1))

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        there = await asyncio.open_connection("127.0.0.1", shared_server().port)
        await asyncio.gather(
            self._pump(number, reader, there[1], slow=False),
            self._pump(number, there[0], writer, slow=True),
        )

    async def _pump(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        slow: bool,
    ) -> None:
        with closing(writer), suppress(OSError):
            while data := await reader.read(65536):
                if slow and self.delay:
                    await asyncio.sleep(self.delay)
                if not self.mute and number not in self._muted:
                    writer.write(data)


@asynccontextmanager
async def proxied() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = int(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        await until(lambda: len(asyncio.all_tasks()) <= 2)  # of this test and of its limit


@asynccontextmanager
async def log_behind(proxy: Proxy, patience: float = PATIENCE) -> AsyncIterator[ValkeyStreamLog]:
    log = ValkeyStreamLog(proxy.url, prefix=fresh_prefix(), patience=patience)
    await log.start("me")
    try:
        yield log
    finally:
        await log.stop("me")


# A process that was held up.


@aio
async def test_a_blocked_event_loop_does_not_cut_what_is_under_way() -> None:
    async with logs(patience=PATIENCE) as (log,):
        streams = [new() for _ in range(200)]
        await asyncio.gather(*(log.open(stream, "me") for stream in streams))
        under_way = [
            asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"])) for stream in streams
        ]
        reading = [asyncio.ensure_future(log.meta(stream.stream_id)) for stream in streams]
        await turns(2)
        time.sleep(FREEZE)  # noqa: ASYNC251 - what a careless agent does
        await asyncio.gather(*under_way)
        await asyncio.gather(*reading)


@aio
async def test_an_event_loop_that_is_always_late_does_not_cut_what_is_under_way() -> None:
    async with logs(patience=0.5) as (log,):
        loop = asyncio.get_running_loop()
        stream = new()
        await log.open(stream, "me")
        done = False

        def hold_up() -> None:
            time.sleep(0.05)
            if not done:
                loop.call_soon(hold_up)

        hold_up()
        for number in range(1, 11):  # each waits for several turns, of 50 ms each
            await log.append(stream.stream_id, 1, number, [b"x"])
        done = True
        assert len(await everything(log, stream.stream_id)) == 10


PROGRAM = """
import asyncio, sys, time
from uuid import uuid4
from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log import NewStream

async def main():
    log = ValkeyStreamLog({url!r}, prefix={prefix!r}, patience={patience})
    await log.start("me")
    streams = [NewStream(uuid4(), "p", uuid4(), "f") for _ in range(50)]
    await asyncio.gather(*(log.open(stream, "me") for stream in streams))
    number, last, longest = 0, time.monotonic(), 0.0
    while longest < {freeze}:
        number += 1
        await asyncio.gather(*(log.append(s.stream_id, 1, number, [b"x"]) for s in streams))
        if number == 1:
            print("ready", flush=True)
        now = time.monotonic()
        longest, last = now - last, now
    print("frozen", flush=True)
    await log.append(streams[0].stream_id, 1, number + 1, [b"y"])
    await log.stop("me")

asyncio.run(main())
"""


def test_a_frozen_process_does_not_cut_what_is_under_way() -> None:
    program = PROGRAM.format(
        url=shared_server().url, prefix=fresh_prefix(), patience=PATIENCE, freeze=FREEZE / 2
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(FREEZE)  # for as long as it is frozen
            os.kill(process.pid, signal.SIGCONT)
            out, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, b"frozen\n", b"")


# A slow store.


@aio
async def test_thousands_of_queued_commands_on_a_slow_store_are_not_cut() -> None:
    async with proxied() as proxy, log_behind(proxy, 0.6) as log:
        stream = new()
        await log.open(stream, "me")
        proxy.delay = 0.05  # for a batch of 128
        start = time.monotonic()
        await asyncio.gather(*(log.request_cancel(stream.stream_id) for _ in range(3000)))
        assert time.monotonic() - start > 0.6  # the last ones waited for longer than the patience


@aio
async def test_a_long_reply_that_comes_slowly_is_not_cut() -> None:
    async with proxied() as proxy, log_behind(proxy, 0.8) as log:
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"x" * 1_000_000])
        proxy.delay = 0.06  # for each 64 KB, so a second for all
        assert [len(entry) for entry in await everything(log, stream.stream_id)] == [1_000_000]


# A silent store.


@aio
async def test_a_silent_store_is_told_to_all_who_wait_within_a_bound(
    own_server: ValkeyServer,
) -> None:
    async with logs(1, own_server, patience=PATIENCE) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.pause()
        start = time.monotonic()
        results = await asyncio.gather(
            *(log.request_cancel(stream.stream_id) for _ in range(3000)), return_exceptions=True
        )
        assert time.monotonic() - start < 10  # many batches of 128, and one patience
        assert {type(result) for result in results} == {LogUnavailable}
        sentences = {str(result) for result in results}
        assert all("did not answer for 1 s" in sentence for sentence in sentences)
        assert any("was still in the queue and was not sent" in s for s in sentences)
        own_server.go_on()
        await log.request_cancel(stream.stream_id)


def test_a_server_stays_ready_while_its_store_stalls(own_server: ValkeyServer) -> None:
    """For five seconds, with the defaults: all replicas share it, and would fail together."""

    async def count(_: ServiceRequest, stream: AgentStream) -> None:
        for number in range(12):
            await stream.write(f"{number} ")
            await asyncio.sleep(0.5)

    app = AgentApp(count, log=ValkeyStreamLog(own_server.url, prefix=fresh_prefix()))
    with running(app) as server, CAPClient(server.url, "key") as client:
        stream = client.chat("count")
        words = [next(stream)]
        own_server.pause()
        try:
            states = [httpx2.get(f"{server.url}/ready").status_code]
            for _ in range(10):
                time.sleep(0.5)
                states.append(httpx2.get(f"{server.url}/ready").status_code)
        finally:
            own_server.go_on()
        assert states == [200] * 11
        assert "".join([*words, *stream]) == "".join(f"{number} " for number in range(12))


@aio
async def test_a_connection_that_died_silently_is_replaced_in_time() -> None:
    async with proxied() as proxy, log_behind(proxy, 2.0) as log:
        stream = new()
        await log.open(stream, "me")
        before = proxy.connections
        proxy.mute_old_connections()
        await log.append(stream.stream_id, 1, 1, [b"x"])
        assert await everything(log, stream.stream_id) == [b"x"]
        assert proxy.connections > before


@aio
async def test_a_store_that_only_accepts_connections_is_told_within_a_bound() -> None:
    async with proxied() as proxy, log_behind(proxy) as log:
        proxy.mute = True
        with pytest.raises(LogUnavailable, match=r"did not answer for 1 s"):
            await log.meta(uuid4())
        proxy.mute = False
        with pytest.raises(LogUnavailable, match="has not been started"):
            await ValkeyStreamLog(proxy.url).meta(uuid4())


@aio
async def test_a_store_that_does_not_answer_the_greeting_is_told_within_a_bound() -> None:
    async with proxied() as proxy:
        proxy.mute = True
        url = proxy.url.replace("://", "://:password@")
        with pytest.raises(LogUnavailable, match=r"did not answer for 1 s: timeout connecting"):
            await ValkeyStreamLog(url, patience=PATIENCE).start("me")


@aio
async def test_a_silent_node_of_a_cluster_is_told_and_the_others_go_on() -> None:
    cluster = shared_cluster()
    async with logs(1, cluster.nodes[0], cluster=True, patience=PATIENCE) as (log,):
        streams = [new() for _ in range(30)]
        for stream in streams:
            await log.open(stream, "me")
        by_node = [slot_of(stream) * 3 // 16_384 for stream in streams]
        silent, other = by_node.index(2), by_node.index(0)
        cluster.nodes[2].pause()
        start = time.monotonic()
        try:
            with pytest.raises(LogUnavailable, match=r"did not answer for 1 s"):
                await log.append(streams[silent].stream_id, 1, 1, [b"x"])
            await log.append(streams[other].stream_id, 1, 1, [b"x"])
        finally:
            cluster.nodes[2].go_on()
        assert time.monotonic() - start < 10
        await log.append(streams[silent].stream_id, 1, 1, [b"x"])
        assert await everything(log, streams[silent].stream_id) == [b"x"]


def slot_of(stream: NewStream) -> int:
    return int(key_slot(stream.stream_id.hex.encode()))


@aio
async def test_a_silent_store_and_a_blocked_process_are_told_apart(
    own_server: ValkeyServer,
) -> None:
    async with logs(1, own_server, patience=PATIENCE) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.pause()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"]))
        await turns()
        time.sleep(FREEZE)  # noqa: ASYNC251 - what a careless agent does
        with pytest.raises(LogUnavailable) as caught:
            await appending
        own_server.go_on()
    sentence = str(caught.value)
    assert "did not answer for 1 s" in sentence
    [blocked] = re.findall(r"this process itself was blocked for another (\S+) s", sentence)
    assert float(blocked) >= 1.0  # and more where the machine is short of CPU


@aio
async def test_a_store_that_refuses_for_too_long_is_told_as_that(own_server: ValkeyServer) -> None:
    async with logs(1, own_server, patience=PATIENCE) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(LogUnavailable, match=r"is a read-only replica and did not become"):
            await log.append(stream.stream_id, 1, 1, [b"x"])


@aio
async def test_something_that_is_no_store_is_told_at_once() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(LogUnavailable, match=r"rejected the command: .*"):
        await ValkeyStreamLog(f"redis://127.0.0.1:{port}").start("me")
    server.close()
    await until(lambda: len(asyncio.all_tasks()) <= 2)


# Connections.


@aio
async def test_another_database_is_another_store(own_server: ValkeyServer) -> None:
    prefix = fresh_prefix()
    log = ValkeyStreamLog(own_server.url.replace("/0", "/3"), prefix=prefix)
    await log.start("me")
    stream = new()
    await log.open(stream, "me")
    await log.stop("me")
    assert "db3" in own_server.command("INFO", "keyspace")
    async with logs(1, own_server, prefix=prefix) as (other,):
        assert await other.find("ann", stream.request_id) is None


FORK = """
import asyncio, os, sys
from uuid import uuid4
from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log import NewStream

log = ValkeyStreamLog({url!r}, prefix={prefix!r})
streams = [NewStream(uuid4(), "p", uuid4(), "f") for _ in "ab"]

async def write(stream, numbers):
    for number in numbers:
        await log.append(stream.stream_id, 1, number, [b"%d" % number])

async def child():
    await log.start("child")
    print(len(log._sessions), "session", flush=True)
    log.wake_readers()
    await log.open(streams[1], "child")
    await write(streams[1], range(1, 200))
    await log.stop("child")

async def parent():
    await log.start("parent")
    await log.open(streams[0], "parent")
    await write(streams[0], range(1, 100))
    pid = os.fork()
    if pid == 0:
        return 0
    await write(streams[0], range(100, 400))
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        await asyncio.sleep(0.01)
    for stream in streams:
        print((await log.meta(stream.stream_id)).last_seq, flush=True)
    await log.stop("parent")
    return pid

loop = asyncio.new_event_loop()
if loop.run_until_complete(parent()) == 0:
    try:
        asyncio.run(child())
    except BaseException as error:
        print("child:", repr(error), flush=True)
    os._exit(0)
"""


def test_a_fork_uses_connections_of_its_own() -> None:
    program = FORK.format(url=shared_server().url, prefix=fresh_prefix())
    done = run_preloaded(["-c", program], timeout=30, libraries=("redis.asyncio",))
    assert done.stdout.splitlines() == ["1 session", "399", "199"], done.stderr
