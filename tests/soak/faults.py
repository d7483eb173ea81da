"""A plan of faults that follows from a seed, and the class that carries it out."""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from coreason_client.testing import ChaosProxy

from .content import Order
from .fleet import Fleet, Replica
from .readers import client_for, read_stream
from .tally import Reading

Kind: TypeAlias = Literal["kill", "pause", "restart", "freeze"]

PAUSE = 2.0  # of the store
_DOWN = (0.2, 1.5)  # downtime of a killed replica, or of the store
_WAIT = 20.0  # seconds for an event that must happen
_STALE_PACKETS, _STALE_PAUSE = 2000, 0.1  # of a stream that runs until it is taken over
_CONTINUED_PACKETS = 400  # of a durable one, which continues then


class Store(Protocol):
    """A server on loopback that faults act on."""

    port: int

    @property
    def url(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def go_on(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and its time; the random number `dice` decides the details."""

    at: float
    kind: Kind
    dice: float


def plan(seed: int, seconds: float, numbers: Mapping[Kind, int]) -> list[Fault]:
    """Spread the faults over a time, in an order that follows from the seed."""
    dice = random.Random(seed)
    kinds = [kind for kind, number in numbers.items() for _ in range(number)]
    dice.shuffle(kinds)
    share = seconds / max(len(kinds), 1)
    return [
        Fault((turn + dice.random()) * share, kind, dice.random())
        for turn, kind in enumerate(kinds)
    ]


class Striker:
    """Carries faults out. They may overlap, but not on one process."""

    def __init__(
        self, fleet: Fleet, store: Store, proxies: Sequence[ChaosProxy], *, durable: bool = False
    ) -> None:
        self.struck: Counter[str] = Counter()
        self.stale: list[Reading] = []  # of streams that had two producers
        self._stale_packets = _CONTINUED_PACKETS if durable else _STALE_PACKETS
        self._fleet = fleet
        self._store = store
        self._proxies = proxies
        self._store_free = asyncio.Lock()
        self._do: Mapping[Kind, Callable[[float], Coroutine[Any, Any, None]]] = {
            "kill": self._kill,
            "pause": self._pause,
            "restart": self._restart,
            "freeze": self._freeze,
        }

    async def strike(self, faults: list[Fault]) -> None:
        """Carry out the plan; return when all processes run again."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                print(f"  {fault.at:5.1f} s  {fault.kind}", file=sys.stderr)
                tasks.create_task(self._do[fault.kind](fault.dice))

    async def cut(self, every: float, seconds: float, seed: int) -> None:
        """Cut connections for a time; without a limit, the last few would never complete."""
        dice = random.Random(seed)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(every * 2 * dice.random())
            for proxy in self._proxies:
                proxy.cut_one()

    async def _kill(self, dice: float) -> None:
        replica = await self._take(dice)
        replica.kill()
        self.struck["kills"] += 1
        await asyncio.sleep(_between(dice))
        await replica.start()
        replica.busy = False

    async def _freeze(self, dice: float) -> None:
        """Freeze a replica beyond its lease, so two replicas claim the same stream."""
        replica = await self._take(dice)
        order = Order(f"stale-{dice}", self._stale_packets, _STALE_PAUSE)
        async with client_for(replica.url) as client:
            reading = Reading.of(order)
            reader = asyncio.ensure_future(read_stream(client, reading))
            await until(lambda: reading.stream_id is not None)
            self.struck["freezes"] += 1
            replica.freeze()
            try:
                await self._noted("takeover", reading)
            finally:
                replica.thaw()
            await self._noted("fenced", reading)  # if it never comes, the table reports it
            replica.busy = False
            await reader
        self.stale.append(reading)

    async def _noted(self, kind: str, reading: Reading) -> None:
        words = f"{kind} {reading.stream_id} "
        await until(lambda: any(line.startswith(words) for line in self._fleet.notes()))

    async def _pause(self, dice: float) -> None:
        async with self._store_free:
            self._store.pause()
            self.struck["pauses of the store"] += 1
            try:
                await asyncio.sleep(PAUSE)
            finally:
                self._store.go_on()

    async def _restart(self, dice: float) -> None:
        async with self._store_free:
            self._store.kill()
            self.struck["restarts of the store"] += 1
            await asyncio.sleep(_between(dice))
            await asyncio.to_thread(self._store.start)

    async def _take(self, dice: float) -> Replica:
        """Return a replica that no other fault is acting on.

        One replica always stays healthy, to take streams over.
        """
        if not await until(lambda: len(self._fit()) > 1, 3 * _WAIT):
            raise TimeoutError("the replicas did not recover in time")
        fit = self._fit()
        chosen = fit[int(dice * len(fit))]
        chosen.busy = True
        return chosen

    def _fit(self) -> list[Replica]:
        return [replica for replica in self._fleet.replicas if replica.fit]


async def until(condition: Callable[[], bool], seconds: float = _WAIT) -> bool:
    """Wait for a condition; return False if it is not met in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True


def _between(dice: float) -> float:
    least, most = _DOWN
    return least + (most - least) * dice
