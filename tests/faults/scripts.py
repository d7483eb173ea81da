"""The faults: one small script each, found by name in ``FAULTS``.

A script answers one request.  The faults that strike once (the default) take two options besides
their own: ``times``, the number of attempts that suffer (1), and ``every``, how many packets
further each of these attempts gets than the one before (0).  Attempts after that are answered
correctly.  Scripts marked ``always`` see every attempt and take only their own options.

``how`` says the way in which a cut ends the connection: ``fin``, ``rst``, or ``end``, which is a
clean end of the body with the connection kept.  ``describe()`` gives one sentence for each name.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from .wire import (
    BOM,
    LAST_CHUNK,
    Packet,
    block,
    chunk,
    chunk_header,
    compact,
    number,
    pieces,
    reason,
    response_head,
    sse,
    stream_headers,
)

if TYPE_CHECKING:
    from .server import Exchange

Script = Callable[..., Awaitable[None]]
LogBuilder = Callable[..., list[Packet]]
How = Literal["fin", "rst", "end"]
Loss = Literal["fin", "hang"]

FOREVER: Final = 10**9
MIB: Final = 1024 * 1024
PIECE: Final = 64 * 1024
EMOJI: Final = "\N{GRINNING FACE}"

# Each line must be ignored.  The last but one holds characters that are no line ends in SSE,
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What a log of packets is built from."""

    stream_id: str
    count: int
    fault_after: int
    word: str

    def words(self, count: int | None = None) -> list[tuple[str, str | dict[str, Any]]]:
        """Return the numbered words as DELTA payloads."""
        total = self.count if count is None else count
        return [("DELTA", self.word.replace("{n}", str(n))) for n in range(1, total + 1)]


