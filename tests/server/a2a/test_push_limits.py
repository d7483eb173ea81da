"""Slots for requests to webhooks."""

import asyncio
from collections import Counter

from coreason_client.server.a2a._push._service import RequestSlots

from ..aio import aio, turns


@aio
async def test_the_requests_of_one_principal_do_not_delay_those_of_others() -> None:
    slots, running, release = RequestSlots(3, 2), [], asyncio.Event()

    async def request(principal: str) -> None:
        async with slots.slot(principal):
            running.append(principal)
            await release.wait()
            running.remove(principal)

    tasks = [asyncio.create_task(request("ann")) for _ in range(5)]
    await turns()
    assert running == ["ann", "ann"]
    tasks += [asyncio.create_task(request("bob")) for _ in range(2)]
    await turns()
    assert running == ["ann", "ann", "bob"]  # three in all
    release.set()
    await asyncio.gather(*tasks)
    assert slots._by_principal == {}
    assert slots._users == {}


@aio
async def test_a_request_that_is_cancelled_frees_its_slot() -> None:
    slots = RequestSlots(1, 1)

    async def hold() -> None:
        async with slots.slot("ann"):
            await asyncio.Event().wait()

    for _ in range(3):
        task = asyncio.create_task(hold())
        await turns()
        task.cancel()
        await asyncio.wait({task})
    async with slots.slot("ann"):
        pass
    assert slots._by_principal == {}


@aio
async def test_one_principal_has_an_eighth_of_all_slots() -> None:
    slots, running = RequestSlots(), Counter[str]()

    async def hang(principal: str) -> None:
        async with slots.slot(principal):
            running[principal] += 1
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hang("ann")) for _ in range(300)]
    await turns()
    assert running == {"ann": 32}
    others = [f"other {number}" for number in range(300)]
    tasks += [asyncio.create_task(hang(principal)) for principal in others]
    await turns()
    assert (running["ann"], running.total()) == (32, 256)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
