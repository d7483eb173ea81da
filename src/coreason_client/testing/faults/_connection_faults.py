"""Faults of connections and responses: losses, silence, statuses, web pages, redirects."""

from collections.abc import Mapping
from typing import Final, Literal

from ._exchange import FaultExchange, How, Loss, cut, cut_in_half, lose
from ._logs import EMOJI, emoji_log
from ._table import fault
from ._wire import (
    LAST_CHUNK,
    chunk,
    chunk_header,
    compact,
    reason,
    response_head,
    sse,
    stream_headers,
)


@fault()
async def rst_mid_event(exchange: FaultExchange) -> None:
    """Reset the connection in the middle of an event."""
    await cut_in_half(exchange, await exchange.until_fault(), "rst")


@fault()
async def fin_mid_event_chunked(exchange: FaultExchange, *, whole_chunk: bool = False) -> None:
    """End a chunked body with FIN in the middle of an event, inside a chunk or after one."""
    rest = await exchange.until_fault()
    if whole_chunk:
        event = sse(rest[0])
        await exchange.chunk(event[: len(event) // 2])
        await exchange.fin()
    else:
        await cut_in_half(exchange, rest, "fin")


@fault()
async def fin_mid_event_close_delimited(exchange: FaultExchange) -> None:
    """End a body without a length with FIN in the middle of an event."""
    await cut_in_half(exchange, await exchange.until_fault(chunked=False), "fin")


@fault()
async def clean_end_without_close(exchange: FaultExchange) -> None:
    """End a chunked body cleanly between two events, without a CLOSE packet."""
    await exchange.until_fault()
    await exchange.end()


@fault()
async def clean_end_close_delimited(exchange: FaultExchange) -> None:
    """End a body without a length between two events, without a CLOSE packet."""
    await exchange.until_fault(chunked=False)
    await exchange.fin()


@fault()
async def stall(
    exchange: FaultExchange, *, at: Literal["head", "event", "mid_event"] = "event"
) -> None:
    """Never send another byte and keep the connection: before the head, or after some packets."""
    if at != "head":
        rest = await exchange.until_fault()
        if at == "mid_event":
            event = sse(rest[0])
            await exchange.part(event, len(event) // 2)
    await exchange.hang()


@fault(log=emoji_log)
async def cut_inside_utf8(exchange: FaultExchange, *, keep: int = 2, how: How = "fin") -> None:
    """End the connection after some of the four bytes of one character."""
    event = sse((await exchange.until_fault())[0])
    await cut(exchange, event, event.index(EMOJI.encode()) + keep, how)


@fault()
async def cut_between_cr_and_lf(
    exchange: FaultExchange, *, line: Literal["id", "data", "blank"] = "blank", how: How = "fin"
) -> None:
    """End the connection between CR and LF; after the blank line's CR the event is complete."""
    event = sse((await exchange.until_fault(eol=b"\r\n"))[0], eol=b"\r\n")
    ends = [at for at, byte in enumerate(event, 1) if byte == ord("\r")]
    await cut(exchange, event, ends[("id", "data", "blank").index(line)], how)


@fault()
async def cut_in_chunk_header(
    exchange: FaultExchange, *, keep: int = 1, how: Literal["fin", "rst"] = "fin"
) -> None:
    """End the connection inside the line that announces the next chunk."""
    event = sse((await exchange.until_fault())[0])
    await exchange.send(chunk_header(len(event))[:keep])
    await exchange.stop(how)


@fault()
async def burst_then_rst(exchange: FaultExchange, *, how: How = "rst") -> None:
    """Send all up to the fault in one write and reset at once, with the data still unread."""
    before, _ = exchange.split()
    body = b"".join(chunk(sse(packet)) for packet in before)
    tail = LAST_CHUNK if how == "end" else b""
    await exchange.send(response_head(200, stream_headers()) + body + tail)
    await (exchange.fin() if how == "end" else exchange.stop(how))


@fault()
async def refuse_first(
    exchange: FaultExchange, *, keep: int = 0, how: Literal["fin", "rst"] = "fin"
) -> None:
    """End the connection before any byte of a response, or after `keep` bytes of its head."""
    if keep:
        await exchange.send(response_head(200, stream_headers())[:keep])
    await exchange.stop(how)


@fault(always=True)
async def accept_and_close(
    exchange: FaultExchange, *, head: bool = False, how: How = "fin"
) -> None:
    """Accept forever and send nothing, or a head only, and end the connection."""
    if head:
        await exchange.head()
    await exchange.stop(how if head or how != "end" else "fin")


# Responses that are not a stream.


async def _answer_status(
    exchange: FaultExchange,
    status: int,
    headers: Mapping[str, str] | None = None,
    *,
    retry_after: float | str | None = None,
    body: bytes | None = None,
    content_type: str = "application/json",
) -> None:
    extra = dict(headers or {})
    if retry_after is not None:
        extra["Retry-After"] = str(retry_after)
    content = compact({"detail": f"{status} {reason(status)}"}) if body is None else body
    await exchange.respond(status, content, content_type=content_type, headers=extra)


async def _answer_html(exchange: FaultExchange) -> None:
    page = b"<!doctype html><title>Sign in</title><p>data: not an event\n\n"
    await exchange.respond(200, page, content_type="text/html; charset=utf-8")


@fault(always=True)
async def status_on_reconnect(
    exchange: FaultExchange,
    *,
    status: int = 503,
    retry_after: float | str | None = None,
    times: int = 1,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    loss: Loss = "fin",
) -> None:
    """Lose the first connection and answer the next `times` reconnects with a status."""
    if exchange.attempt == 1:
        await lose(exchange, loss)
    elif exchange.attempt <= times + 1:
        await _answer_status(exchange, status, headers, retry_after=retry_after, body=body)
    else:
        await exchange.serve_rest()


@fault(always=True)
async def html_on_reconnect(exchange: FaultExchange, *, times: int = 1) -> None:
    """Lose the first connection and answer the next `times` reconnects with a web page."""
    if exchange.attempt == 1:
        await lose(exchange)
    elif exchange.attempt <= times + 1:
        await _answer_html(exchange)
    else:
        await exchange.serve_rest()


@fault()
async def status_first(
    exchange: FaultExchange,
    *,
    status: int = 503,
    headers: Mapping[str, str] | None = None,
    retry_after: float | str | None = None,
    body: bytes | None = None,
    content_type: str = "application/json",
) -> None:
    """Answer the first attempt with a status and a body."""
    await _answer_status(
        exchange, status, headers, retry_after=retry_after, body=body, content_type=content_type
    )


@fault()
async def stalled_status_first(exchange: FaultExchange, *, status: int = 503) -> None:
    """Answer the first attempt with a status whose body never arrives in full."""
    headers = {"Content-Type": "application/json", "Content-Length": "1000"}
    await exchange.send(response_head(status, headers) + b'{"detail":')
    await exchange.hang()


@fault()
async def html_first(exchange: FaultExchange) -> None:
    """Answer the first attempt with 200 and a web page."""
    await _answer_html(exchange)


@fault()
async def no_content_first(exchange: FaultExchange) -> None:
    """Answer the first attempt with 204."""
    await exchange.respond(204)


@fault(always=True)
async def redirect(
    exchange: FaultExchange,
    *,
    status: int = 307,
    cross_origin: bool = False,
    relative: bool = False,
    cut: bool = False,
    cors: bool = False,
) -> None:
    """Redirect to `/moved`, here or on the other origin; `cut` loses the first answer there."""
    if exchange.request.path != "/moved":
        run = exchange.run
        base = run.other_base_url if cross_origin else run.base_url
        target = f"/{run.id}/moved" if relative else f"{base}/moved"
        await exchange.respond(status, headers={"Location": target})
    elif cut and exchange.path_attempt == 1:
        await lose(exchange)
    elif exchange.request.method == "OPTIONS":
        await exchange.respond(204, headers=_CORS if cors else None)
    else:
        await exchange.serve(exchange.remaining(), headers=_CORS if cors else None)


# With `cors` the pages of any origin may read what `redirect` serves.
_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "content-type, x-request-id, last-event-id",
}


@fault(always=True)
async def redirect_loop(exchange: FaultExchange, *, status: int = 307) -> None:
    """Redirect forever, each time to another query of the same path."""
    location = f"{exchange.run.base_url}/assist?hop={exchange.attempt}"
    await exchange.respond(status, headers={"Location": location})
