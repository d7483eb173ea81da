"""Finding and opening the stream of a request. The steps are described in the package.

All functions may raise LogUnavailable, and ForeignValue if a key holds what the log did not write.
"""

from contextlib import suppress
from uuid import UUID, uuid4

from ...errors import LogUnavailable, RequestConflict
from ..base import NewStream, Opened, StreamMeta
from . import _scripts as scripts
from ._keys import KeyNames, digest, parse_stream_id
from ._meta import FIELDS, new_meta, parse_meta, text
from ._session import Session

__all__ = ["find_stream", "load_meta", "open_at_once", "open_in_steps"]


async def load_meta(session: Session, keys: KeyNames, stream_id: UUID) -> StreamMeta | None:
    """Describe a stream, None if there is none."""
    values = await session.store.command("HMGET", keys.meta(stream_id), *FIELDS)
    return parse_meta(stream_id, values)


async def find_stream(
    session: Session, keys: KeyNames, principal: str, request_id: UUID
) -> StreamMeta | None:
    """Describe the stream of a request, None if there is none."""
    key = keys.request(_request(principal, request_id))
    holder: bytes | None = await session.store.command("GET", key)
    return await _held_by(session, keys, holder)


async def open_at_once(session: Session, keys: KeyNames, lease: float, stream: NewStream) -> Opened:
    """Open a stream in one script, on a store that is no cluster."""
    until, now = session.owned.now() + lease, session.now()
    name = _request(stream.principal, stream.request_id)
    holder: bytes = await session.store.script(
        scripts.OPEN,
        [
            keys.request(name),
            keys.meta(stream.stream_id),
            keys.question(stream.stream_id),
            keys.lease_index(stream.stream_id),
        ],
        stream.stream_id.hex,
        uuid4().hex,
        keys.prefix,
        *_fields(stream, name, now, lease),
    )
    if holder:
        return await _open(session, keys, lease, stream, holder)
    session.owned.own(stream.stream_id, until)
    return Opened(new_meta(stream, now), created=True)


async def open_in_steps(
    session: Session, keys: KeyNames, lease: float, stream: NewStream
) -> Opened:
    """Open a stream on a cluster, where the request and the stream may be on two nodes."""
    key = keys.request(_request(stream.principal, stream.request_id))
    return await _open(session, keys, lease, stream, await session.store.command("GET", key))


async def _open(
    session: Session, keys: KeyNames, lease: float, stream: NewStream, holder: bytes | None
) -> Opened:
    """Return the stream that the request names, or let it name a new one."""
    until = session.owned.now() + lease
    own, name = stream.stream_id.hex.encode(), _request(stream.principal, stream.request_id)
    made: StreamMeta | None = None
    while True:
        if made is not None and holder == own:
            session.owned.own(stream.stream_id, until)
            return Opened(made, created=True)
        known = await _held_by(session, keys, holder)
        if known is not None:
            if made is not None:
                await _take_back(session, keys, stream.stream_id)
            if known.fingerprint != stream.fingerprint:
                raise RequestConflict(stream.request_id)
            return Opened(known, created=False)
        if made is None:
            made = await _make(session, keys, lease, stream, name)
        holder = await session.store.script(
            scripts.TAKE_REQUEST, [keys.request(name)], own, holder if holder is not None else b""
        )


async def _held_by(session: Session, keys: KeyNames, holder: bytes | None) -> StreamMeta | None:
    """Describe the stream that a request names."""
    return None if holder is None else await load_meta(session, keys, parse_stream_id(holder))


async def _make(
    session: Session, keys: KeyNames, lease: float, stream: NewStream, name: str
) -> StreamMeta:
    now = session.now()
    until = now + lease
    await session.indexes.opened(stream.stream_id, until)
    await session.store.script(
        scripts.CREATE,
        [keys.meta(stream.stream_id), keys.question(stream.stream_id)],
        *_fields(stream, name, now, lease),
    )
    if session.now() >= until:
        # The store was slow. A claim may have found a name without a stream in the index.
        await session.indexes.leased([stream.stream_id], until)
    return new_meta(stream, now)


def _fields(stream: NewStream, name: str, now: float, lease: float) -> tuple[str | bytes, ...]:
    return (
        text(stream.principal),
        stream.request_id.hex,
        text(stream.fingerprint),
        repr(now),
        repr(now + lease),
        name,
        stream.question,
    )


async def _take_back(session: Session, keys: KeyNames, stream_id: UUID) -> None:
    # Otherwise it ends as lost when its lease has run out.
    with suppress(LogUnavailable):
        await session.store.command("DEL", keys.meta(stream_id), keys.question(stream_id))
        await session.indexes.unleased(stream_id)


def _request(principal: str, request_id: UUID) -> str:
    return digest(principal, request_id.bytes)
