"""Errors inside a stream, unusual ends, and no fault at all."""

from ._exchange import Exchange
from ._logs import fatal_log, stream_error, transient_log, unfinished_log, warning_log
from ._table import fault
from ._wire import Packet

__all__: list[str] = []  # the faults are found by name, in `FAULTS`


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
    await exchange.serve(exchange.remaining(), end=not keep_open)


@fault(always=True, log=warning_log)
async def warning_error(exchange: Exchange) -> None:
    """Send a WARNING in the middle of a stream that goes on."""
    await exchange.serve_rest()


@fault(always=True)
async def close_then_keeps_open(exchange: Exchange) -> None:
    """Send everything and CLOSE, and neither end the body nor close the connection."""
    await exchange.serve(exchange.remaining(), end=False)


@fault(always=True)
async def correct(exchange: Exchange, *, content_type: str = "text/event-stream") -> None:
    """Answer every request as a correct server does."""
    await exchange.serve(exchange.remaining(), content_type=content_type)
