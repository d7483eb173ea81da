"""Deliveries on the store.

The hash of a task's deliveries is authoritative. An index by time may differ from it, always in the
direction that is safe: a delivery is in the index before it is in the hash, and leaves the index
only if nobody has changed its time there meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from ..deliveries import Delivery, DeliveryStore
from ._keys import KeyNames, parse_stream_id
from ._meta import text
from ._scripts import Script
from ._session import Session

__all__ = ["ValkeyDeliveries"]

# Seconds from now at which a delivery is looked for whose process ended while it stored it.
_UNFINISHED = 30.0
_FIELDS = ("revision", "due", "data", "progress")

# KEYS deliveries. ARGV name, limit, and the values of the fields. The name ends each field, because
# the others have no space. A delivery has four fields.
_PUT = Script("""
if not redis.call('HGET', KEYS[1], 'revision ' .. ARGV[1])
  and #redis.call('HGETALL', KEYS[1]) >= 8 * tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'revision ' .. ARGV[1], ARGV[3], 'due ' .. ARGV[1], ARGV[4],
  'data ' .. ARGV[1], ARGV[5], 'progress ' .. ARGV[1], ARGV[6])
return 1
""")

# KEYS deliveries. ARGV name, revision before, and the values of the fields. A change that is
# repeated because its reply was lost finds its own revision.
_REPLACE = Script("""
local revision = redis.call('HGET', KEYS[1], 'revision ' .. ARGV[1])
if revision == ARGV[3] then return 1 end
if revision ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'revision ' .. ARGV[1], ARGV[3], 'due ' .. ARGV[1], ARGV[4],
  'data ' .. ARGV[1], ARGV[5], 'progress ' .. ARGV[1], ARGV[6])
return 1
""")

# KEYS deliveries. The reply is a list of fields and values, in turn.
_ALL = Script("return redis.call('HGETALL', KEYS[1])")

# KEYS index. ARGV member, the time that it had, and its new time, empty if it leaves the index.
_MOVE = Script("""
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])) do
  if member == ARGV[1] then
    if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], member) end
    redis.call('ZADD', KEYS[1], ARGV[3], member)
    return 1
  end
end
return 0
""")

# KEYS index. ARGV time, limit. The reply is a list of members and times, in turn.
_DUE = Script("""
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
""")


class ValkeyDeliveries(DeliveryStore):
    """Deliveries that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], keys: KeyNames) -> None:
        self._session = session
        self._keys = keys

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        session = self._session()
        await self._schedule(delivery, session.now() + _UNFINISHED)
        key, name = self._keys.deliveries(delivery.task_id), text(delivery.name)
        stored = await session.store.confirmed_script(_PUT, [key], name, limit, *_values(delivery))
        if stored and delivery.due is not None:
            await self._schedule(delivery, delivery.due)
        return bool(stored)

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""
        key, name = self._keys.deliveries(old.task_id), text(old.name)
        stored = await self._session().store.confirmed_script(
            _REPLACE, [key], name, old.revision, *_values(new)
        )
        if not stored:
            return False
        if new.due is not None:
            await self._schedule(new, new.due)
        elif old.due is not None:
            await self._move(self._keys.delivery_index(old.task_id), _member(old), old.due, None)
        return True

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        key = self._keys.deliveries(task_id)
        flat: list[bytes] = await self._session().store.query(_ALL, [key])
        fields = _pairs(flat)
        names = sorted(name for kind, name in fields if kind == "revision")
        return [
            _delivery(task_id, name, [fields[kind, name] for kind in _FIELDS]) for name in names
        ]

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery; its member of the index goes when it is due."""
        fields = [f"{kind} ".encode() + text(name) for kind in _FIELDS]
        await self._session().store.command("HDEL", self._keys.deliveries(task_id), *fields)

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        session = self._session()
        replies: list[list[bytes]] = await asyncio.gather(
            *(
                session.store.query(_DUE, [key], repr(now), limit)
                for key in self._keys.due_deliveries
            )
        )
        found = await asyncio.gather(
            *(
                self._if_due(member, float(score), now)
                for reply in replies
                for member, score in zip(reply[::2], reply[1::2], strict=True)
            )
        )
        return [one for one in found if one is not None][:limit]

    async def _if_due(self, member: bytes, score: float, now: float) -> Delivery | None:
        """Return the delivery of an index member if it is due, otherwise correct the index."""
        task_id, name = parse_stream_id(member[:32]), member[33:].decode("utf-8", "surrogatepass")
        fields = [f"{kind} ".encode() + text(name) for kind in _FIELDS]
        values: list[bytes | None] = await self._session().store.command(
            "HMGET", self._keys.deliveries(task_id), *fields
        )
        stored = [value for value in values if value is not None]
        delivery = _delivery(task_id, name, stored) if len(stored) == len(_FIELDS) else None
        if delivery is not None and delivery.due is not None and delivery.due <= now:
            return delivery
        due = None if delivery is None else delivery.due
        await self._move(self._keys.delivery_index(task_id), member, score, due)
        return None

    async def _schedule(self, delivery: Delivery, due: float) -> None:
        key = self._keys.delivery_index(delivery.task_id)
        await self._session().store.command("ZADD", key, repr(due), _member(delivery))

    async def _move(self, key: str, member: bytes, old: float, new: float | None) -> None:
        time = "" if new is None else repr(new)
        await self._session().store.script(_MOVE, [key], member, repr(old), time)


def _member(delivery: Delivery) -> bytes:
    return delivery.task_id.hex.encode() + b" " + text(delivery.name)


def _values(delivery: Delivery) -> tuple[str | bytes, ...]:
    due = "" if delivery.due is None else repr(delivery.due)
    return (delivery.revision, due, delivery.data, delivery.progress)


def _delivery(task_id: UUID, name: str, values: Sequence[bytes]) -> Delivery:
    revision, due, data, progress = values
    moment = float(due) if due else None
    return Delivery(task_id, name, data, progress, moment, revision.decode("ascii"))


def _pairs(flat: Sequence[bytes]) -> dict[tuple[str, str], bytes]:
    found: dict[tuple[str, str], bytes] = {}
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        kind, _, name = field.decode("utf-8", "surrogatepass").partition(" ")
        found[kind, name] = value
    return found
