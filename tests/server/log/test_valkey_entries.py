"""Appends, ends and pages of the Valkey log: each reply of the store."""

from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import (
    Fenced,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    UnknownStream,
)
from coreason_client.server.log import NewStream
from coreason_client.server.log.base import PAGE_BYTES
from coreason_client.server.log.valkey._entries import begin_append, close_stream, read_page
from coreason_client.server.log.valkey._keys import KeyNames

from ..aio import aio
from .scripted_session import ScriptedSession
from .valkey_logs import LONG, NEVER, counted_reads, logs, new
from .valkey_server import fresh_prefix, shared_server


@pytest.mark.proves("RES2-5a")
@aio
async def test_entries_have_explicit_ids_and_a_script_keeps_them_without_gaps() -> None:
    async with logs(prefix=(prefix := fresh_prefix())) as (log,):
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"a", b"b"])
        with pytest.raises(OutOfSequence):
            await log.append(stream.stream_id, 1, 4, [b"d"])  # the store itself would take it
        with pytest.raises(Fenced):
            await log.append(stream.stream_id, 2, 3, [b"c"])
        await log.close(stream.stream_id, 1, 3, [b"c"], "complete")
        stored = shared_server().command(
            "XRANGE", f"{prefix}:{{{stream.stream_id.hex}}}:entries", "-", "+"
        )
        assert [id_ for id_, _ in stored] == [b"1-0", b"2-0", b"3-0"]


@aio
async def test_the_end_of_a_stream_frees_its_question() -> None:
    async with logs() as (log,):
        stream = NewStream(uuid4(), "p", uuid4(), "f", b"a question")
        await log.open(stream, "me")
        key, store = log._keys.question(stream.stream_id), log._session().store
        assert await store.command("GET", key) == b"a question"
        await log.append(stream.stream_id, 1, 1, [b"x"])
        assert await store.command("EXISTS", key) == 1
        await log.close(stream.stream_id, 1, 2, [b"x"], "complete")
        assert await store.command("EXISTS", key) == 0


@aio
async def test_entries_that_the_store_has_lost_are_reported() -> None:
    async with logs() as (log,):
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"x", b"y", b"z"])
        key = log._keys.entries(stream.stream_id)
        shared_server().command("XDEL", key, "2-0")
        with pytest.raises(LogUnavailable, match=r"has lost entries .* must not evict"):
            await log.read(stream.stream_id, 1, 10, 0)
        shared_server().command("DEL", key)
        with pytest.raises(LogUnavailable, match="has lost entries"):
            await log.read(stream.stream_id, 0, 10, 0)


@aio
async def test_a_repeated_append_is_read_as_it_was_stored_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs(poll=NEVER) as (log,):
        stream = new()
        id_ = stream.stream_id
        await log.open(stream, "me")
        await log.append(id_, 1, 1, [b"kept"])
        await log.append(id_, 1, 1, [b"said again, in other words"])
        reads = counted_reads(log, monkeypatch)
        assert list((await log.read(id_, 0, 9, LONG)).entries) == [b"kept"]
        assert reads == ["read"]


# Each reply of the store.

KEYS = KeyNames("p")
ID = UUID("00112233445566778899aabbccddee01")


@pytest.mark.parametrize(
    ("reply", "result", "calls"),
    [
        (b"ok 0", False, [("add_entries", ID, 2, 4, [b"x", b"y"])]),
        (b"ok 1", True, [("add_entries", ID, 2, 4, [b"x", b"y"])]),
        # The store had them already, perhaps with other bytes, so the cached ones are dropped.
        (b"held 0", False, [("drop_entries", ID)]),
        (b"held 1", True, [("drop_entries", ID)]),
    ],
)
@aio
async def test_an_accepted_append_shows_its_entries_and_a_requested_cancel(
    reply: bytes, result: bool, calls: list[object]
) -> None:
    scripted = ScriptedSession(reply)
    assert await begin_append(scripted.session, KEYS, ID, 2, 4, [b"x", b"y"]) is result
    assert scripted.calls == [("APPEND",), *calls]
    assert scripted.arguments == [(KEYS.meta(ID), KEYS.entries(ID), 2, 4, b"", b"", b"x", b"y")]


