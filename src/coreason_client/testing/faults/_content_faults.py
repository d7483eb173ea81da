"""Faults in events: their content, their numbers and ids, errors inside a stream, unusual ends."""

import asyncio
import itertools
import zlib
from dataclasses import replace
from typing import Final, Literal

from ._exchange import MIB, PIECE, FaultExchange, Loss, cut, cut_in_half, lose, replace_next
from ._logs import (
    EMOJI,
    far_jump_log,
    fatal_log,
    gap_log,
    low_close_log,
    stream_error,
    swapped_log,
    transient_log,
    unfinished_log,
    warning_log,
)
from ._table import fault
from ._wire import BOM, Packet, chunk, compact, pieces, sse

# Each line must be ignored. The last but one holds characters that are not line ends in SSE,
# though str.splitlines() takes them for such: a decoder that splits there sees a phantom event.
GARBAGE: Final = (
    b"unknown: field\n"
    b"no colon here\n"
    b": a comment\n"
    b":\n"
    b"retry: soon\n"
    b"retry: 1x\n"
    b"id: nul\x00inside\n"
    b"Data: names are case-sensitive\n"
    b" data: a leading blank is part of the name\n"
    + "a\u2028data: b\u2029data: c\u0085data: d\x0bdata: e\x0cdata: f\x1cdata: g\n".encode()
    + b"\xff\xfe\x80 is not UTF-8\n"
)


@fault(always=True)
async def garbage_lines(exchange: FaultExchange) -> None:
    """Write unknown fields, lines without a colon and comments before and inside events."""
    remaining = exchange.remaining()
    await exchange.head()
    for index, packet in enumerate(remaining):
        own_block = b"\n" if index % 2 else b""
        await exchange.chunk(GARBAGE + own_block + sse(packet))
    await exchange.end()


@fault()
async def truncated_utf8_in_packet(exchange: FaultExchange) -> None:
    """Send a complete event whose JSON holds three of the four bytes of a character."""
    await replace_next(
        exchange,
        lambda packet: replace(packet, p=EMOJI).json().replace(EMOJI.encode(), EMOJI.encode()[:3]),
    )


@fault()
async def bad_json(exchange: FaultExchange) -> None:
    """Send a complete event whose data is not JSON."""
    await replace_next(exchange, lambda packet: packet.json()[:-1])


@fault()
async def unknown_op(exchange: FaultExchange, *, op: str = "PING") -> None:
    """Send a packet with an operation that does not exist."""
    await replace_next(exchange, lambda packet: replace(packet, op=op).json())


@fault()
async def missing_field(exchange: FaultExchange, *, field: str = "op") -> None:
    """Send a packet without one of its fields."""

    def without(packet: Packet) -> bytes:
        fields = packet.fields()
        del fields[field]
        return compact(fields)

    await replace_next(exchange, without)


@fault()
async def string_error(exchange: FaultExchange) -> None:
    """Send an ERROR packet whose payload is a string."""
    await replace_next(exchange, lambda packet: replace(packet, op="ERROR", p="boom").json())


@fault()
async def huge_event(
    exchange: FaultExchange, *, size: int = 64 * MIB, lines: bool = False, field: str = "data"
) -> None:
    """Send one event of `size` bytes, in one line or many, or one huge line of another field."""
    first, *rest = await exchange.until_fault()
    opening, _, closing = sse(replace(first, p="@@")).partition(b"@@")
    if field != "data":
        # The huge line comes before the packet and not in its place: a comment may be skipped.
        opening, closing = field.encode() + b": ", b"\n\n" + sse(first)
    await exchange.chunk(opening)
    for start in range(0, size, PIECE):
        await exchange.chunk(b"x" * min(PIECE, size - start) + (b"\ndata: " if lines else b""))
    await exchange.chunk(closing)
    await exchange.events(rest)
    await exchange.end()


@fault(always=True)
async def slow_drip(exchange: FaultExchange, *, of: Literal["body", "wire"] = "body") -> None:
    """Write 1, 2, 3, 4, 1, ... bytes at a time, as separate chunks or with the framing cut."""
    sizes = itertools.cycle((1, 2, 3, 4))
    write = exchange.chunk if of == "body" else exchange.send
    remaining = exchange.remaining()
    await exchange.head()
    for packet in remaining:
        event = sse(packet)
        for piece in pieces(event if of == "body" else chunk(event), sizes):
            await write(piece)
    await exchange.end()


