"""Durable agents while a process is frozen beyond its lease, and while their store crashes."""

import asyncio
from pathlib import Path

from ..server.log.valkey_server import ValkeyServer
from ..soak.faults import until
from .durable_answers import A, stream_id
from .durable_fleet import on_valkey
from .durable_replica import HELD_AT, SLOW_WORDS

SLOW = "".join(f"A{number} " for number in range(SLOW_WORDS))


def test_a_producer_that_was_frozen_beyond_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    with on_valkey(tmp_path) as site:
        frozen, other = site.replicas
        stream = site.client.chat("thaw")
        begun = [next(stream) for _ in range(HELD_AT + 1)]
        bookmark = stream.bookmark()
        frozen.freeze()
        site.route_to(other)
        continued = site.client.resume_chat(bookmark)
        assert "".join(begun) + "".join(continued) == A
        frozen.thaw()
        late = ("late", stream_id(stream))
        asyncio.run(until(lambda: len(site.noted(*late)) == 2))
        first, second = site.noted(*late)
        # What is first after the thaw: the answer to this write, or to the renewal of the lease.
        assert first in ("Fenced", "CancelledError")
        assert second == "Fenced"
        assert "".join(begun) + "".join(stream) == A  # its reader at the frozen process
        assert site.client.ask("body undisturbed") == A
        packets = list(site.client.assist(bookmark.request))
        assert [packet.seq for packet in packets] == list(range(1, 12))
        assert frozen.errors().count("Traceback") == 0


def test_a_crash_of_the_store_and_of_a_process_at_the_same_time(tmp_path: Path) -> None:
    with ValkeyServer(keep=True) as store, on_valkey(tmp_path, store) as site:
        killed, other = site.replicas
        streams = [site.client.chat("slow") for _ in range(3)]
        site.route_to(other)
        streams += [site.client.chat("slow") for _ in range(2)]
        for stream in streams:
            next(stream)
        store.kill()
        killed.kill()
        store.start()
        for stream in streams:
            for _ in stream:
                pass
            assert stream.text == SLOW
        assert "Traceback" not in site.fleet.errors()
