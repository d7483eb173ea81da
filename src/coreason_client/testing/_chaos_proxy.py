"""`ChaosProxy`: a TCP proxy on loopback that disturbs connections by a plan with a seed."""

import asyncio
import random
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from ..errors import ArgumentError
from ._chaos_pipe import Pipe, Streams, reset
from ._chaos_plan import ALL_FAULTS, ChaosPlan, ConnectionPlan, FixedPlan
from ._loopback import loopback_socket

__all__ = ["ChaosProxy"]

_HOST: Final = "127.0.0.1"
_CONNECT_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}


class ChaosProxy:
    """A proxy that cuts, resets, delays, splits and stalls connections; a context manager.

    It passes on bytes and knows no protocol, so it works in front of CAP, A2A and model servers.
    Use `with` or `async with`; it has a thread of its own. If the block fails, the error gets a
    note with the seed and with what happened to each connection.

    Args:
        upstream: the URL of the server, or several, which take turns.
        seed: the number that the plan is made from; by default a new one.
        faults: the kinds of faults to use, by default all.
        plan: the plans of the connections one by one, instead of a seed; further connections stay
            whole.
        max_delay: the longest delay in seconds.
        stall: the seconds of silence of a stall, before the connection is cut.

    Raises:
        ArgumentError: an argument has an invalid value.
    """

    def __init__(
        self,
        upstream: str | Sequence[str],
        *,
        seed: int | None = None,
        faults: Collection[str] = ALL_FAULTS,
        plan: Sequence[ConnectionPlan] | None = None,
        max_delay: float = 0.05,
        stall: float = 0.5,
    ) -> None:
        if seed is not None and plan is not None:
            raise ArgumentError("seed", "must not be combined with `plan`", seed)
        self.route_to(*([upstream] if isinstance(upstream, str) else upstream))
        self.seed = random.SystemRandom().randrange(10**6) if seed is None else seed
        self._plan = ChaosPlan(self.seed, faults, max_delay) if plan is None else FixedPlan(plan)
        self._has_seed = plan is None
        self._stall = stall
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._made: list[tuple[ConnectionPlan, Pipe | None]] = []
        self._open: dict[int, Pipe] = {}  # by the number of the connection, in order
        self._draw = random.Random(self.seed)
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    def __repr__(self) -> str:
        return f"<ChaosProxy seed={self.seed}: {self.connections} connections>"

    @property
    def url(self) -> str:
        """The URL for a client: that of the first upstream, with the port of the proxy.

        Raises:
            RuntimeError: the proxy is not running.
        """
        if self._listener is None:
            raise RuntimeError("the proxy is not running: use `with ChaosProxy(…) as proxy:`")
        port = self._listener.getsockname()[1]
        return self._upstreams[0]._replace(netloc=f"{_HOST}:{port}").geturl()

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        with self._lock:
            return len(self._made)

    @property
    def faults(self) -> int:
        """The number of connections that were cut, reset or stalled so far."""
        with self._lock:
            return sum(pipe is not None and pipe.happened is not None for _, pipe in self._made)

    def plan(self, connections: int = 10) -> str:
        """Return the plan of the first connections, a line for each."""
        numbers = range(1, connections + 1)
        return "\n".join(f"connection {n}: {self._plan.connection(n)}" for n in numbers)

    def report(self) -> str:
        """Return the seed, and what happened to each connection so far."""
        how = f"seed={self.seed}" if self._has_seed else "plan=[…]"
        with self._lock:
            lines = [_line(n, *made) for n, made in enumerate(self._made, 1)]
        noun = "connection" if len(lines) == 1 else "connections"
        return "\n  ".join([f"ChaosProxy({how}) had {len(lines)} {noun}:", *lines])

    def route_to(self, *upstreams: str) -> None:
        """Pass new connections to these servers from now on, such as one that was started again.

        Raises:
            ArgumentError: there is no URL, or one is invalid.
        """
        if not upstreams:
            raise ArgumentError("upstream", "must have at least one URL")
        self._upstreams = [_upstream(url) for url in upstreams]

    def cut_one(self) -> bool:
        """Cut or reset an open connection, chosen by the seed; return False if there is none.

        It happens at once, or in the middle of the bytes that the server sends next.
        """
        with self._lock:
            pipes = [self._open[number] for number in sorted(self._open)]
            if not pipes:
                return False
            pipe, how = self._draw.choice(pipes), self._draw.choice(("cut", "reset"))
            share = self._draw.choice((None, self._draw.random()))
        self._loop.call_soon_threadsafe(pipe.cut, how, share)
        return True

    def __enter__(self) -> Self:
        """Listen on a free port."""
        if self._listener is not None:
            raise RuntimeError("the proxy is already running")
        self._listener = loopback_socket()
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._main, args=(ready,), name="chaos-proxy", daemon=True
        )
        self._thread.start()
        if not ready.wait(_STOP_SECONDS):
            raise RuntimeError(f"the proxy did not start within {_STOP_SECONDS:g} s")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections; a failed block gets the report as a note."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_STOP_SECONDS)
        self._thread = self._listener = None
        if error is not None:
            error.add_note(self.report())

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        return self.__enter__()  # starting a thread takes no time

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections; a failed block gets the report as a note."""
        self.__exit__(kind, error, trace)

    # The thread.

    def _main(self, ready: threading.Event) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A coroutine function here would be reported as an error when it is cancelled.
            task = self._loop.create_task(self._connection((reader, writer)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, sock=self._listener)
        ready.set()
        await self._stop.wait()
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets

    async def _connection(self, client: Streams) -> None:
        with self._lock:
            number = len(self._made) + 1
            plan = self._plan.connection(number)
            self._made.append((plan, None))
        try:
            server = await self._connect(number)
            if server is None:
                reset(client[1])
                return
            pipe = Pipe(client, server, plan, self._stall)
            with self._lock:
                self._made[number - 1] = (plan, pipe)
                self._open[number] = pipe
            await pipe.run()
        finally:
            with self._lock:
                self._open.pop(number, None)
            client[1].close()

    async def _connect(self, number: int) -> Streams | None:
        """Connect to the next upstream that accepts a connection."""
        upstreams = self._upstreams
        for turn in range(len(upstreams)):
            url = upstreams[(number - 1 + turn) % len(upstreams)]
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    port = url.port or _PORTS[url.scheme]
                    return await asyncio.open_connection(url.hostname, port)
        return None


def _upstream(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ArgumentError("upstream", "must be a URL such as http://127.0.0.1:8000", url)
    return parts


def _line(number: int, plan: ConnectionPlan, pipe: Pipe | None) -> str:
    if pipe is None:
        happened = "reset, because no upstream accepts connections"
    elif pipe.happened is None:
        happened = f"{pipe.received} bytes, no fault"
    else:
        happened = f"{pipe.happened} after {pipe.received} bytes"
    return f"connection {number}: {happened} (planned: {plan})"