@fault(always=True)
async def keepalive_comments(exchange: FaultExchange, *, retry: int = 40) -> None:
    """Write comments, blocks with only an id and retry lines around all packets."""
    remaining = exchange.remaining()
    await exchange.head()
    await exchange.chunk(b": welcome\n\nretry: %d\n\n" % retry)
    for packet in remaining:
        await exchange.chunk(b": keep-alive\n\n" + sse(packet))
        await exchange.chunk(b"id: %s\n\n: keep-alive\n:\n\n" % packet.event_id.encode())
        await exchange.chunk(b"event: ping\nretry: %d\n\n\n" % retry)
    await exchange.end()


@fault()
async def retry_field(exchange: FaultExchange, *, retry: int = 40) -> None:
    """Ask for a delay with a retry line and lose the connection."""
    rest = await exchange.until_fault()
    await exchange.chunk(b"retry: %d\n\n" % retry)
    await cut_in_half(exchange, rest, "fin")


@fault(always=True)
async def draining(exchange: FaultExchange, *, empty: int = 5, retry: int = 1) -> None:
    """Ask to come back and end in order, then `empty` times more without a packet."""
    if exchange.attempt > 1 + empty:
        await exchange.serve_rest()
        return
    before, _ = exchange.split()
    await exchange.head()
    await exchange.events(before if exchange.attempt == 1 else [])
    await exchange.chunk(b"retry: %d\n\n" % retry)
    await exchange.end()


@fault(always=True)
async def hung_with_heartbeats(
    exchange: FaultExchange, *, interval: float = 0.02, beats: int = 3000
) -> None:
    """Send comments after the fault, for a minute, and no packet."""
    await exchange.until_fault()
    for _ in range(beats):  # or until the client goes away
        await exchange.chunk(b": heartbeat\n\n")
        await asyncio.sleep(interval)
    await exchange.end()


@fault(always=True)
async def bom(exchange: FaultExchange, *, split: bool = False) -> None:
    """Start the body with a byte order mark, in one chunk with the first event or in three."""
    first, *rest = exchange.remaining()
    await exchange.head()
    start = BOM + sse(first)
    for piece in pieces(start, iter((1, 1, 1, len(start))) if split else iter((len(start),))):
        await exchange.chunk(piece)
    await exchange.events(rest)
    await exchange.end()


@fault(always=True)
async def cr_line_ends(exchange: FaultExchange) -> None:
    """End all lines with CR."""
    await exchange.serve(exchange.remaining(), eol=b"\r")


@fault(always=True)
async def crlf_line_ends(exchange: FaultExchange, *, split: bool = False) -> None:
    """End all lines with CRLF; `split` puts every CR and its LF in different chunks."""
    remaining = exchange.remaining()
    await exchange.head()
    for packet in remaining:
        event = sse(packet, eol=b"\r\n")
        for piece in event.replace(b"\r", b"\r\0").split(b"\0") if split else [event]:
            await exchange.chunk(piece)
    await exchange.end()


@fault(always=True)
async def gzip(exchange: FaultExchange, *, cut: bool = False) -> None:
    """Compress the body with gzip, flushed after each packet; `cut` loses the first answer."""
    squeeze = zlib.compressobj(wbits=31)
    cutting = cut and exchange.attempt == 1
    packets = exchange.split()[0] if cutting else exchange.remaining()
    await exchange.head(headers={"Content-Encoding": "gzip"})
    for packet in packets:
        await exchange.chunk(squeeze.compress(sse(packet)) + squeeze.flush(zlib.Z_SYNC_FLUSH))
    if cutting:
        await exchange.fin()
    else:
        await exchange.chunk(squeeze.flush())
        await exchange.end()


# Numbers and ids.


@fault(always=True)
async def ignores_last_event_id(exchange: FaultExchange) -> None:
    """Lose the first connection and replay everything from the start on each reconnect."""
    if exchange.attempt == 1:
        await lose(exchange)
    else:
        await exchange.serve(exchange.run.packets)


@fault(always=True)
async def duplicates(exchange: FaultExchange) -> None:
    """Send every packet twice, and all up to the fault once more at that point."""
    before, rest = exchange.split()
    twice = [packet for packet in before for _ in range(2)]
    await exchange.serve([*twice, *before, *(packet for packet in rest for _ in range(2))])


