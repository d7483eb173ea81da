"""Finding and opening the stream of a request; the docstring of the package explains the steps.

All functions may raise LogUnavailable, and ForeignValue for a value that the log did not write.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID, uuid4

from ...errors import LogUnavailable, RequestConflict
from .._rules import digest, new_meta, text
from ..base import AgentVersion, NewStream, Opened, StreamMeta
from . import _scripts as scripts
from ._keys import FIELDS, KeyNames, parse_meta, parse_stream_id
from ._resp import Argument
from ._session import Session
from ._task_scripts import BEGIN, BEGIN_IN_SLOT


class NewTask(NamedTuple):
    """The data stored with a stream of a task; `fields` and `values` only with the first one.

    `replaces` is the stream that the request may name although it is taken.
    """

    task_id: UUID
    fields: Sequence[Argument] = ()
    values: Sequence[Argument] = ()
    replaces: UUID | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of `store` in a script."""
        return (self.task_id.hex, len(self.fields), *self.fields, *self.values)

    def keys(self, keys: KeyNames, stream_id: UUID) -> list[str]:
        """The keys of the task in the slot of its first stream."""
        return [keys.task(stream_id), keys.task_values(stream_id)]


async def load_meta(session: Session, keys: KeyNames, stream_id: UUID) -> StreamMeta | None:
    """Return the description of a stream, None if there is none."""
    values = await session.store.command("HMGET", keys.meta(stream_id), *FIELDS)
    return parse_meta(stream_id, values)


async def find_stream(
    session: Session, keys: KeyNames, principal: str, request_id: UUID
) -> StreamMeta | None:
    """Return the description of the stream of a request, None if there is none."""
    key = keys.request(_request_digest(principal, request_id))
    holder: bytes | None = await session.store.command("GET", key)
    return await _named_stream(session, keys, holder)


async def open_in_one_script(
    session: Session, keys: KeyNames, lease: float, stream: NewStream, task: NewTask | None = None
) -> Opened:
    """Open a stream in one script, on a store that is not a cluster."""
    until, now = session.owned.now() + lease, session.now()
    name = _request_digest(stream.principal, stream.request_id)
    script, names = (
        scripts.OPEN,
        [
            keys.request(name),
            keys.meta(stream.stream_id),
            keys.question(stream.stream_id),
            keys.lease_index(stream.stream_id, agent_digest(stream.agent)),
        ],
    )
    arguments: tuple[Argument, ...] = (
        stream.stream_id.hex,
        uuid4().hex,
        keys.prefix,
        *_fields(stream, name, now, lease),
    )
    if task is not None:
        script, names = BEGIN, names + task.keys(keys, stream.stream_id)
        replaced = "" if task.replaces is None else task.replaces.hex
        mine = (replaced, *task.arguments)
        arguments = (len(mine), *mine, *arguments)
    holder: bytes = await session.store.confirmed_script(script, names, *arguments)
    if holder:
        return await _open(session, keys, lease, stream, holder, task)
    session.owned.own_new(stream.stream_id, until)
    return Opened(new_meta(stream, now), created=True)


async def open_in_steps(
    session: Session, keys: KeyNames, lease: float, stream: NewStream, task: NewTask | None = None
) -> Opened:
    """Open a stream on a cluster, where the request and the stream may be on different nodes."""
    key = keys.request(_request_digest(stream.principal, stream.request_id))
    holder = await session.store.command("GET", key)
    return await _open(session, keys, lease, stream, holder, task)


async def _open(
    session: Session,
    keys: KeyNames,
    lease: float,
    stream: NewStream,
    holder: bytes | None,
    task: NewTask | None,
) -> Opened:
    """Return the stream that the request names, or create a stream and let the request name it."""
    until = session.owned.now() + lease
    own_id, name = (
        stream.stream_id.hex.encode(),
        _request_digest(stream.principal, stream.request_id),
    )
    replaced = None if task is None or task.replaces is None else task.replaces.hex.encode()
    created_meta: StreamMeta | None = None
    while True:
        if created_meta is not None and holder == own_id:
            session.owned.own_new(stream.stream_id, until)
            return Opened(created_meta, created=True)
        known = await _named_stream(session, keys, holder)
        if known is not None and holder != replaced:
            if created_meta is not None:
                await delete_unused(session, keys, stream)
            if known.fingerprint != stream.fingerprint:
                raise RequestConflict(stream.request_id)
            return Opened(known, created=False)
        if created_meta is None:
            created_meta = await _create(session, keys, lease, stream, name, task)
        holder = await session.store.confirmed_script(
            scripts.TAKE_REQUEST,
            [keys.request(name)],
            own_id,
            holder if holder is not None else b"",
        )


async def _named_stream(
    session: Session, keys: KeyNames, holder: bytes | None
) -> StreamMeta | None:
    """Return the description of the stream that a request names, None if it does not exist."""
    return None if holder is None else await load_meta(session, keys, parse_stream_id(holder))


async def _create(
    session: Session,
    keys: KeyNames,
    lease: float,
    stream: NewStream,
    name: str,
    task: NewTask | None,
) -> StreamMeta:
    now = session.now()
    until = now + lease
    agent = agent_digest(stream.agent)
    await session.indexes.add_new_stream(stream.stream_id, until, agent)
    script, names = scripts.CREATE, [keys.meta(stream.stream_id), keys.question(stream.stream_id)]
    arguments: tuple[Argument, ...] = _fields(stream, name, now, lease)
    if task is not None:
        script, names = BEGIN_IN_SLOT, names + task.keys(keys, stream.stream_id)
        arguments = (len(task.arguments), *task.arguments, *arguments)
    await session.store.confirmed_script(script, names, *arguments)
    if session.now() >= until:
        # The store was slow: a claim may have removed the index member before the stream existed.
        await session.indexes.extend_leases({stream.stream_id: agent}, until)
    return new_meta(stream, now)


def agent_digest(agent: AgentVersion | None) -> str:
    """Return the digest of the agent of a durable stream, an empty string if it is not durable."""
    return "" if agent is None else digest("", text(agent.agent_id))


def _fields(stream: NewStream, name: str, now: float, lease: float) -> tuple[str | bytes, ...]:
    agent = stream.agent
    durable = (
        () if agent is None else (agent_digest(agent), text(agent.agent_id), text(agent.version))
    )
    return (
        text(stream.principal),
        stream.request_id.hex,
        text(stream.fingerprint),
        repr(now),
        repr(now + lease),
        name,
        stream.question,
        *durable,
    )


async def delete_unused(session: Session, keys: KeyNames, stream: NewStream) -> None:
    """Delete a stream that was created and is not needed, and the task that begins with it."""
    stream_id = stream.stream_id
    names = keys.meta(stream_id), keys.question(stream_id)
    task = keys.task(stream_id), keys.task_values(stream_id)
    # If this fails, the stream ends as lost when its lease has run out.
    with suppress(LogUnavailable):
        await session.store.command("DEL", *names, *task)
        await session.indexes.remove_lease(stream_id, agent_digest(stream.agent))


def _request_digest(principal: str, request_id: UUID) -> str:
    return digest(principal, request_id.bytes)
