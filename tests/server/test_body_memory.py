"""The room for large bodies: who gets it, who waits, and that none is lost."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.server._off_loop import LARGE_BODY
from coreason_client.server.http._body_memory import BodyRoom, Place
from coreason_client.server.http._problems import Problem

from .aio import aio, turns

FULL = 4 * LARGE_BODY  # the size of the largest body; there is room for 16, 4 of one principal


async def filled(room: BodyRoom, principal: str, count: int) -> list[Place]:
    places = [room.place(principal) for _ in range(count)]
    for place in places:
        await asyncio.wait_for(place.take(FULL), 1)
    return places


def waiting(room: BodyRoom, principal: str, size: int = FULL) -> tuple[Place, asyncio.Task[None]]:
    place = room.place(principal)
    return place, asyncio.ensure_future(place.take(size))


@aio
async def test_a_principal_has_a_share_and_the_others_have_theirs() -> None:
    room = BodyRoom(FULL, 60.0)
    first, *_ = await filled(room, "a", 4)
    _, fifth = waiting(room, "a")
    await turns()
    assert not fifth.done()
    await filled(room, "b", 4)  # who are not held up by it
    first.give_back()
    await fifth


@aio
async def test_all_have_a_bound_together() -> None:
    room = BodyRoom(FULL, 60.0)
    held = [place for name in "abcd" for place in await filled(room, name, 4)]
    late = [waiting(room, name) for name in "efg"]
    await turns()
    assert not any(task.done() for _, task in late)
    for place, (_, task) in zip(held, late, strict=False):  # in their order
        place.give_back()
        await turns()
        assert task.done()
    assert [task.done() for _, task in late] == [True] * 3


async def nearly_full() -> tuple[BodyRoom, list[Place]]:
    """Return a room that has place for half of the largest body."""
    room = BodyRoom(FULL, 60.0)
    held = [place for name in "abc" for place in await filled(room, name, 4)]
    held += await filled(room, "d", 3)
    await room.place("d").take(FULL // 2)
    return room, held


@aio
async def test_nobody_is_overtaken_for_ever() -> None:
    room, held = await nearly_full()
    _, first = waiting(room, "e")
    _, second = waiting(room, "f", LARGE_BODY + 1)  # which would fit
    await turns()
    assert not first.done()
    assert not second.done()
    held[0].give_back()
    await asyncio.gather(first, second)


@aio
async def test_who_gives_up_lets_in_those_behind() -> None:
    room, _ = await nearly_full()
    _, first = waiting(room, "e")
    _, second = waiting(room, "f", LARGE_BODY + 1)
    await turns()
    first.cancel()
    await asyncio.wait_for(second, 1)


@aio
async def test_small_bodies_take_no_room() -> None:
    room = BodyRoom(FULL, 60.0)
    for name in "abcd":
        await filled(room, name, 4)
    await asyncio.wait_for(room.place("a").take(LARGE_BODY), 1)


@aio
async def test_room_is_taken_once_and_given_back_once() -> None:
    room = BodyRoom(FULL, 60.0)
    for _ in range(100):
        place = room.place("a")
        await place.take(FULL)
        await asyncio.wait_for(place.take(FULL), 1)
        place.give_back()
        place.give_back()
    await filled(room, "a", 4)


@aio
async def test_who_waits_too_long_is_sent_away() -> None:
    room = BodyRoom(FULL, 0.01)
    first, *_ = await filled(room, "a", 4)
    place, task = waiting(room, "a")
    with pytest.raises(Problem) as caught:
        await task
    place.give_back()
    assert (caught.value.status, caught.value.slug) == (503, "busy")
    assert caught.value.headers is not None
    assert caught.value.headers["Retry-After"] == "1"
    first.give_back()
    await filled(room, "a", 1)  # it has left nothing behind


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
        room = BodyRoom(FULL, 60.0)
        alive: list[tuple[Place, asyncio.Task[None]]] = []
        for principal, size, victim in steps:
            alive.append(waiting(room, principal, size))
            await turns(3)
            if victim < len(alive):  # one goes, whether it waits or reads
                place, task = alive.pop(victim)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                place.give_back()
                await turns(3)
            held = [place for place, task in alive if task.done()]
            assert sum(place.size for place in held) <= 16 * FULL
            for name in "abc":
                assert sum(p.size for p in held if p.principal == name) <= 4 * FULL
        for place, task in alive:
            if not task.done():
                await asyncio.wait_for(task, 1)
            place.give_back()
        assert room._free == 16 * FULL
        assert not room._held
        assert not room._waiting

    asyncio.run(run())
