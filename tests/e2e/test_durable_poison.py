"""A question that kills every process that works on it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coreason_client import CAPRuntimeError

from ..soak.faults import until
from .durable_answers import stream_id
from .durable_fleet import MAX_RESTARTS, Site, on_sqlite
from .test_durable_faults import SLOW

NEIGHBOURS = 6


@contextmanager
def supervised(site: Site) -> Iterator[None]:
    """Start a process again whenever it has exited."""
    left = threading.Event()

    async def supervise() -> None:
        while not left.is_set():
            for replica in site.replicas:
                if replica.exited:
                    await replica.start()
            await until(lambda: left.is_set() or any(one.exited for one in site.replicas), 1.0)

    thread = threading.Thread(target=lambda: asyncio.run(supervise()))
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()


@pytest.mark.proves("DUR-10-restarts")
def test_it_ends_after_its_restarts_and_its_neighbours_do_not(tmp_path: Path) -> None:
    """On one process, so that each of its deaths is also that of its neighbours."""
    with on_sqlite(tmp_path) as site, supervised(site):
        neighbours = [site.client.chat("slow") for _ in range(NEIGHBOURS)]
        for stream in neighbours:
            next(stream)
        poison = site.client.chat("poison")
        with pytest.raises(CAPRuntimeError, match="producer_lost"):
            list(poison)
        for stream in neighbours:
            for _ in stream:
                pass
            assert stream.text == SLOW
        attempts = site.noted("poison", stream_id(poison))
        assert sorted(map(int, attempts)) == list(range(1, MAX_RESTARTS + 2))
