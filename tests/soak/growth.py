"""An hour's worth of streams on Postgres: what expires leaves tables and indexes flat.

Five streams begin in a second of the hour, each with 30 packets, as fast as the server takes them.
Streams expire after 5 to 10 seconds. Conversations, which are kept for longer, are not counted.
"""

import asyncio
import sys
from uuid import uuid4

from coreason_client.server.log.base import NewStream
from coreason_client.server.log.postgres import PostgresStreamLog

from ..server.log.postgres_server import PostgresServer
from .tally import Row, plain, titled

_STREAMS, _PACKETS = 18_000, 30
_AT_ONCE, _BETWEEN_EXPIRIES = 100, 1_500
_ENTRIES, _STATUS = 5.0, 10.0  # seconds for which they are kept
_GROWTH = 1.3  # of the largest size in the first half
_SCHEMA = "growth"


async def growth_rows() -> tuple[list[Row], str]:
    """Return the sizes during an hour's worth of streams, and no stderr."""
    print("  growth", file=sys.stderr)
    server = await asyncio.to_thread(PostgresServer)
    try:
        log = PostgresStreamLog(server.url, schema=_SCHEMA)
        await log.start("me")
        try:
            sizes = [await _written(log, server) for _ in range(_STREAMS // _BETWEEN_EXPIRIES)]
        finally:
            await log.stop("me")
    finally:
        await asyncio.to_thread(server.close)
    # The largest of each half: the sizes in between depend on when autovacuum last ran.
    half = len(sizes) // 2
    halves = (sizes[:half], sizes[half:])
    first, last = ([max(size) for size in zip(*part, strict=True)] for part in halves)
    rows = [
        plain("streams", f"{_STREAMS:,} of {_PACKETS} packets"),
        *(
            Row(
                f"largest size of {what} in the first and in the last half",
                f"{before / 1e6:.1f} and {after / 1e6:.1f} MB",
                after <= before * _GROWTH,
            )
            for what, before, after in zip(("tables", "indexes"), first, last, strict=True)
        ),
    ]
    return titled("growth", rows), ""


async def _written(log: PostgresStreamLog, server: PostgresServer) -> tuple[int, int]:
    """Write some streams, let others expire, and return the sizes of tables and indexes."""
    for _ in range(_BETWEEN_EXPIRIES // _AT_ONCE):
        await asyncio.gather(*(_stream(log) for _ in range(_AT_ONCE)))
        await log.expire(_ENTRIES, _STATUS)
    query = (
        "SELECT sum(pg_relation_size(oid)), sum(pg_indexes_size(oid)) FROM pg_class"
        " WHERE relnamespace = $1::regnamespace AND relkind = 'r'"
    )
    ((tables, indexes),) = await asyncio.to_thread(server.execute, query, _SCHEMA)
    return int(tables), int(indexes)


async def _stream(log: PostgresStreamLog) -> None:
    stream = NewStream(uuid4(), "ann", uuid4(), "f", b"q" * 500)
    await log.open(stream, "me")
    for seq in range(1, _PACKETS + 1):
        await log.append(stream.stream_id, 1, seq, [b"x" * 200])
    await log.renew({stream.stream_id: 1})
    await log.close(stream.stream_id, 1, _PACKETS + 1, [b"end"], "complete")
