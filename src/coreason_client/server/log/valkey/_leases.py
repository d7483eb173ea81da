"""Leases of streams on the store: renewed together, and given up one by one."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

from ...errors import Fenced, UnknownStream
from .._rules import new_epoch
from ..base import LeaseState
from . import _scripts as scripts
from ._keys import KeyNames
from ._session import Session

__all__ = ["release", "renew"]

_AT_ONCE = 100  # leases in one script, which holds the store for less than a millisecond
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
        until, ids = session.now() + lease, list(held)
        size = 1 if session.store.is_cluster else _AT_ONCE  # the streams may be on different nodes
        *replies, _ = await asyncio.gather(
            *(
                session.store.script(
                    scripts.RENEW,
                    [keys.meta(id_) for id_ in some],
                    repr(until),
                    *(held[id_] for id_ in some),
                )
                for some in (ids[start : start + size] for start in range(0, len(ids), size))
            ),
            session.measure_clock(),
        )
        states_of_all = chain.from_iterable(replies)
        words = {id_: state.split(b" ") for id_, state in zip(ids, states_of_all, strict=True)}
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
    reply: Sequence[bytes] = await session.store.confirmed_script(
        scripts.RELEASE, [keys.meta(stream_id)], epoch, repr(now), new_epoch()
    )
    if reply[0] == b"unknown":
        raise UnknownStream(stream_id)
    if reply[0] == b"fenced":
        raise Fenced(stream_id, epoch)
    await session.indexes.end_lease(stream_id, now, reply[1].decode("ascii"))