@pytest.mark.parametrize(
    ("reply", "error", "fields"),
    [
        (b"fenced", Fenced, {"epoch": 2}),
        (b"gap 7", OutOfSequence, {"first_seq": 4, "last_seq": 7}),
        (b"unknown", UnknownStream, {}),
    ],
)
@pytest.mark.parametrize("closes", [False, True])
@aio
async def test_a_refused_append_ends_the_ownership_of_its_stream(
    reply: bytes, error: type[Exception], fields: dict[str, int], closes: bool
) -> None:
    scripted = ScriptedSession(reply)
    with pytest.raises(error) as caught:
        if closes:
            await close_stream(scripted.session, KEYS, ID, 2, 4, [b"x"], "complete")
        else:
            await begin_append(scripted.session, KEYS, ID, 2, 4, [b"x"])
    assert {"stream_id": ID, **fields}.items() <= vars(caught.value).items()
    assert scripted.calls == [("APPEND",), ("disown", ID)]


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (
            b"ok 0 99.5 abcd ",
            [
                ("add_entries", ID, 2, 4, [b"x"]),
                ("disown", ID),
                ("move_to_ended", ID, "abcd", 99.5, ""),
            ],
        ),
        # A durable stream is in the index of its agent.
        (
            b"ok 0 99.5 abcd ef",
            [
                ("add_entries", ID, 2, 4, [b"x"]),
                ("disown", ID),
                ("move_to_ended", ID, "abcd", 99.5, "ef"),
            ],
        ),
        # A repeated close: the time is that of the first one.
        (
            b"held 0 98.5 abcd ",
            [("drop_entries", ID), ("disown", ID), ("move_to_ended", ID, "abcd", 98.5, "")],
        ),
        # The entries were there, but the stream runs on.
        (b"held 0   ", [("drop_entries", ID), ("disown", ID)]),
    ],
)
@aio
async def test_an_ended_stream_moves_in_the_indexes(reply: bytes, calls: list[object]) -> None:
    scripted = ScriptedSession(reply)
    await close_stream(scripted.session, KEYS, ID, 2, 4, [b"x"], "a reason")
    assert scripted.calls == [("APPEND",), *calls]
    [arguments] = scripted.arguments
    assert arguments[4:] == (2, 4, b"100.0 a reason", b"", b"x")


@aio
async def test_an_end_counts_even_if_the_indexes_cannot_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise LogUnavailable("no")

    scripted = ScriptedSession(b"ok 0 99.5 abcd ")
    monkeypatch.setattr(scripted.indexes, "move_to_ended", fail, raising=False)
    await close_stream(scripted.session, KEYS, ID, 2, 4, [b"x"], "complete")


@pytest.mark.parametrize(("state", "ended"), [(b"more", False), (b"end", True)])
@aio
async def test_a_page_of_the_store(state: bytes, ended: bool) -> None:
    scripted = ScriptedSession([state, b"7", b"x", b"y"])
    page = await read_page(scripted.session, KEYS, ID, 3, 2, 10)
    assert (list(page.entries), page.ended, page.epoch) == ([b"x", b"y"], ended, 7)
    assert scripted.arguments == [(KEYS.meta(ID), KEYS.entries(ID), 3, 2, 10, PAGE_BYTES)]


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (b"unknown", UnknownStream, str(ID)),
        (b"gone", PositionGone, str(ID)),
        (b"replaced", PositionGone, "no longer the one"),
        (b"damaged", LogUnavailable, "valkey://store has lost entries of the stream"),
    ],
)
@aio
async def test_a_page_that_cannot_be_read(state: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        await read_page(ScriptedSession([state]).session, KEYS, ID, 3, 2, 10)