@fault()
async def out_of_order(exchange: FaultExchange) -> None:
    """Swap the two packets after the fault on the first connection."""
    before, rest = exchange.split()
    await exchange.serve([*before, *rest[1:2], *rest[:1], *rest[2:]])


@fault(always=True, log=swapped_log)
async def out_of_order_always(exchange: FaultExchange) -> None:
    """Swap the two packets after the fault on every connection."""
    await exchange.serve_rest()


@fault(always=True, log=far_jump_log)
async def one_number_too_high(exchange: FaultExchange) -> None:
    """Give one packet a number that is far too high, on every connection."""
    await exchange.serve_rest()


@fault(always=True, log=low_close_log)
async def close_number_too_low(exchange: FaultExchange) -> None:
    """Give CLOSE the number of the packet before it."""
    await exchange.serve_rest()


@fault()
async def gap_once(exchange: FaultExchange) -> None:
    """Leave out one packet on the first connection and have it on the next."""
    before, rest = exchange.split()
    await exchange.serve([*before, *rest[1:]])


@fault(always=True, log=gap_log)
async def gap_always(exchange: FaultExchange) -> None:
    """Skip sequence numbers: `skip` of them do not exist."""
    await exchange.serve_rest()


@fault(always=True)
async def different_stream_after_reconnect(exchange: FaultExchange, *, loss: Loss = "fin") -> None:
    """Lose the first connection and answer reconnects with another stream from its start."""
    if exchange.attempt == 1:
        await lose(exchange, loss)
    else:
        other = exchange.run.other_stream_id
        await exchange.serve([replace(item, stream_id=other) for item in exchange.run.packets])


@fault(always=True)
async def no_ids(exchange: FaultExchange) -> None:
    """Write no id lines at all and lose the first connection."""
    if exchange.attempt == 1:
        rest = await exchange.until_fault(with_id=False)
        event = sse(rest[0], with_id=False)
        await cut(exchange, event, len(event) // 2, "fin")
    else:
        await exchange.serve(exchange.remaining(), with_id=False)


@fault()
async def id_only_cursor(exchange: FaultExchange) -> None:
    """Write ids only in a block without data after the last packet, and lose the connection."""
    rest = await exchange.until_fault(with_id=False)
    await exchange.chunk(b"id: %s:%d\n\n" % (rest[0].stream_id.encode(), rest[0].seq - 1))
    # The unfinished block has an id too, which must be discarded with it.
    await cut_in_half(exchange, rest, "fin")


# Errors, unusual ends, and no fault at all.


@fault(log=transient_log)
async def transient_error(exchange: FaultExchange, *, keep_open: bool = False) -> None:
    """Send a numbered TRANSIENT error on the first connection and end it."""
    rest = await exchange.until_fault()
    await exchange.events(rest[:1])
    await (exchange.hang() if keep_open else exchange.end())


@fault(always=True, log=unfinished_log)
async def transient_always(
    exchange: FaultExchange, *, retry_after: float | None = None, keep_open: bool = False
) -> None:
    """End every connection with a new TRANSIENT error."""
    await exchange.until_fault()
    run = exchange.run
    error = stream_error("TRANSIENT", retry_after=retry_after)
    await exchange.events(
        [Packet(run.stream_id, run.fault_after + exchange.attempt, "ERROR", error)]
    )
    await (exchange.hang() if keep_open else exchange.end())


@fault(always=True, log=fatal_log)
async def fatal_error(exchange: FaultExchange, *, keep_open: bool = False) -> None:
    """End the stream with a FATAL error in place of CLOSE."""
    await exchange.serve(exchange.remaining(), end=not keep_open)


@fault(always=True, log=warning_log)
async def warning_error(exchange: FaultExchange) -> None:
    """Send a WARNING in the middle of a stream that goes on."""
    await exchange.serve_rest()


@fault(always=True)
async def close_then_keeps_open(exchange: FaultExchange) -> None:
    """Send everything and CLOSE, and neither end the body nor close the connection."""
    await exchange.serve(exchange.remaining(), end=False)


@fault(always=True)
async def correct(exchange: FaultExchange, *, content_type: str = "text/event-stream") -> None:
    """Answer every request as a correct server does."""
    await exchange.serve(exchange.remaining(), content_type=content_type)
