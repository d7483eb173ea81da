"""The steps that several faults have in common."""

from collections.abc import Callable
from typing import Final, Literal

from ._exchange import Exchange
from ._wire import Packet, block, sse

__all__ = ["MIB", "PIECE", "How", "Loss", "cut", "cut_in_half", "lose", "replace_next"]

How = Literal["fin", "rst", "end"]
Loss = Literal["fin", "hang"]

MIB: Final = 1024 * 1024
PIECE: Final = 64 * 1024


async def cut(exchange: Exchange, event: bytes, keep: int, how: How) -> None:
    """Send the first bytes of an event and end the connection there."""
    if how == "end":
        await exchange.chunk(event[:keep])  # a body can only end cleanly after a whole chunk
    else:
        await exchange.part(event, keep)
    await exchange.stop(how)


async def cut_in_half(exchange: Exchange, rest: list[Packet], how: How) -> None:
    """End the connection in the middle of the next event."""
    event = sse(rest[0]) if rest else b""
    await cut(exchange, event, len(event) // 2, how)


async def lose(exchange: Exchange, loss: Loss = "fin") -> None:
    """Send up to the point of the fault and lose the connection in the middle of an event."""
    rest = await exchange.until_fault()
    if loss == "hang":
        await exchange.hang()
    else:
        await cut_in_half(exchange, rest, "fin")


async def replace_next(exchange: Exchange, data: Callable[[Packet], bytes]) -> None:
    """Send other data in place of the next packet, then all the rest and a clean end."""
    first, *rest = await exchange.until_fault()
    # The rest follows: a client that merely skips the bad packet ends without an error.
    await exchange.chunk(block(data(first), first.event_id))
    await exchange.events(rest)
    await exchange.end()
