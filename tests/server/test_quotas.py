"""Streams and readers within their limits, and the exchanges with a store that counts them."""

import asyncio
from typing import Any

import pytest

from coreason_client.server import AgentApp, LogUnavailable
from coreason_client.server.engine._limits import Quotas, Unit
from coreason_client.server.log.quotas import QuotaStore, Reservation, quotas_of

from .aio import aio, turns
from .http.test_body import hello
from .virtual import virtual, virtual_loop


class Store(QuotaStore):
    """A store of one principal in this process; an exchange ends when the test lets it."""

    lease = 30.0

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, int]] = {}
        self.exchanges: list[tuple[Reservation, Reservation]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails = False

    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        self.exchanges.append((streams, readers))
        await self.answers.wait()
        if self.fails:
            raise LogUnavailable("no answer")
        granted = (self._grant(0, owner, streams), self._grant(1, owner, readers))
        self.held[owner] = (streams.held + granted[0], readers.held + granted[1])
        return granted

    def _grant(self, kind: int, owner: str, asked: Reservation) -> int:
        others = sum(held[kind] for name, held in self.held.items() if name != owner)
        return max(0, min(asked.wanted, asked.limit - others - asked.held))

    async def take_token(self, principal: str, per_minute: int) -> int:
        raise NotImplementedError

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        raise NotImplementedError

    def total(self) -> tuple[int, int]:
        return sum(h[0] for h in self.held.values()), sum(h[1] for h in self.held.values())


def quotas(store: QuotaStore | None, streams: int = 2, readers: int = 2) -> Quotas:
    app = AgentApp(hello, max_streams_per_key=streams, max_readers_per_key=readers)
    return Quotas(app._options, store)


def no_ending() -> None:
    """No stream has just ended."""


def test_only_some_logs_count_for_all_processes() -> None:
    assert quotas_of(AgentApp(hello).log) is None


def test_a_unit_is_released_once_unless_it_was_handed_on() -> None:
    released: list[int] = []
    unit = Unit(lambda: released.append(1))
    unit.release()
    unit.release()
    assert released == [1]
    unit = Unit(lambda: released.append(2))
    other = unit.hand_on()
    unit.release()
    assert (released, unit.held, other.held) == ([1], False, True)
    other.release()
    assert released == [1, 2]


@aio
async def test_without_a_store_the_limits_are_those_of_the_process() -> None:
    here = quotas(None)
    units = [await here.take_reader("ann") for _ in range(3)]
    assert [unit is not None for unit in units] == [True, True, False]
    assert here.readers == 2
    assert units[0] is not None
    units[0].release()
    assert await here.take_reader("ann") is not None
    await here.renew()
    await here.close()


@aio
async def test_processes_share_a_limit() -> None:
    store = Store()
    one, two = quotas(store), quotas(store)
    first = await one.take_stream("ann", no_ending)
    assert first is not None
    assert await two.take_stream("ann", no_ending) is not None
    assert await one.take_stream("ann", no_ending) is None
    assert await two.take_stream("ann", no_ending) is None
    assert store.total() == (2, 0)
    first.release()
    await turns()
    assert await two.take_stream("ann", no_ending) is not None
    assert store.total() == (2, 0)


@aio
async def test_a_unit_that_is_given_back_while_a_request_is_refused_serves_it() -> None:
    store = Store()
    one, two = quotas(store, streams=1), quotas(store, streams=1)
    first = await one.take_stream("ann", no_ending)
    assert first is not None
    waiting = asyncio.create_task(two.take_stream("ann", no_ending))
    await turns()
    assert len(store.exchanges) == 2
    first.release()
    assert await waiting is not None


@aio
async def test_a_stream_that_has_ended_here_makes_room() -> None:
    store = Store()
    here = quotas(store, streams=1)
    first = await here.take_stream("ann", no_ending)
    assert first is not None
    assert await here.take_stream("ann", first.release) is not None
    assert await here.take_stream("ann", first.release) is None
    assert store.total() == (1, 0)


@aio
async def test_requests_that_wait_share_an_exchange() -> None:
    store = Store()
    here = quotas(store, readers=50)
    store.answers.clear()
    tasks = [asyncio.create_task(here.take_reader("ann")) for _ in range(40)]
    await turns()
    assert [asked.wanted for _, asked in store.exchanges] == [40]
    late = [asyncio.create_task(here.take_reader("ann")) for _ in range(10)]
    await turns()
    assert len(store.exchanges) == 1  # those wait for the next one
    store.answers.set()
    assert all(await asyncio.gather(*tasks, *late))
    assert len(store.exchanges) == 2
    assert here.readers == 50


@aio
async def test_an_exchange_for_a_reader_brings_streams_of_a_large_limit_too() -> None:
    store = Store()
    here = quotas(store, streams=640, readers=6400)
    assert await here.take_reader("ann") is not None
    assert await here.take_stream("ann", no_ending) is not None
    assert [(s.wanted, r.wanted) for s, r in store.exchanges] == [(10, 101)]


@aio
async def test_a_request_that_is_cancelled_takes_nothing() -> None:
    store = Store()
    here = quotas(store, readers=1)
    store.answers.clear()
    waiting = asyncio.create_task(here.take_reader("ann"))
    await turns()
    waiting.cancel()
    await asyncio.wait({waiting})
    store.answers.set()
    await turns()
    assert here.readers == 0
    assert store.total() == (0, 0)  # other processes need not wait for the next renewal
    assert await here.take_reader("ann") is not None


@aio
async def test_a_request_that_is_cancelled_with_its_unit_gives_it_back() -> None:
    waiting: list[asyncio.Task[Unit | None]] = []

    class Late(Store):
        """The request is cancelled after its unit was granted, before it has taken it."""

        async def reserve(self, *asked: Any) -> tuple[int, int]:
            granted = await super().reserve(*asked)
            asyncio.get_running_loop().call_soon(waiting[0].cancel)
            return granted

    store = Late()
    here = quotas(store, readers=1)
    waiting.append(asyncio.create_task(here.take_reader("ann")))
    await asyncio.wait(waiting)
    assert waiting[0].cancelled()
    await turns()
    assert (here.readers, store.total()) == (0, (0, 0))


@aio
async def test_a_store_that_fails_is_reported_and_repeated() -> None:
    store = Store()
    here = quotas(store)
    store.fails = True
    with pytest.raises(LogUnavailable):
        await here.take_reader("ann")
    await here.close()  # without an error: the store forgets it by itself
    store.fails = False
    assert await here.take_reader("ann") is not None


@aio
async def test_the_end_waits_until_everything_was_given_back() -> None:
    store = Store()
    here = quotas(store)
    unit = await here.take_reader("ann")
    assert unit is not None
    store.answers.clear()
    unit.release()
    await turns()
    closing = asyncio.create_task(here.close())
    await turns()
    assert not closing.done()  # afterwards the log closes its connections
    store.answers.set()
    await closing
    assert store.total() == (0, 0)


@virtual
async def test_what_could_not_be_given_back_is_given_back_with_the_next_renewal() -> None:
    store = Store()
    here = quotas(store)
    unit = await here.take_reader("ann")
    assert unit is not None
    store.fails = True
    unit.release()
    await turns()
    assert store.total() == (0, 1)
    store.fails = False
    await virtual_loop().forward(10.5)
    await here.renew()
    assert store.total() == (0, 0)
    exchanges = len(store.exchanges)
    await virtual_loop().forward(10.5)
    await here.renew()
    assert len(store.exchanges) == exchanges  # the store knows it by now


@virtual
async def test_reservations_are_repeated_and_given_back_at_the_end() -> None:
    store = Store()
    here = quotas(store, readers=640)
    unit = await here.take_reader("ann")
    assert unit is not None
    await here.renew()  # it is not due
    assert len(store.exchanges) == 1
    store.held.clear()  # as after a restart of the store
    await virtual_loop().forward(10.5)
    await here.renew()
    assert store.total() == (0, 11)
    await virtual_loop().forward(10.5)
    await here.renew()
    assert store.total() == (0, 1)  # the rest was not used
    unit.release()
    for _ in range(2):
        await virtual_loop().forward(10.5)
        await here.renew()
    assert store.total() == (0, 0)
    assert await here.take_reader("bob") is not None
    await here.close()
    assert store.total() == (0, 1)  # it still runs
