"""Faults that answer with something else than a stream: a status, a web page, a redirect."""

from collections.abc import Mapping
from typing import Final

from ._exchange import Exchange
from ._parts import Loss, lose
from ._table import fault
from ._wire import compact, reason, response_head

__all__: list[str] = []  # the faults are found by name, in `FAULTS`


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
    """Lose the first connection and answer the next `times` reconnects with a status."""
    if exchange.attempt == 1:
        await lose(exchange, loss)
    elif exchange.attempt <= times + 1:
        await _answer_status(exchange, status, headers, retry_after=retry_after, body=body)
    else:
        await exchange.serve_rest()


@fault(always=True)
async def html_on_reconnect(exchange: Exchange, *, times: int = 1) -> None:
    """Lose the first connection and answer the next `times` reconnects with a web page."""
    if exchange.attempt == 1:
        await lose(exchange)
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
async def redirect_loop(exchange: Exchange, *, status: int = 307) -> None:
    """Redirect forever, each time to another query of the same path."""
    location = f"{exchange.run.base_url}/assist?hop={exchange.attempt}"
    await exchange.respond(status, headers={"Location": location})