@dataclass(frozen=True, slots=True)
class Fault:
    """A script with its name, its log and the options that it takes."""

    name: str
    summary: str
    script: Script
    log: LogBuilder
    always: bool

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that nobody reads: a fault that silently differs proves nothing."""
        common = set() if self.always else {"times", "every"}
        allowed = common | _keywords(self.script) | _keywords(self.log)
        if unknown := sorted(set(options) - allowed):
            message = f"{self.name} takes {sorted(allowed)}, not {unknown}"
            raise TypeError(message)
        for name, value in options.items():
            choice = _choices(self.script).get(name)
            if choice is not None and value not in choice:
                message = f"{self.name}: {name} is one of {choice}, not {value!r}"
                raise ValueError(message)

    def build(self, plan: Plan, options: Mapping[str, Any]) -> list[Packet]:
        """Build the packets of the logical stream."""
        return self.log(plan, **_chosen(self.log, options))

    async def play(self, exchange: Exchange) -> None:
        """Answer one request, with the fault if this attempt is to suffer."""
        if self.always or exchange.strikes:
            await self.script(exchange, **_chosen(self.script, exchange.options))
        else:
            await exchange.serve_rest()


FAULTS: Final[dict[str, Fault]] = {}


def describe() -> dict[str, str]:
    """Return one sentence for each fault, by name."""
    return {name: fault.summary for name, fault in FAULTS.items()}


def _keywords(function: Callable[..., object]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {item.name for item in parameters if item.kind is item.KEYWORD_ONLY}


def _choices(script: Script) -> dict[str, tuple[object, ...]]:
    # Exchange is known to type checkers only, so any class stands in for it.
    hints = get_type_hints(script, localns={"Exchange": object})
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _chosen(function: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _keywords(function) & set(options)}


# The logs: what the server has, whatever a fault makes of it on the way.

_CLOSE: Final[tuple[str, str | dict[str, Any]]] = ("CLOSE", {"reason": "done"})


def plain_log(plan: Plan) -> list[Packet]:
    """Build the words and a CLOSE, numbered from 1 without a gap."""
    return number(plan.stream_id, [*plan.words(), _CLOSE])


def emoji_log(plan: Plan) -> list[Packet]:
    """Build the plain log with a character of four bytes in every word."""
    return plain_log(replace(plan, word=plan.word + EMOJI))


def gap_log(plan: Plan, *, skip: int = 2) -> list[Packet]:
    """Build the plain log with numbers left out after the point of the fault."""
    ahead = plan.fault_after
    return [
        packet if packet.seq <= ahead else replace(packet, seq=packet.seq + skip)
        for packet in plain_log(plan)
    ]


def swapped_log(plan: Plan) -> list[Packet]:
    """Build the plain log with the two packets after the point of the fault swapped."""
    packets = plain_log(plan)
    at = plan.fault_after
    return [*packets[:at], packets[at + 1], packets[at], *packets[at + 2 :]]


def far_jump_log(plan: Plan) -> list[Packet]:
    """Build the plain log with one number far too high at the point of the fault."""
    packets = plain_log(plan)
    at = plan.fault_after
    return [*packets[:at], replace(packets[at], seq=999), *packets[at + 1 :]]


def low_close_log(plan: Plan) -> list[Packet]:
    """Build the plain log with a CLOSE whose number is not above the last one."""
    *words, last = plain_log(plan)
    return [*words, replace(last, seq=words[-1].seq)]


def stream_error(
    severity: str, *, retry_after: float | None = None, code: str = "model_unavailable"
) -> dict[str, Any]:
    """Build the payload of an ERROR packet."""
    error: dict[str, Any] = {"code": code, "message": f"a {severity} one", "severity": severity}
    return error if retry_after is None else error | {"details": {"retry_after": retry_after}}


def _with_error(plan: Plan, error: dict[str, Any]) -> list[Packet]:
    words = plan.words()
    at = plan.fault_after
    return number(plan.stream_id, [*words[:at], ("ERROR", error), *words[at:], _CLOSE])


def transient_log(plan: Plan, *, retry_after: float | None = None) -> list[Packet]:
    """Build the plain log with a TRANSIENT error at the point of the fault."""
    return _with_error(plan, stream_error("TRANSIENT", retry_after=retry_after))


def warning_log(plan: Plan) -> list[Packet]:
    """Build the plain log with a WARNING at the point of the fault."""
    return _with_error(plan, stream_error("WARNING"))


def fatal_log(plan: Plan) -> list[Packet]:
    """Build a log that ends with a FATAL error at the point of the fault."""
    return _with_error(plan, stream_error("FATAL"))[: plan.fault_after + 1]


def unfinished_log(plan: Plan) -> list[Packet]:
    """Build the words up to the point of the fault, and no end."""
    return number(plan.stream_id, plan.words(plan.fault_after))


def fault(*, always: bool = False, log: LogBuilder = plain_log) -> Callable[[Script], Script]:
    """Enter a script into ``FAULTS`` under its own name."""

    def enter(script: Script) -> Script:
        name = script.__name__
        FAULTS[name] = Fault(name, (script.__doc__ or "").strip(), script, log, always)
        return script

    return enter


# What several scripts share.


async def _cut(exchange: Exchange, event: bytes, keep: int, how: How) -> None:
    """Send the first bytes of an event and end the connection there."""
    if how == "end":
        await exchange.chunk(event[:keep])  # a body can only end cleanly after a whole chunk
    else:
        await exchange.part(event, keep)
    await exchange.stop(how)


async def _cut_in_half(exchange: Exchange, rest: list[Packet], how: How) -> None:
    """End the connection in the middle of the next event."""
    event = sse(rest[0]) if rest else b""
    await _cut(exchange, event, len(event) // 2, how)


async def _lose(exchange: Exchange, loss: Loss = "fin") -> None:
    """Send up to the point of the fault and lose the connection in the middle of an event."""
    rest = await exchange.until_fault()
    if loss == "hang":
        await exchange.hang()
    else:
        await _cut_in_half(exchange, rest, "fin")


async def _replace_next(exchange: Exchange, data: Callable[[Packet], bytes]) -> None:
    """Send other data in place of the next packet, then all the rest and a clean end."""
    first, *rest = await exchange.until_fault()
    # The rest follows, so that a client which merely skips the bad packet ends "well" and is seen.
    await exchange.chunk(block(data(first), first.event_id))
    await exchange.events(rest)
    await exchange.end()


# Lost connections.


@fault()
async def rst_mid_event(exchange: Exchange) -> None:
    """Reset the connection in the middle of an event."""
    await _cut_in_half(exchange, await exchange.until_fault(), "rst")


@fault()
async def fin_mid_event_chunked(exchange: Exchange, *, whole_chunk: bool = False) -> None:
    """End a chunked body with FIN in the middle of an event, inside a chunk or after one."""
    rest = await exchange.until_fault()
    if whole_chunk:
        event = sse(rest[0])
        await exchange.chunk(event[: len(event) // 2])
        await exchange.fin()
    else:
        await _cut_in_half(exchange, rest, "fin")


@fault()
async def fin_mid_event_close_delimited(exchange: Exchange) -> None:
    """End a body without a length with FIN in the middle of an event."""
    await _cut_in_half(exchange, await exchange.until_fault(chunked=False), "fin")


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
    await _cut(exchange, event, event.index(EMOJI.encode()) + keep, how)


@fault()
async def cut_between_cr_and_lf(
    exchange: Exchange, *, line: Literal["id", "data", "blank"] = "blank", how: How = "fin"
) -> None:
    """End the connection between CR and LF; after the blank line's CR the event is complete."""
    event = sse((await exchange.until_fault(eol=b"\r\n"))[0], eol=b"\r\n")
    ends = [at for at, byte in enumerate(event, 1) if byte == ord("\r")]
    await _cut(exchange, event, ends[("id", "data", "blank").index(line)], how)


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
async def refuse_first(exchange: Exchange, *, how: Literal["fin", "rst"] = "fin") -> None:
    """End the connection before any byte of a response."""
    await exchange.stop(how)


