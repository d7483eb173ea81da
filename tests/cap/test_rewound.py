"""The event that makes a part of a stream void, and the clients that understand it."""

import asyncio
from collections.abc import AsyncIterable, Iterable
from typing import Any
from uuid import UUID

import pytest

from coreason_client import AsyncCAPClient, Bookmark, CAPClient
from coreason_client.cap._resume import rewind_to_start
from coreason_client.cap.answer import (
    WITH_REWINDS,
    Rewound,
    accepts_rewinds,
    starts_over,
)
from coreason_client.cap.errors import CAPError, CAPRuntimeError, CAPStreamReset
from coreason_client.cap.position import Position
from coreason_manifest.definitions.presentation import (
    EventPacket,
    PresentationEvent,
    PresentationEventType,
    parse_packet,
)
from coreason_manifest.definitions.rewind import REWIND, rewound_to
from tests.cap.lost_packets import STREAM, LostPackets
from tests.cap.test_bookmark import make_request
from tests.faults import Packet, sse
from tests.http.support import one_answer


@pytest.mark.parametrize(
    ("event", "to_seq"),
    [
        ({"type": "REWIND", "data": {"to_seq": 3, "step": "s", "attempt": 2}}, 3),
        ({"type": "REWIND", "data": {"to_seq": 0}}, 0),
        ({"type": "REWIND", "data": {"to_seq": -1}}, None),
        ({"type": "REWIND", "data": {"to_seq": True}}, None),
        ({"type": "REWIND", "data": {"to_seq": "3"}}, None),
        ({"type": "REWIND", "data": [3]}, None),
        ({"type": "REWIND"}, None),
        ({"type": "USAGE", "data": {"to_seq": 3}}, None),
        ({}, None),
        (PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data={"to_seq": 3}), None),
    ],
)
def test_a_rewind_names_the_last_valid_packet(
    event: PresentationEvent | dict[str, Any], to_seq: int | None
) -> None:
    assert rewound_to(event) == to_seq


def test_a_client_with_rewinds_also_gets_all_other_events() -> None:
    assert set(WITH_REWINDS.supported_events) == {*PresentationEventType, REWIND}


@pytest.mark.parametrize(
    ("capabilities", "expected"), [(None, False), (WITH_REWINDS, True), ({}, False)]
)
def test_a_request_says_whether_its_client_understands_rewinds(
    capabilities: Any, expected: bool
) -> None:
    request = make_request().dump()
    request["payload"]["capabilities"] = capabilities
    assert accepts_rewinds(type(make_request()).model_validate(request)) is expected


def test_only_the_event_of_the_client_itself_starts_over() -> None:
    first = parse_packet(Packet(STREAM, 1, "DELTA", "one").json())
    own = rewind_to_start(first)
    assert (own.seq, rewound_to(own.p), starts_over(own)) == (0, 0, True)
    assert (own.stream_id, own.t, starts_over(first)) == (first.stream_id, first.t, False)
    for change in ({"seq": 1}, {"p": {"type": "NOTE"}}):
        assert not starts_over(EventPacket.model_validate(own.model_copy(update=change).dump()))


# A store that lost packets. The clients of both kinds read the same.

AGAIN = [Rewound("", 0, whole=True), *LostPackets.second]
AT_3 = Position(stream_id=UUID(STREAM), seq=3, cursor=f"{STREAM}:3")
Read = tuple[list[Any], CAPError | None, Any]


def read(stream: Iterable[Any]) -> Read:
    pieces: list[Any] = []
    try:
        pieces.extend(stream)
    except CAPError as error:
        return pieces, error, stream
    return pieces, None, stream


async def read_async(stream: AsyncIterable[Any]) -> Read:
    pieces: list[Any] = []
    try:
        async for piece in stream:
            pieces.append(piece)  # noqa: PERF401 - also the pieces before an error
    except CAPError as error:
        return pieces, error, stream
    return pieces, None, stream


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Any:
    """Return a function that calls a method of a client and reads the stream that it returns."""

    def call_sync(url: str, method: str, *arguments: Any, **options: Any) -> Read:
        with CAPClient(url, "key", max_retries=3) as client:
            return read(getattr(client, method)(*arguments, **options))

    async def call_async(url: str, method: str, *arguments: Any, **options: Any) -> Read:
        async with AsyncCAPClient(url, "key", max_retries=3) as client:
            return await read_async(getattr(client, method)(*arguments, **options))

    def run_async(*arguments: Any, **options: Any) -> Read:
        return asyncio.run(call_async(*arguments, **options))

    return call_sync if request.param == "sync" else run_async


