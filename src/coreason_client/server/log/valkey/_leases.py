"""Leases of streams on the store: renewed together, and given up one by one."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from ...errors import Fenced, UnknownStream
from ..base import LeaseState
from . import _scripts as scripts
from ._keys import KeyNames
from ._session import Session

__all__ = ["release", "renew"]

_STATES = {
    b"held": LeaseState.HELD,
    b"cancel": LeaseState.CANCEL_REQUESTED,
    b"lost": LeaseState.LOST,
}


async def renew(
    session: Session, keys: KeyNames, lease: float, held: Mapping[UUID, int]
) -> Mapping[UUID, LeaseState]:
    """Renew the leases of streams held with these epochs."""
    async with session.renewing:
        until = session.now() + lease
        *replies, _ = await asyncio.gather(
            *(
                session.store.script(scripts.RENEW, [keys.meta(id_)], epoch, repr(until))
                for id_, epoch in held.items()
            ),
            session.measure_clock(),
        )
        words = {id_: reply.split(b" ") for id_, reply in zip(held, replies, strict=True)}
        states = {id_: _STATES[reply[0]] for id_, reply in words.items()}
        renewed = [id_ for id_, state in states.items() if state is not LeaseState.LOST]
        await session.indexes.extend_leases(
            {id_: words[id_][1].decode("ascii") for id_ in renewed}, until
        )
        return states


async def release(session: Session, keys: KeyNames, stream_id: UUID, epoch: int) -> None:
    """Give up a durable stream, so that it can be claimed at once.

    Raises:
        UnknownStream, Fenced: the stream does not exist, or belongs to another process.
    """
    # A renewal that has begun would set the time in the index again after the release.
    async with session.renewing:
        pass
    now = session.now()
    session.disown(stream_id)
    reply: Sequence[bytes] = await session.store.script(
        scripts.RELEASE, [keys.meta(stream_id)], epoch, repr(now)
    )
    if reply[0] == b"unknown":
        raise UnknownStream(stream_id)
    if reply[0] == b"fenced":
        raise Fenced(stream_id, epoch)
    await session.indexes.end_lease(stream_id, now, reply[1].decode("ascii"))