@fault(always=True)
async def accept_and_close(exchange: Exchange, *, head: bool = False, how: How = "fin") -> None:
    """Accept for ever and send nothing, or a head only, and end the connection."""
    if head:
        await exchange.head()
    await exchange.stop(how if head or how != "end" else "fin")


# Answers that are no stream.


async def _answer_status(
    exchange: Exchange,
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


async def _answer_html(exchange: Exchange) -> None:
    page = b"<!doctype html><title>Sign in</title><p>data: not an event\n\n"
    await exchange.respond(200, page, content_type="text/html; charset=utf-8")


@fault(always=True)
async def status_on_reconnect(
    exchange: Exchange,
    *,
    status: int = 503,
    retry_after: float | str | None = None,
    times: int = 1,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    loss: Loss = "fin",
) -> None:
    """Lose the first connection and answer the next ``times`` reconnects with a status."""
    if exchange.attempt == 1:
        await _lose(exchange, loss)
    elif exchange.attempt <= times + 1:
        await _answer_status(exchange, status, headers, retry_after=retry_after, body=body)
    else:
        await exchange.serve_rest()


@fault(always=True)
async def html_on_reconnect(exchange: Exchange, *, times: int = 1) -> None:
    """Lose the first connection and answer the next ``times`` reconnects with a web page."""
    if exchange.attempt == 1:
        await _lose(exchange)
    elif exchange.attempt <= times + 1:
        await _answer_html(exchange)
    else:
        await exchange.serve_rest()


@fault()
async def status_first(
    exchange: Exchange,
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
async def stalled_status_first(exchange: Exchange, *, status: int = 503) -> None:
    """Answer the first attempt with a status whose body never arrives in full."""
    headers = {"Content-Type": "application/json", "Content-Length": "1000"}
    await exchange.send(response_head(status, headers) + b'{"detail":')
    await exchange.hang()


@fault()
async def html_first(exchange: Exchange) -> None:
    """Answer the first attempt with 200 and a web page."""
    await _answer_html(exchange)


@fault()
async def no_content_first(exchange: Exchange) -> None:
    """Answer the first attempt with 204."""
    await exchange.respond(204)


@fault(always=True)
async def redirect(
    exchange: Exchange,
    *,
    status: int = 307,
    cross_origin: bool = False,
    relative: bool = False,
    cut: bool = False,
    cors: bool = False,
) -> None:
    """Redirect to ``/moved``, here or on the other origin; ``cut`` loses the first answer there."""
    if exchange.request.path != "/moved":
        run = exchange.run
        base = run.other_base_url if cross_origin else run.base_url
        target = f"/{run.id}/moved" if relative else f"{base}/moved"
        await exchange.respond(status, headers={"Location": target})
    elif cut and exchange.visit == 1:
        await _lose(exchange)
    elif exchange.request.method == "OPTIONS":
        await exchange.respond(204, headers=_CORS if cors else None)
    else:
        await exchange.serve(exchange.owed(), headers=_CORS if cors else None)


# With ``cors`` the pages of any origin may read what ``redirect`` serves.
_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "content-type, x-request-id, last-event-id",
}


@fault(always=True)
async def redirect_loop(exchange: Exchange, *, status: int = 307) -> None:
    """Redirect for ever, each time to another query of the same path."""
    location = f"{exchange.run.base_url}/assist?hop={exchange.attempt}"
    await exchange.respond(status, headers={"Location": location})


# Numbers and identities.


@fault(always=True)
async def ignores_last_event_id(exchange: Exchange) -> None:
    """Lose the first connection and replay everything from the start on each reconnect."""
    if exchange.attempt == 1:
        await _lose(exchange)
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
    """Number with a gap: ``skip`` numbers do not exist."""
    await exchange.serve_rest()


@fault(always=True)
async def different_stream_after_reconnect(exchange: Exchange, *, loss: Loss = "fin") -> None:
    """Lose the first connection and answer reconnects with another stream from its start."""
    if exchange.attempt == 1:
        await _lose(exchange, loss)
    else:
        other = exchange.run.other_stream_id
        await exchange.serve([replace(item, stream_id=other) for item in exchange.run.packets])


@fault(always=True)
async def no_ids(exchange: Exchange) -> None:
    """Write no id lines at all and lose the first connection."""
    if exchange.attempt == 1:
        rest = await exchange.until_fault(with_id=False)
        event = sse(rest[0], with_id=False)
        await _cut(exchange, event, len(event) // 2, "fin")
    else:
        await exchange.serve(exchange.owed(), with_id=False)


@fault()
async def id_only_cursor(exchange: Exchange) -> None:
    """Write ids only in a block without data after the last packet, and lose the connection."""
    rest = await exchange.until_fault(with_id=False)
    await exchange.chunk(b"id: %s:%d\n\n" % (rest[0].stream_id.encode(), rest[0].seq - 1))
    # The unfinished block has an id too, which must be discarded with it.
    await _cut_in_half(exchange, rest, "fin")


# Contents.


@fault(always=True)
async def garbage_lines(exchange: Exchange) -> None:
    """Write unknown fields, lines without a colon and comments before and inside events."""
    owed = exchange.owed()
    await exchange.head()
    for index, packet in enumerate(owed):
        own_block = b"\n" if index % 2 else b""
        await exchange.chunk(GARBAGE + own_block + sse(packet))
    await exchange.end()


@fault()
async def truncated_utf8_in_packet(exchange: Exchange) -> None:
    """Send a complete event whose JSON holds three of the four bytes of a character."""
    await _replace_next(
        exchange,
        lambda packet: replace(packet, p=EMOJI).json().replace(EMOJI.encode(), EMOJI.encode()[:3]),
    )


@fault()
async def bad_json(exchange: Exchange) -> None:
    """Send a complete event whose data is not JSON."""
    await _replace_next(exchange, lambda packet: packet.json()[:-1])


@fault()
async def unknown_op(exchange: Exchange, *, op: str = "PING") -> None:
    """Send a packet with an operation that does not exist."""
    await _replace_next(exchange, lambda packet: replace(packet, op=op).json())


@fault()
async def missing_field(exchange: Exchange, *, field: str = "op") -> None:
    """Send a packet without one of its fields."""

    def without(packet: Packet) -> bytes:
        fields = packet.fields()
        del fields[field]
        return compact(fields)

    await _replace_next(exchange, without)


@fault()
async def string_error(exchange: Exchange) -> None:
    """Send an ERROR packet whose payload is a string."""
    await _replace_next(exchange, lambda packet: replace(packet, op="ERROR", p="boom").json())


@fault()
async def huge_event(
    exchange: Exchange, *, size: int = 64 * MIB, lines: bool = False, field: str = "data"
) -> None:
    """Send one event of ``size`` bytes, in one line or many, or one huge line of another field."""
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
async def slow_drip(exchange: Exchange, *, of: Literal["body", "wire"] = "body") -> None:
    """Write 1, 2, 3, 4, 1, ... bytes at a time, as chunks of their own or with the framing cut."""
    sizes = itertools.cycle((1, 2, 3, 4))
    write = exchange.chunk if of == "body" else exchange.send
    owed = exchange.owed()
    await exchange.head()
    for packet in owed:
        event = sse(packet)
        for piece in pieces(event if of == "body" else chunk(event), sizes):
            await write(piece)
    await exchange.end()


@fault(always=True)
async def keepalive_comments(exchange: Exchange, *, retry: int = 40) -> None:
    """Write comments, blocks with only an id and retry lines around all packets."""
    owed = exchange.owed()
    await exchange.head()
    await exchange.chunk(b": welcome\n\nretry: %d\n\n" % retry)
    for packet in owed:
        await exchange.chunk(b": keep-alive\n\n" + sse(packet))
        await exchange.chunk(b"id: %s\n\n: keep-alive\n:\n\n" % packet.event_id.encode())
        await exchange.chunk(b"event: ping\nretry: %d\n\n\n" % retry)
    await exchange.end()


@fault()
async def retry_field(exchange: Exchange, *, retry: int = 40) -> None:
    """Ask for a delay with a retry line and lose the connection."""
    rest = await exchange.until_fault()
    await exchange.chunk(b"retry: %d\n\n" % retry)
    await _cut_in_half(exchange, rest, "fin")


@fault(always=True)
async def draining(exchange: Exchange, *, empty: int = 5, retry: int = 1) -> None:
    """Ask to come back and end in order, then ``empty`` times more without a packet."""
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
    exchange: Exchange, *, interval: float = 0.02, beats: int = 3000
) -> None:
    """Send comments after the fault, for a minute, and no packet."""
    await exchange.until_fault()
    for _ in range(beats):  # or until the client goes away
        await exchange.chunk(b": heartbeat\n\n")
        await asyncio.sleep(interval)
    await exchange.end()


@fault(always=True)
async def bom(exchange: Exchange, *, split: bool = False) -> None:
    """Start the body with a byte order mark, in one chunk with the first event or in three."""
    first, *rest = exchange.owed()
    await exchange.head()
    start = BOM + sse(first)
    for piece in pieces(start, iter((1, 1, 1, len(start))) if split else iter((len(start),))):
        await exchange.chunk(piece)
    await exchange.events(rest)
    await exchange.end()


@fault(always=True)
async def cr_line_ends(exchange: Exchange) -> None:
    """End all lines with CR."""
    await exchange.serve(exchange.owed(), eol=b"\r")


@fault(always=True)
async def crlf_line_ends(exchange: Exchange, *, split: bool = False) -> None:
    """End all lines with CRLF; ``split`` puts every CR and its LF in different chunks."""
    owed = exchange.owed()
    await exchange.head()
    for packet in owed:
        event = sse(packet, eol=b"\r\n")
        for piece in event.replace(b"\r", b"\r\0").split(b"\0") if split else [event]:
            await exchange.chunk(piece)
    await exchange.end()


@fault(always=True)
async def gzip(exchange: Exchange, *, cut: bool = False) -> None:
    """Compress the body with gzip, flushed after each packet; ``cut`` loses the first answer."""
    squeeze = zlib.compressobj(wbits=31)
    cutting = cut and exchange.attempt == 1
    packets = exchange.split()[0] if cutting else exchange.owed()
    await exchange.head(headers={"Content-Encoding": "gzip"})
    for packet in packets:
        await exchange.chunk(squeeze.compress(sse(packet)) + squeeze.flush(zlib.Z_SYNC_FLUSH))
    if cutting:
        await exchange.fin()
    else:
        await exchange.chunk(squeeze.flush())
        await exchange.end()


# Errors inside the stream, ends, and no fault at all.


@fault(log=transient_log)
async def transient_error(exchange: Exchange, *, keep_open: bool = False) -> None:
    """Send a numbered TRANSIENT error on the first connection and end it."""
    rest = await exchange.until_fault()
    await exchange.events(rest[:1])
    await (exchange.hang() if keep_open else exchange.end())


@fault(always=True, log=unfinished_log)
async def transient_always(
    exchange: Exchange, *, retry_after: float | None = None, keep_open: bool = False
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
async def fatal_error(exchange: Exchange, *, keep_open: bool = False) -> None:
    """End the stream with a FATAL error in place of CLOSE."""
    await exchange.serve(exchange.owed(), end=not keep_open)


@fault(always=True, log=warning_log)
async def warning_error(exchange: Exchange) -> None:
    """Send a WARNING in the middle of a stream that goes on."""
    await exchange.serve_rest()


@fault(always=True)
async def close_then_keeps_open(exchange: Exchange) -> None:
    """Send everything and CLOSE, and neither end the body nor close the connection."""
    await exchange.serve(exchange.owed(), end=False)


@fault(always=True)
async def correct(exchange: Exchange, *, content_type: str = "text/event-stream") -> None:
    """Answer every request as a correct server does."""
    await exchange.serve(exchange.owed(), content_type=content_type)
