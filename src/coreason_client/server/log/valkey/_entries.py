"""Appending entries, ending a stream and reading pages, each with a script of the store."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from ...errors import Fenced, LogUnavailable, OutOfSequence, PositionGone, UnknownStream
from .._rules import text
from ..base import PAGE_BYTES, Notes, Page
from . import _scripts as scripts
from ._keys import KeyNames
from ._resp import Argument
from ._session import Session


def begin_append(
    session: Session,
    keys: KeyNames,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    notes: Notes | None = None,
) -> "asyncio.Future[bool]":
    """Begin an append; the result of the future is True if a cancel was requested."""
    names = [keys.meta(stream_id), keys.entries(stream_id)]
    safe = _safe(session, first_seq)

    def read_reply(line: bytes) -> bool:
        reply = _handle_append_reply(session, stream_id, epoch, first_seq, entries, line)
        return reply[1] == b"1"

    if notes is None:
        begun = session.store.begin_script(
            scripts.APPEND, names, read_reply, epoch, first_seq, b"", safe, *entries
        )
    else:
        names.append(keys.journal(stream_id))
        numbers = (epoch, first_seq, notes.first, len(notes.notes), safe)
        begun = session.store.begin_script(
            scripts.APPEND_NOTES, names, read_reply, *numbers, *notes.notes, *entries
        )
    if not (session.confirms and entries):
        return begun
    last = first_seq + len(entries) - 1
    return session.loop.create_task(_show_when_confirmed(session, stream_id, epoch, last, begun))


async def _show_when_confirmed(
    session: Session, stream_id: UUID, epoch: int, last: int, append: "asyncio.Future[bool]"
) -> bool:
    """Show entries to the readers of other processes when replicas have them."""
    cancel_requested = await append
    with suppress(LogUnavailable):  # then the next append shows them
        await session.show(stream_id, epoch, last)
    return cancel_requested


async def close_stream(
    session: Session,
    keys: KeyNames,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    outcome: str,
) -> None:
    """Append the last entries and end the stream."""
    names, arguments = end_arguments(session, keys, stream_id, epoch, first_seq, entries, outcome)
    line: bytes = await session.store.confirmed_script(scripts.APPEND, names, *arguments)
    ended = handle_end_reply(session, stream_id, epoch, first_seq, entries, line)
    await move_to_ended(session, stream_id, ended)


def end_arguments(
    session: Session,
    keys: KeyNames,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    outcome: str,
) -> tuple[list[str], tuple[Argument, ...]]:
    """Return the keys and the arguments of the script that ends a stream."""
    names = [
        keys.meta(stream_id),
        keys.entries(stream_id),
        keys.question(stream_id),
        keys.journal(stream_id),
    ]
    end = b"%b %b" % (repr(session.now()).encode(), text(outcome))
    return names, (epoch, first_seq, end, _safe(session, first_seq), *entries)


def _safe(session: Session, first_seq: int) -> Argument:
    """Return the number of the last entry that replicas have, nothing if none are waited for."""
    return first_seq - 1 if session.confirms else b""


def handle_end_reply(
    session: Session,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    line: bytes,
) -> Sequence[bytes]:
    """Show the end of a stream to readers, or raise the error; the rest is for `move_to_ended`."""
    reply = _handle_append_reply(session, stream_id, epoch, first_seq, entries, line)
    session.disown(stream_id)
    return reply[2:5]


async def move_to_ended(session: Session, stream_id: UUID, reply: Sequence[bytes]) -> None:
    """Move a stream from the leases to the ended streams."""
    ended, request, agent = reply
    if ended:
        # The stream has ended even if this fails: claims correct the indexes.
        with suppress(LogUnavailable):
            if session.confirms:
                await session.show(stream_id)
            await session.indexes.move_to_ended(
                stream_id, request.decode("ascii"), float(ended), agent.decode("ascii")
            )


def _handle_append_reply(
    session: Session,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    line: bytes,
) -> Sequence[bytes]:
    """Show accepted entries to readers, or raise the error; return the reply in parts."""
    reply: Sequence[bytes] = line.split(b" ")
    if reply[0] == b"ok":
        if entries:
            session.add_entries(stream_id, epoch, first_seq, entries)
        return reply
    if reply[0] == b"held":  # a repeated append: the store already had the entries
        session.drop_entries(stream_id)
        return reply
    session.disown(stream_id)
    if reply[0] == b"fenced":
        raise Fenced(stream_id, epoch)
    if reply[0] == b"gap":
        raise OutOfSequence(stream_id, first_seq, int(reply[1]))
    raise UnknownStream(stream_id)


async def read_page(
    session: Session,
    keys: KeyNames,
    stream_id: UUID,
    after_seq: int,
    after_epoch: int,
    limit: int,
) -> Page:
    """Return up to `limit` entries after a position, from the store."""
    names = [keys.meta(stream_id), keys.entries(stream_id)]
    reply: list[bytes] = await session.store.query(
        scripts.READ, names, after_seq, after_epoch, limit, PAGE_BYTES
    )
    state = reply[0]
    if state == b"unknown":
        raise UnknownStream(stream_id)
    if state in (b"gone", b"replaced"):
        raise PositionGone(stream_id, after_seq, replaced=state == b"replaced")
    if state == b"damaged":
        raise LogUnavailable(
            f"the store {session.name} has lost entries of the stream {stream_id}: it must not "
            "evict keys; set maxmemory-policy to noeviction",
            stream_id,
        )
    return Page(reply[2:], state == b"end", int(reply[1]))


async def read_journal(
    session: Session, keys: KeyNames, stream_id: UUID, after: int
) -> Sequence[bytes]:
    """Return notes of a stream after a number, up to the size of a page."""
    names = [keys.meta(stream_id), keys.journal(stream_id)]
    reply: list[bytes] = await session.store.query(scripts.JOURNAL, names, after, PAGE_BYTES)
    if reply[0] == b"unknown":
        raise UnknownStream(stream_id)
    return reply[1:]
