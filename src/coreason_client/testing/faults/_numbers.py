"""Faults in the numbers of packets, in their ids and in the id of the stream."""

from dataclasses import replace

from ._exchange import Exchange
from ._logs import far_jump_log, gap_log, low_close_log, swapped_log
from ._parts import Loss, cut, cut_in_half, lose
from ._table import fault
from ._wire import sse

__all__: list[str] = []  # the faults are found by name, in `FAULTS`


@fault(always=True)
async def ignores_last_event_id(exchange: Exchange) -> None:
    """Lose the first connection and replay everything from the start on each reconnect."""
    if exchange.attempt == 1:
        await lose(exchange)
    else:
        await exchange.serve(exchange.run.packets)


@fault(always=True)
async def duplicates(exchange: Exchange) -> None:
    """Send every packet twice, and all up to the fault once more at that point."""
    before, rest = exchange.split()
    twice = [packet for packet in before for _ in range(2)]
    await exchange.serve([*twice, *before, *(packet for packet in rest for _ in range(2))])


@fault()
async def out_of_order(exchange: Exchange) -> None:
    """Swap the two packets after the fault on the first connection."""
    before, rest = exchange.split()
    await exchange.serve([*before, *rest[1:2], *rest[:1], *rest[2:]])


@fault(always=True, log=swapped_log)
async def out_of_order_always(exchange: Exchange) -> None:
    """Swap the two packets after the fault on every connection."""
    await exchange.serve_rest()


@fault(always=True, log=far_jump_log)
async def one_number_too_high(exchange: Exchange) -> None:
    """Give one packet a number that is far too high, on every connection."""
    await exchange.serve_rest()


@fault(always=True, log=low_close_log)
async def close_number_too_low(exchange: Exchange) -> None:
    """Give CLOSE the number of the packet before it."""
    await exchange.serve_rest()


@fault()
async def gap_once(exchange: Exchange) -> None:
    """Leave out one packet on the first connection and have it on the next."""
    before, rest = exchange.split()
    await exchange.serve([*before, *rest[1:]])


@fault(always=True, log=gap_log)
async def gap_always(exchange: Exchange) -> None:
    """Number with a gap: `skip` numbers do not exist."""
    await exchange.serve_rest()


@fault(always=True)
async def different_stream_after_reconnect(exchange: Exchange, *, loss: Loss = "fin") -> None:
    """Lose the first connection and answer reconnects with another stream from its start."""
    if exchange.attempt == 1:
        await lose(exchange, loss)
    else:
        other = exchange.run.other_stream_id
        await exchange.serve([replace(item, stream_id=other) for item in exchange.run.packets])


@fault(always=True)
async def no_ids(exchange: Exchange) -> None:
    """Write no id lines at all and lose the first connection."""
    if exchange.attempt == 1:
        rest = await exchange.until_fault(with_id=False)
        event = sse(rest[0], with_id=False)
        await cut(exchange, event, len(event) // 2, "fin")
    else:
        await exchange.serve(exchange.remaining(), with_id=False)


@fault()
async def id_only_cursor(exchange: Exchange) -> None:
    """Write ids only in a block without data after the last packet, and lose the connection."""
    rest = await exchange.until_fault(with_id=False)
    await exchange.chunk(b"id: %s:%d\n\n" % (rest[0].stream_id.encode(), rest[0].seq - 1))
    # The unfinished block has an id too, which must be discarded with it.
    await cut_in_half(exchange, rest, "fin")
