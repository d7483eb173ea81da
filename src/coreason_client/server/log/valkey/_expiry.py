"""Claims of streams whose lease ran out, and the expiry of ended streams and conversations.

All of it works on a store that has reached its `maxmemory`, because it frees memory there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID, uuid4

from ...errors import LogUnavailable
from ..base import Claim
from . import _scripts as scripts
from ._keys import KeyNames, parse_name, parse_stream_id, split_member
from ._session import Session

__all__ = ["claim", "claim_expired", "drop_old"]

_AT_ONCE = 100  # streams handled together


async def claim_expired(session: Session, keys: KeyNames, lease: float, limit: int) -> list[Claim]:
    """Take over unfinished streams whose lease ran out, at most `limit` of them.

    Raises:
        LogUnavailable: the store does not answer, or rejects a command.
        ForeignValue: an index has a member that the log did not write.
    """
    now, name = session.now(), uuid4().hex
    claims: list[Claim] = []
    while (count := min(limit - len(claims), _AT_ONCE)) > 0:
        due = (await session.indexes.due(keys.leases, now, count))[:count]
        if not due:
            break
        ids = [parse_stream_id(member) for member in due]
        found = await asyncio.gather(
            *(claim(session, keys, stream_id, now, now + lease, name) for stream_id in ids)
        )
        claims += [one for one in found if one is not None]
    return claims


async def claim(
    session: Session, keys: KeyNames, stream_id: UUID, now: float, until: float, name: str
) -> Claim | None:
    """Take over a stream if its lease has run out, and correct the index."""
    reply: Sequence[bytes] = await session.store.script(
        scripts.CLAIM,
        [keys.meta(stream_id), keys.question(stream_id)],
        repr(now),
        repr(until),
        name,
    )
    state = reply[0]
    if state == b"gone":
        await session.indexes.remove_lease(stream_id)
    elif state == b"ended":
        await session.indexes.move_to_ended(stream_id, reply[2].decode("ascii"), float(reply[1]))
    elif state == b"held":
        await session.indexes.extend_leases([stream_id], float(reply[1]))
    else:
        await session.indexes.extend_leases([stream_id], float(reply[3]))
        return Claim(stream_id, int(reply[1]), int(reply[2]), reply[4])
    return None


async def drop_old(session: Session, keys: KeyNames, body: float, final: float) -> None:
    """Drop the entries of streams that ended up to `body`, and all data up to `final`.

    A failure in one of the three indexes does not stop the work on the others.

    Raises:
        LogUnavailable, ForeignValue: the first failure.
    """
    drop = partial(_drop, session, keys, body, final)
    forget = partial(_forget_turns, session, keys, final)
    errors: list[BaseException] = []
    for index, due, work in (
        (keys.bodies, body, drop),
        (keys.finals, final, drop),
        (keys.conversations, final, forget),
    ):
        errors += await _handle_due(session, index, due, work)
    if errors:
        raise errors[0]


async def _handle_due(
    session: Session, index: Sequence[str], due: float, work: Callable[[bytes], Awaitable[None]]
) -> list[BaseException]:
    """Handle all members of an index that are due; stop at the first batch with a failure."""
    errors: list[BaseException] = []
    try:
        while not errors and (members := await session.indexes.due(index, due, _AT_ONCE)):
            done = await asyncio.gather(*map(work, members), return_exceptions=True)
            errors = [result for result in done if result is not None]
    except LogUnavailable as error:
        errors.append(error)
    return errors


async def _drop(session: Session, keys: KeyNames, body: float, final: float, member: bytes) -> None:
    stream_id, request = split_member(member)
    reply: Sequence[bytes] = await session.store.script(
        scripts.DROP,
        [keys.meta(stream_id), keys.entries(stream_id), keys.question(stream_id)],
        repr(body),
        repr(final),
    )
    state = reply[0]
    if state == b"gone":
        await session.store.script(scripts.FREE_REQUEST, [keys.request(request)], stream_id.hex)
        await session.indexes.remove_ended(stream_id, request)
    elif state == b"bare":
        await session.indexes.move_to_without_entries(stream_id, request, float(reply[1]))
    elif state == b"kept":
        await session.indexes.move_to_ended(stream_id, request, float(reply[1]))
    else:  # the store was restored from a backup in which the stream was running
        await session.indexes.extend_leases([stream_id], session.now())
        await session.indexes.remove_ended(stream_id, request)


async def _forget_turns(session: Session, keys: KeyNames, final: float, member: bytes) -> None:
    name = parse_name(member)
    touched: bytes = await session.store.script(
        scripts.FORGET_TURNS, [keys.turns(name), keys.order(name)], repr(final)
    )
    if touched:
        await session.indexes.correct_conversation(name, float(touched))
    else:
        await session.indexes.remove_conversation(name)
