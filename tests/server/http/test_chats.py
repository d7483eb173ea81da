"""The notes of a chat: its newest stream is found, whoever has opened it."""

from uuid import UUID, uuid4

from coreason_client.server import MemoryStreamLog
from coreason_client.server.http._chats import Chat, Note, request_id
from coreason_client.server.log.base import NewStream

from ..aio import aio


async def opened(log: MemoryStreamLog, request: UUID, principal: str = "p") -> UUID:
    stream_id = uuid4()
    await log.open(NewStream(stream_id, principal, request, "f"), "owner")
    return stream_id


async def newest(chat: Chat) -> UUID | None:
    found = await chat.newest(await chat.notes())
    return None if found is None else found.stream_id


@aio
async def test_the_newest_stream_is_that_of_the_last_note_that_has_one() -> None:
    log = MemoryStreamLog()
    chat = Chat(log, "p", "x", "chat")
    assert await newest(chat) is None
    streams = []
    for key in ("one", "two"):
        await chat.add(Note(key), uuid4())
        streams.append(await opened(log, request_id(key)))
        assert await newest(chat) == streams[-1]
    await chat.add(Note("refused"), uuid4())
    assert await newest(chat) == streams[-1]
    assert [note.key for note in await chat.notes()] == ["refused", "two", "one"]


@aio
async def test_a_request_that_found_its_number_taken_has_a_later_one_than_its_note() -> None:
    log = MemoryStreamLog()
    chat = Chat(log, "p", "x", "chat")
    await chat.add(Note("one", 1, "message"), uuid4())
    streams = [await opened(log, request_id("one", number)) for number in range(4)]
    assert await newest(chat) == streams[-1]
    assert await chat.notes() == [Note("one", 1, "message")]


@aio
async def test_chats_of_others_and_of_other_protocols_are_not_mixed() -> None:
    log = MemoryStreamLog()
    await Chat(log, "p", "x", "chat").add(Note("one"), uuid4())
    stream_id = await opened(log, request_id("one"))
    assert await newest(Chat(log, "p", "x", "chat")) == stream_id
    for other in (("q", "x", "chat"), ("p", "y", "chat"), ("p", "x", "other")):
        assert await newest(Chat(log, *other)) is None
    await Chat(log, "q", "x", "chat").add(Note("one"), uuid4())  # the same note of somebody else
    assert await newest(Chat(log, "q", "x", "chat")) is None
