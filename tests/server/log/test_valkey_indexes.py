"""The commands that each change of an index sends to the store."""

from typing import Any
from uuid import UUID

import pytest

from coreason_client.server.log.valkey._keys import KeyNames
from coreason_client.server.log.valkey._session import Indexes

from ..aio import aio

ID = UUID("00112233445566778899aabbccddee01")  # in shard 1
HEX = ID.hex
REQUEST = "ab" * 20
TALK = "cd" * 19 + "02"  # in shard 2


class Sent:
    """A store that only notes what it is asked."""

    def __init__(self) -> None:
        self.commands: list[tuple[Any, ...]] = []

    async def command(self, *command: Any) -> list[bytes]:
        self.commands.append(command)
        return [command[1].encode()]

    async def script(self, script: Any, keys: Any, *arguments: Any) -> None:
        self.commands.append(("INDEX", *keys, *arguments))


@pytest.mark.parametrize(
    ("change", "arguments", "commands"),
    [
        # Times of leases and conversations only ever become later.
        ("add_new_stream", (ID, 5.5), [("ZADD", "p:{leases-1}", "GT", "5.5", HEX)]),
        ("extend_leases", ({ID: ""}, 5.5), [("INDEX", "p:{leases-1}", "GT", "5.5", HEX)]),
        ("remove_lease", (ID,), [("ZREM", "p:{leases-1}", HEX)]),
        # Durable streams have an index for each agent. A lease that is given up ends earlier.
        ("add_new_stream", (ID, 5.5, "ab"), [("ZADD", "p:{durable-ab-1}", "GT", "5.5", HEX)]),
        ("extend_leases", ({ID: "ab"}, 5.5), [("INDEX", "p:{durable-ab-1}", "GT", "5.5", HEX)]),
        ("remove_lease", (ID, "ab"), [("ZREM", "p:{durable-ab-1}", HEX)]),
        ("end_lease", (ID, 5.5, "ab"), [("INDEX", "p:{durable-ab-1}", "", "5.5", HEX)]),
        ("touch_agent", ("ab", 5.5), [("INDEX", "p:{agents}", "GT", "5.5", "ab")]),
        (
            "move_to_ended",
            (ID, REQUEST, 7.0),
            # Added before it is removed: a process that dies in between leaves it in one of them.
            [
                ("INDEX", "p:{bodies-1}", "", "7.0", HEX + REQUEST),
                ("ZREM", "p:{leases-1}", HEX),
            ],
        ),
        (
            "move_to_without_entries",
            (ID, REQUEST, 7.0),
            [
                ("INDEX", "p:{finals-1}", "", "7.0", HEX + REQUEST),
                ("ZREM", "p:{bodies-1}", HEX + REQUEST),
            ],
        ),
        (
            "remove_ended",
            (ID, REQUEST),
            [
                ("ZREM", "p:{bodies-1}", HEX + REQUEST),
                ("ZREM", "p:{finals-1}", HEX + REQUEST),
            ],
        ),
        ("touch_conversation", (TALK, 3.0), [("ZADD", "p:{conversations-2}", "GT", "3.0", TALK)]),
        (
            "correct_conversation",
            (TALK, 3.0),
            [("INDEX", "p:{conversations-2}", "GT", "3.0", TALK)],
        ),
        ("remove_conversation", (TALK,), [("ZREM", "p:{conversations-2}", TALK)]),
    ],
)
@aio
async def test_a_change(
    change: str, arguments: tuple[Any, ...], commands: list[tuple[Any, ...]]
) -> None:
    store: Any = Sent()
    await getattr(Indexes(store, KeyNames("p")), change)(*arguments)
    assert store.commands == commands


@aio
async def test_what_is_due_is_asked_of_every_shard() -> None:
    store: Any = Sent()
    keys = KeyNames("p")
    found = await Indexes(store, keys).due(keys.leases, 9.5, 100)
    assert found == [key.encode() for key in keys.leases]
    assert store.commands == [
        ("ZRANGEBYSCORE", key, "-inf", "9.5", "LIMIT", 0, 100) for key in keys.leases
    ]


@aio
async def test_many_leases_take_a_few_scripts() -> None:
    store: Any = Sent()
    streams = [UUID(int=4 * number) for number in range(1001)]  # all in one shard
    await Indexes(store, KeyNames("p")).extend_leases(dict.fromkeys(streams, ""), 1.0)
    sizes = [(len(command) - 3) // 2 for command in store.commands]
    assert sizes == [500, 500, 1]
    sent = [name for command in store.commands for name in command[4::2]]
    assert sent == [stream.hex for stream in streams]
