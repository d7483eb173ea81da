"""Leases of streams, claims of those whose lease ran out, and the expiry of what has ended.

Leases are renewed together and given up one by one. Claims and expiry work on a store that has
reached its `maxmemory`, because they free memory there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from uuid import UUID, uuid4

from ...errors import Fenced, LogUnavailable, UnknownStream
from .._rules import new_epoch
from ..base import UNCLAIMED_SECONDS, Claim, LeaseState
from . import _scripts as scripts
from ._keys import KeyNames, parse_name, parse_stream_id, split_member
from ._session import Session

_AT_ONCE = 100  # streams in one script, which holds the store for less than a millisecond
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


class Claims:
    """The claims of one call: all of them have the same time and the same unique name."""

    def __init__(
        self,
        session: Session,
        keys: KeyNames,
        lease: float,
        version: bytes = b"",
        on_ended: Callable[[UUID], Awaitable[None]] | None = None,
    ) -> None:
        self._session = session
        self._on_ended = on_ended
        self._keys = keys
        self._lease = lease
        self._version = version
        self._now = session.now()
        self._name = uuid4().hex

    async def claim_lost(self, limit: int) -> list[Claim]:
        """Take over streams whose lease ran out; durable ones only if nobody continues them."""
        claims: list[Claim] = []
        while (count := min(limit - len(claims), _AT_ONCE)) > 0:
            due = await self._session.indexes.due(self._keys.leases, self._now, count)
            if not due:
                break
            claims += await self._claim_all(due[:count], "")
        for agent in await self._session.indexes.agents():
            claims += await self._claim_once(agent, UNCLAIMED_SECONDS, limit - len(claims))
        return claims

    async def claim_durable(self, agent: str, limit: int) -> list[Claim]:
        """Take over durable streams of an agent whose lease ran out."""
        await self._session.indexes.touch_agent(agent, self._now)
        return await self._claim_once(agent, 0.0, limit)

    async def _claim_once(self, agent: str, wait: float, limit: int) -> list[Claim]:
        # The index may have streams that must not be claimed yet, so it is read once.
        if limit <= 0:
            return []
        index = self._keys.durable_leases(agent)
        due = await self._session.indexes.due(index, self._now - wait, limit + _AT_ONCE)
        claims: list[Claim] = []
        while due and len(claims) < limit:
            count = min(limit - len(claims), _AT_ONCE)
            claims += await self._claim_all(due[:count], agent)
            due = due[count:]
        return claims

    async def _claim_all(self, members: Sequence[bytes], agent: str) -> list[Claim]:
        found = await asyncio.gather(
            *(self.claim(parse_stream_id(member), agent) for member in members)
        )
        return [one for one in found if one is not None]

    async def claim(
        self, stream_id: UUID, agent: str = "", held: int | None = None
    ) -> Claim | None:
        """Take over a stream if its lease has run out, and correct the index.

        With `held`, the epoch in which the caller holds the stream, the lease does not matter.
        """
        session, keys, now = self._session, self._keys, self._now
        owned_until = session.owned.now() + self._lease
        reply: Sequence[bytes] = await session.store.confirmed_script(
            scripts.CLAIM,
            [keys.meta(stream_id), keys.question(stream_id)],
            *(repr(now), repr(now + self._lease), self._name, new_epoch()),
            *(self._version, repr(self._lease), repr(UNCLAIMED_SECONDS)),
            "" if held is None else held,
        )
        state = reply[0]
        if state == b"gone":
            await session.indexes.remove_lease(stream_id, agent)
        elif state == b"ended":
            ended, request = float(reply[1]), reply[2].decode("ascii")
            await session.show(stream_id)  # its producer may have died before it did so
            if await self._is_settled(stream_id, ended):
                await session.indexes.move_to_ended(stream_id, request, ended, agent)
            else:
                await session.indexes.extend_leases({stream_id: agent}, now + self._lease)
        elif state in (b"held", b"won"):
            until = reply[1] if state == b"held" else reply[3]
            await session.indexes.extend_leases({stream_id: agent}, float(until))
        if state != b"won":
            return None
        if session.confirms:
            await session.show(stream_id, int(reply[1]), int(reply[2]))
        if self._version:
            session.owned.own(stream_id, owned_until)
        return Claim(stream_id, int(reply[1]), int(reply[2]), reply[4])

    async def _is_settled(self, stream_id: UUID, ended: float) -> bool:
        """Store the state of the task of an ended stream; return False if another process must.

        A process without tasks leaves that to the others, but not for ever.
        """
        meta = self._keys.meta(stream_id)
        task: bytes | None = await self._session.store.command("HGET", meta, "task")
        if task is not None and self._on_ended is not None:
            await self._on_ended(parse_stream_id(task))
        elif task is not None:
            return self._now - ended >= UNCLAIMED_SECONDS
        return True


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
        [
            keys.meta(stream_id),
            keys.entries(stream_id),
            keys.question(stream_id),
            keys.journal(stream_id),
        ],
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
        agent: bytes | None = await session.store.command("HGET", keys.meta(stream_id), "durable")
        leases = {stream_id: parse_name(agent) if agent else ""}
        await session.indexes.extend_leases(leases, session.now())
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
