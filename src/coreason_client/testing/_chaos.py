"""`ChaosProxy`: a TCP proxy on loopback that disturbs connections by a plan with a seed.

A plan says what happens to each connection; a pipe is one connection through the proxy.
"""

import asyncio
import random
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args
from urllib.parse import SplitResult, urlsplit

from ..errors import ArgumentError
from ._loopback import ServerThread, reset

ChaosFault: TypeAlias = Literal["cut", "delay", "reset", "split", "stall"]

ALL_FAULTS: Final[tuple[ChaosFault, ...]] = get_args(ChaosFault)

# A client that retries three times gets through: no more than two connections in a row fail.
_WHOLE_EVERY: Final = 3
_AFTER: Final = (5, 12)  # exponents of 2: faults occur after 32 to 4,096 bytes
_MAX_PIECE: Final = 16


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """The plan of one connection; `str()` describes it.

    Attributes:
        fault: how the connection ends: "cut" (FIN), "reset" (RST), "stall" (silence, then FIN), or
            None if it stays whole.
        after: the bytes from the server after which that happens.
        pieces: the largest size of the pieces in which the first bytes are sent; 0 does not split.
        delay: the seconds before the first byte from the server is sent.
    """

    fault: Literal["cut", "reset", "stall"] | None = None
    after: int = 0
    pieces: int = 0
    delay: float = 0.0

    def __str__(self) -> str:
        words = [f"{self.fault} after {self.after} bytes" if self.fault else "whole"]
        if self.pieces:
            words.append(f"in pieces of {self.pieces} bytes")
        if self.delay:
            words.append(f"delayed by {self.delay:.3f} s")
        return ", ".join(words)


class ChaosPlan:
    """The plans of all connections: the same for the same arguments.

    The plan of a connection depends on its number alone, not on the connections before it.
    """

    def __init__(
        self, seed: int, faults: Collection[str] = ALL_FAULTS, max_delay: float = 0.05
    ) -> None:
        if unknown := sorted(set(faults) - set(ALL_FAULTS)):
            raise ArgumentError("faults", f"must be of {', '.join(ALL_FAULTS)}", unknown[0])
        self.seed = seed
        self._endings = [name for name in ("cut", "reset", "stall") if name in faults]
        self._splits = "split" in faults
        self._max_delay = max_delay if "delay" in faults else 0.0

    def connection(self, number: int) -> ConnectionPlan:
        """Return the plan of a connection, counted from 1."""
        draw = random.Random(f"{self.seed}:{number}")
        # All numbers are drawn in any case, so that `faults` changes nothing else of a plan.
        ending, after = draw.random(), int(2 ** draw.uniform(*_AFTER))
        split, piece = draw.random(), draw.randint(1, _MAX_PIECE)
        late, delay = draw.random(), round(draw.random() * self._max_delay, 3)
        fails = self._endings and number % _WHOLE_EVERY != 0
        return ConnectionPlan(
            fault=self._endings[int(ending * len(self._endings))] if fails else None,  # type: ignore[arg-type]
            after=after if fails else 0,
            pieces=piece if self._splits and split < 0.5 else 0,
            delay=delay if late < 0.3 else 0.0,
        )


class FixedPlan:
    """Plans that were given one by one; connections after the last one stay whole."""

    def __init__(self, plans: Sequence[ConnectionPlan]) -> None:
        self._plans = tuple(plans)

    def connection(self, number: int) -> ConnectionPlan:
        """Return the plan of a connection, counted from 1."""
        return self._plans[number - 1] if number <= len(self._plans) else ConnectionPlan()


# The proxy

_CONNECT_SECONDS: Final = 5.0
_PORTS: Final = {"http": 80, "https": 443}


