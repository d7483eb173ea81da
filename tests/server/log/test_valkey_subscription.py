"""The subscription of the Valkey log when its connection is closed while it sends."""

from typing import Any

from coreason_client.server.log.valkey._subscription import Subscription

from ..aio import aio


class ClosedMeanwhile:
    """A connection of redis-py that is closed between its own check and its write."""

    is_connected = True

    async def send_command(self, *command: Any, check_health: bool) -> None:
        writer: Any = None
        writer.writelines(command)


@aio
async def test_a_connection_that_is_closed_while_it_sends_is_not_an_error() -> None:
    subscription: Any = Subscription.__new__(Subscription)  # without its tasks
    subscription._connection = ClosedMeanwhile()
    subscription._outbox = []
    subscription._sender = None
    subscription._queue_command("SUBSCRIBE", ["channel"])
    await subscription._sender
    assert subscription._sender is None