@pytest.mark.proves("R11e")
@pytest.mark.parametrize("refuses", [True, False])
def test_a_chat_with_rewinds_reads_an_answer_that_was_written_anew(
    call: Any, refuses: bool
) -> None:
    with LostPackets(refuses=refuses).running() as server:
        pieces, error, stream = call(server.url, "chat", "Count", rewinds=True)
    assert (pieces, error) == ([*LostPackets.first, *AGAIN], None)
    assert (stream.text, stream.complete) == ("".join(LostPackets.second), True)
    assert server.cursors == [None, f"{STREAM}:3", STREAM]


@pytest.mark.proves("R11c", "R11e")
@pytest.mark.parametrize(
    ("refuses", "kind", "status"), [(True, CAPRuntimeError, 410), (False, CAPStreamReset, None)]
)
@pytest.mark.parametrize("method", ["chat", "assist"])
def test_others_get_a_typed_error_and_keep_what_they_have(
    call: Any, method: str, refuses: bool, kind: type[CAPError], status: int | None
) -> None:
    question = {"chat": "Count", "assist": make_request()}[method]
    with LostPackets(refuses=refuses).running() as server:
        pieces, error, stream = call(server.url, method, question)
    assert (type(error), error.status_code, error.position) == (kind, status, AT_3)
    assert (len(pieces), stream.complete, stream.position) == (3, False, AT_3)
    if method == "chat":
        assert stream.text == "".join(LostPackets.first)


@pytest.mark.proves("R11e")
def test_a_chat_with_rewinds_that_is_resumed_starts_over(call: Any) -> None:
    with CAPClient("http://localhost:1", "key") as client:
        request = client._endpoint.chat_request("Count", None, rewinds=True)
    bookmark = Bookmark(request=request, position=AT_3)
    with LostPackets().running() as server:
        pieces, error, stream = call(server.url, "resume_chat", bookmark)
    assert (pieces, error, stream.complete) == (AGAIN, None, True)


@pytest.mark.proves("R11f")
def test_the_text_stays_valid_if_nothing_can_be_read_again(call: Any) -> None:
    with LostPackets(forgets=True).running() as server:
        pieces, error, stream = call(server.url, "chat", "Count", rewinds=True)
    assert pieces == [*LostPackets.first]
    assert (type(error), error.status_code, error.position) == (CAPRuntimeError, 410, AT_3)
    assert stream.text == "".join(LostPackets.first)
    assert (stream.bookmark().position, stream.bookmark().error) == (AT_3, None)
    assert server.cursors == [None, f"{STREAM}:3", STREAM]


def test_packets_with_rewinds_follow_an_event_with_the_number_0(call: Any) -> None:
    with LostPackets().running() as server:
        packets, error, stream = call(server.url, "assist", make_request(), rewinds=True)
    assert ([packet.seq for packet in packets], error) == ([1, 2, 3, 0, 1, 2, 3, 4, 5], None)
    assert stream.complete


def test_ask_with_rewinds_returns_one_of_the_answers() -> None:
    with LostPackets().running() as server, CAPClient(server.url, "key", max_retries=3) as client:
        assert client.ask("Count", rewinds=True) == "".join(LostPackets.second)


# A server that rewinds although nobody asked for it


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_chat_without_rewinds_yields_text_only(call: Any, with_ids: bool) -> None:
    """Text cannot be taken back, so the rewind is an error, and all that was yielded stays."""
    packets = [
        Packet(STREAM, 1, "DELTA", "one "),
        Packet(STREAM, 2, "DELTA", "two "),
        Packet(STREAM, 3, "EVENT", {"type": REWIND, "data": {"to_seq": 1}}),
        Packet(STREAM, 4, "DELTA", "zwei "),
        Packet(STREAM, 5, "CLOSE", {}),
    ]
    body = b"".join(sse(packet, with_id=with_ids) for packet in packets)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}"
    answer = f"{head}\r\n\r\n".encode() + body
    for method in ("chat", "resume_chat"):
        start = Position(stream_id=UUID(STREAM), seq=0, cursor=STREAM)
        bookmark = Bookmark(request=make_request(), position=start)
        with one_answer(answer) as (url, _):
            pieces, error, stream = call(url, method, "x" if method == "chat" else bookmark)
        assert pieces == ["one ", "two "]
        assert isinstance(error, CAPStreamReset)
        assert "written anew" in str(error)
        assert (stream.text, stream.complete) == ("one two ", False)
        # Whoever resumes meets the rewind again, instead of text that belongs to another one.
        assert error.position == stream.position
        assert stream.position.seq == 2
    with one_answer(answer) as (url, _):
        assert len(call(url, "assist", make_request())[0]) == 5  # packets are passed on as they are
