"""Faults that end a connection, or keep it without sending anything."""

from typing import Literal

from ._exchange import Exchange
from ._logs import EMOJI, emoji_log
from ._parts import How, cut, cut_in_half
from ._table import fault
from ._wire import LAST_CHUNK, chunk, chunk_header, response_head, sse, stream_headers

__all__: list[str] = []  # the faults are found by name, in `FAULTS`


@fault()
async def rst_mid_event(exchange: Exchange) -> None:
    """Reset the connection in the middle of an event."""
    await cut_in_half(exchange, await exchange.until_fault(), "rst")


@fault()
async def fin_mid_event_chunked(exchange: Exchange, *, whole_chunk: bool = False) -> None:
    """End a chunked body with FIN in the middle of an event, inside a chunk or after one."""
    rest = await exchange.until_fault()
    if whole_chunk:
        event = sse(rest[0])
        await exchange.chunk(event[: len(event) // 2])
        await exchange.fin()
    else:
        await cut_in_half(exchange, rest, "fin")


@fault()
async def fin_mid_event_close_delimited(exchange: Exchange) -> None:
    """End a body without a length with FIN in the middle of an event."""
    await cut_in_half(exchange, await exchange.until_fault(chunked=False), "fin")


@fault()
async def clean_end_without_close(exchange: Exchange) -> None:
    """End a chunked body cleanly between two events, without a CLOSE packet."""
    await exchange.until_fault()
    await exchange.end()


@fault()
async def clean_end_close_delimited(exchange: Exchange) -> None:
    """End a body without a length between two events, without a CLOSE packet."""
    await exchange.until_fault(chunked=False)
    await exchange.fin()


@fault()
async def stall(exchange: Exchange, *, at: Literal["head", "event", "mid_event"] = "event") -> None:
    """Never send another byte and keep the connection: before the head, or after some packets."""
    if at != "head":
        rest = await exchange.until_fault()
        if at == "mid_event":
            event = sse(rest[0])
            await exchange.part(event, len(event) // 2)
    await exchange.hang()


@fault(log=emoji_log)
async def cut_inside_utf8(exchange: Exchange, *, keep: int = 2, how: How = "fin") -> None:
    """End the connection after some of the four bytes of one character."""
    event = sse((await exchange.until_fault())[0])
    await cut(exchange, event, event.index(EMOJI.encode()) + keep, how)


@fault()
async def cut_between_cr_and_lf(
    exchange: Exchange, *, line: Literal["id", "data", "blank"] = "blank", how: How = "fin"
) -> None:
    """End the connection between CR and LF; after the blank line's CR the event is complete."""
    event = sse((await exchange.until_fault(eol=b"\r\n"))[0], eol=b"\r\n")
    ends = [at for at, byte in enumerate(event, 1) if byte == ord("\r")]
    await cut(exchange, event, ends[("id", "data", "blank").index(line)], how)


@fault()
async def cut_in_chunk_header(
    exchange: Exchange, *, keep: int = 1, how: Literal["fin", "rst"] = "fin"
) -> None:
    """End the connection inside the line that announces the next chunk."""
    event = sse((await exchange.until_fault())[0])
    await exchange.send(chunk_header(len(event))[:keep])
    await exchange.stop(how)


@fault()
async def burst_then_rst(exchange: Exchange, *, how: How = "rst") -> None:
    """Send all up to the fault in one write and reset at once, with the data still unread."""
    before, _ = exchange.split()
    body = b"".join(chunk(sse(packet)) for packet in before)
    tail = LAST_CHUNK if how == "end" else b""
    await exchange.send(response_head(200, stream_headers()) + body + tail)
    await (exchange.fin() if how == "end" else exchange.stop(how))


@fault()
async def refuse_first(
    exchange: Exchange, *, keep: int = 0, how: Literal["fin", "rst"] = "fin"
) -> None:
    """End the connection before any byte of a response, or after `keep` bytes of its head."""
    if keep:
        await exchange.send(response_head(200, stream_headers())[:keep])
    await exchange.stop(how)


@fault(always=True)
async def accept_and_close(exchange: Exchange, *, head: bool = False, how: How = "fin") -> None:
    """Accept forever and send nothing, or a head only, and end the connection."""
    if head:
        await exchange.head()
    await exchange.stop(how if head or how != "end" else "fin")
