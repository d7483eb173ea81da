"""The memory for large bodies: who gets it, who waits, and that none is lost."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.server._off_loop import LARGE_BODY
from coreason_client.server.http._body import BodyMemory, BodyReservation
from coreason_client.server.http._problems import Problem

from ..aio import aio, turns

FULL = 4 * LARGE_BODY  # the size of the largest body; there is memory for 16, 4 of one principal


async def filled(memory: BodyMemory, principal: str, count: int) -> list[BodyReservation]:
    reservations = [memory.reservation(principal) for _ in range(count)]
    for reservation in reservations:
        await asyncio.wait_for(reservation.reserve(FULL), 1)
    return reservations


def waiting(
    memory: BodyMemory, principal: str, size: int = FULL
) -> tuple[BodyReservation, asyncio.Task[None]]:
    reservation = memory.reservation(principal)
    return reservation, asyncio.ensure_future(reservation.reserve(size))


@aio
async def test_a_principal_has_a_share_and_the_others_have_theirs() -> None:
    memory = BodyMemory(FULL, 60.0)
    first, *_ = await filled(memory, "a", 4)
    _, fifth = waiting(memory, "a")
    await turns()
    assert not fifth.done()
    await filled(memory, "b", 4)  # who are not held up by it
    first.release()
    await fifth


@aio
async def test_all_have_a_bound_together() -> None:
    memory = BodyMemory(FULL, 60.0)
    held = [reservation for name in "abcd" for reservation in await filled(memory, name, 4)]
    late = [waiting(memory, name) for name in "efg"]
    await turns()
    assert not any(task.done() for _, task in late)
    for reservation, (_, task) in zip(held, late, strict=False):  # in their order
        reservation.release()
        await turns()
        assert task.done()
    assert [task.done() for _, task in late] == [True] * 3


async def nearly_full() -> tuple[BodyMemory, list[BodyReservation]]:
    """Return a memory with enough free bytes for half of the largest body."""
    memory = BodyMemory(FULL, 60.0)
    held = [reservation for name in "abc" for reservation in await filled(memory, name, 4)]
    held += await filled(memory, "d", 3)
    await memory.reservation("d").reserve(FULL // 2)
    return memory, held


@aio
async def test_nobody_is_overtaken_for_ever() -> None:
    memory, held = await nearly_full()
    _, first = waiting(memory, "e")
    _, second = waiting(memory, "f", LARGE_BODY + 1)  # which would fit
    await turns()
    assert not first.done()
    assert not second.done()
    held[0].release()
    await asyncio.gather(first, second)


@aio
async def test_who_gives_up_lets_in_those_behind() -> None:
    memory, _ = await nearly_full()
    _, first = waiting(memory, "e")
    _, second = waiting(memory, "f", LARGE_BODY + 1)
    await turns()
    first.cancel()
    await asyncio.wait_for(second, 1)


@aio
async def test_small_bodies_take_no_room() -> None:
    memory = BodyMemory(FULL, 60.0)
    for name in "abcd":
        await filled(memory, name, 4)
    await asyncio.wait_for(memory.reservation("a").reserve(LARGE_BODY), 1)


@aio
async def test_room_is_taken_once_and_given_back_once() -> None:
    memory = BodyMemory(FULL, 60.0)
    for _ in range(100):
        reservation = memory.reservation("a")
        await reservation.reserve(FULL)
        await asyncio.wait_for(reservation.reserve(FULL), 1)
        reservation.release()
        reservation.release()
    await filled(memory, "a", 4)


@aio
async def test_who_waits_too_long_is_sent_away() -> None:
    memory = BodyMemory(FULL, 0.01)
    first, *_ = await filled(memory, "a", 4)
    reservation, task = waiting(memory, "a")
    with pytest.raises(Problem) as caught:
        await task
    reservation.release()
    assert (caught.value.status, caught.value.slug) == (503, "busy")
    assert caught.value.headers is not None
    assert caught.value.headers["Retry-After"] == "1"
    first.release()
    await filled(memory, "a", 1)  # it has left nothing behind


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(LARGE_BODY + 1, FULL), st.integers(0, 40)),
    max_size=60,
)


@settings(max_examples=50)
@given(steps=steps)
def test_whatever_happens_no_room_is_lost_or_given_twice(
    steps: list[tuple[str, int, int]],
) -> None:
    async def run() -> None:
        memory = BodyMemory(FULL, 60.0)
        alive: list[tuple[BodyReservation, asyncio.Task[None]]] = []
        for principal, size, victim in steps:
            alive.append(waiting(memory, principal, size))
            await turns(3)
            if victim < len(alive):  # one goes, whether it waits or reads
                reservation, task = alive.pop(victim)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                reservation.release()
                await turns(3)
            held = [reservation for reservation, task in alive if task.done()]
            assert sum(reservation.size for reservation in held) <= 16 * FULL
            for name in "abc":
                assert sum(p.size for p in held if p.principal == name) <= 4 * FULL
        for reservation, task in alive:
            if not task.done():
                await asyncio.wait_for(task, 1)
            reservation.release()
        assert memory._free == 16 * FULL
        assert not memory._held
        assert not memory._waiting

    asyncio.run(run())