class ChaosProxy:
    """A proxy that cuts, resets, delays, splits and stalls connections; a context manager.

    It passes on bytes and knows no protocol, so it works in front of CAP, A2A and model servers.
    Use `with` or `async with`; it has its own thread. If the block fails, the error gets a
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
        self._thread: ServerThread | None = None
        self._lock = threading.Lock()
        self._made: list[tuple[ConnectionPlan, Pipe | None]] = []
        self._open: dict[int, Pipe] = {}  # by the number of the connection, in order
        self._draw = random.Random(self.seed)

    def __repr__(self) -> str:
        return f"<ChaosProxy seed={self.seed}: {self.connections} connections>"

    @property
    def url(self) -> str:
        """The URL for a client: that of the first upstream, with the port of the proxy.

        Raises:
            RuntimeError: the proxy is not running.
        """
        if self._thread is None:
            raise RuntimeError("the proxy is not running: use `with ChaosProxy(…) as proxy:`")
        return self._upstreams[0]._replace(netloc=urlsplit(self._thread.url).netloc).geturl()

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
            if not pipes or self._thread is None:
                return False
            pipe, how = self._draw.choice(pipes), self._draw.choice(("cut", "reset"))
            share = self._draw.choice((None, self._draw.random()))
        self._thread.loop.call_soon_threadsafe(pipe.cut, how, share)
        return True

    def __enter__(self) -> Self:
        """Listen on a free port."""
        if self._thread is not None:
            raise RuntimeError("the proxy is already running")
        self._thread = ServerThread("chaos-proxy", self._connection)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close all connections; a failed block gets the report as a note."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
        if error is not None:
            error.add_note(self.report())

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        return self.__enter__()  # starting a thread takes no time

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close all connections; a failed block gets the report as a note."""
        self.__exit__(kind, error, trace)

    # The thread.

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._lock:
            number = len(self._made) + 1
            plan = self._plan.connection(number)
            self._made.append((plan, None))
        try:
            server = await self._connect(number)
            if server is None:
                reset(writer)
                return
            pipe = Pipe((reader, writer), server, plan, self._stall)
            with self._lock:
                self._made[number - 1] = (plan, pipe)
                self._open[number] = pipe
            await pipe.run()
        finally:
            with self._lock:
                self._open.pop(number, None)

    async def _connect(self, number: int) -> "Streams | None":
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


def _line(number: int, plan: ConnectionPlan, pipe: "Pipe | None") -> str:
    if pipe is None:
        happened = "reset, because no upstream accepts connections"
    elif pipe.happened is None:
        happened = f"{pipe.received} bytes, no fault"
    else:
        happened = f"{pipe.happened} after {pipe.received} bytes"
    return f"connection {number}: {happened} (planned: {plan})"


# A connection

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK: Final = 65536
_SPLIT_BYTES: Final = 4096  # of a connection; the rest would only take time


class Pipe:
    """The connection of a client, and the one to the server behind it.

    Attributes:
        received: the bytes that were passed on from the server.
        happened: the fault that has occurred, None while there is none.
    """

    def __init__(
        self, client: Streams, server: Streams, plan: ConnectionPlan, stall_seconds: float
    ) -> None:
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._plan = plan
        self._stall_seconds = stall_seconds
        self._next_cut: tuple[str, float] | None = None
        self.received = 0
        self.happened: str | None = None

    async def run(self) -> None:
        """Pass bytes on until one side ends or the fault occurs."""
        tasks = {asyncio.ensure_future(self._up()), asyncio.ensure_future(self._down())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._close()  # before the wait, in which the end of the proxy may cancel this
            await asyncio.wait(tasks)

    def cut(self, how: str, share: float | None = None) -> None:
        """End the connection by "cut" or "reset": now, or after a share of the next bytes."""
        if share is None:
            self.happened = how
            self._close()
        else:
            self._next_cut = how, share

    async def _up(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_client.read(_CHUNK):
                self._to_server.write(chunk)
                await self._to_server.drain()

    async def _down(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_server.read(_CHUNK):
                if self._plan.delay and not self.received:
                    await asyncio.sleep(self._plan.delay)
                for piece in self._pieces(self._allowed(chunk)):
                    self.received += len(piece)
                    self._to_client.write(piece)
                    await self._to_client.drain()
                    await asyncio.sleep(0)
                if self._next_cut is not None:
                    self.happened = self._next_cut[0]
                    return
                if self._plan.fault is not None and self.received >= self._plan.after:
                    self.happened = self._plan.fault
                    if self._plan.fault == "stall":
                        await asyncio.sleep(self._stall_seconds)
                    return

    def _allowed(self, chunk: bytes) -> bytes:
        """Return the bytes that are passed on before a cut."""
        if self._next_cut is not None:
            return chunk[: int(len(chunk) * self._next_cut[1])]
        if self._plan.fault is None:
            return chunk
        return chunk[: max(self._plan.after - self.received, 0)]

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        size = self._plan.pieces
        split = min(max(_SPLIT_BYTES - self.received, 0), len(chunk)) if size else 0
        yield from (chunk[at : min(at + size, split)] for at in range(0, split, size or 1))
        if split < len(chunk):
            yield chunk[split:]

    def _close(self) -> None:
        self._to_server.transport.abort()
        if self.happened == "reset":
            reset(self._to_client)
        self._to_client.close()
