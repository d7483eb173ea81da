"""The streams of both clients report their own progress."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.cap.answer import ChatProgress, ChatRecord, PacketProgress
from coreason_client.cap.errors import CAPConnectionError
from coreason_client.cap.position import Bookmark, Position
from coreason_manifest.definitions.presentation import StreamError
from tests.cap.test_bookmark import make_request

STREAM = UUID(int=1)
POSITION = Position(stream_id=STREAM, seq=4, cursor="a:4")
REQUEST = make_request()


@dataclass
class Machine:
    """The state of a resume machine."""

    started: bool = True
    complete: bool = False
    position: Position | None = POSITION
    reconnects: int = 0
    stream_error: StreamError | None = None
    response_head: ResponseHead | None = None

    def ended_early(self, why: str) -> CAPConnectionError:
        return CAPConnectionError(why)


def packets(*, closed: bool = False, **state: Any) -> PacketProgress:
    machine: Any = Machine(**state)
    progress = PacketProgress(machine, REQUEST)
    progress._reading.stopped = closed
    return progress


class Chat(ChatProgress):
    """The properties without a shell."""

    def __init__(self, progress: PacketProgress | None) -> None:
        self._packets = progress
        self._record = ChatRecord()
        self.conversation_id = "conv"


@pytest.mark.parametrize(
    ("state", "closed", "expected"),
    [
        ({"started": False, "position": None}, False, "not sent yet, iterate to send it"),
        ({"started": False, "position": None}, True, "closed, read up to no packet"),
        ({"position": None}, False, "not complete, read up to no packet"),
        ({}, False, f"not complete, read up to seq 4 of stream {STREAM}"),
        ({}, True, f"closed, read up to seq 4 of stream {STREAM}"),
        ({"complete": True}, False, f"complete, read up to seq 4 of stream {STREAM}"),
        ({"complete": True}, True, f"complete, read up to seq 4 of stream {STREAM}"),
    ],
)
def test_the_repr_says_whether_it_was_sent_and_how_far_it_was_read(
    state: dict[str, Any], closed: bool, expected: str
) -> None:
    progress = packets(closed=closed, **state)
    request_id = REQUEST.request_id
    assert repr(progress) == f"<PacketProgress for request {request_id}: {expected}>"
    assert repr(Chat(progress)) == f"<Chat of conversation conv: {expected}>"


@pytest.mark.parametrize("chat", [False, True])
def test_only_a_stream_that_was_read_to_its_end_ends_without_an_error(chat: bool) -> None:
    for closed, message in ((True, "was closed before"), (False, "has failed before")):
        open_one = packets(closed=closed)
        with pytest.raises(CAPConnectionError, match=message):
            (Chat(open_one) if chat else open_one)._check_complete()
        whole = packets(closed=closed, complete=True)
        (Chat(whole) if chat else whole)._check_complete()


@pytest.mark.parametrize("complete", [False, True])
def test_a_bookmark_has_the_request_and_the_position(complete: bool) -> None:
    progress = packets(complete=complete)
    expected = Bookmark(request=REQUEST, position=POSITION, complete=complete)
    assert progress.bookmark() == Chat(progress).bookmark() == expected


def test_a_chat_reports_what_its_packets_report() -> None:
    head = ResponseHead(200, Headers([("x-id", "7")]))
    progress = packets(complete=True, reconnects=2, response_head=head)
    for found in (progress, Chat(progress)):
        assert (found.position, found.stream_id, found.reconnects) == (POSITION, STREAM, 2)
        assert (found.complete, found.request) == (True, REQUEST)
        assert found.response_headers["x-id"] == "7"


def test_before_the_first_packet_there_is_no_stream() -> None:
    for found in (progress := packets(position=None), Chat(progress)):
        assert (found.position, found.stream_id, dict(found.response_headers)) == (None, None, {})


def test_a_chat_without_a_client_is_complete_when_its_text_has_ended() -> None:
    chat = Chat(None)
    assert not chat.complete
    chat._check_complete()
    assert chat.complete
    assert dict(chat.response_headers) == {}
    with pytest.raises(CAPConnectionError, match="made without a client has no bookmark"):
        chat.bookmark()


def test_the_answer_and_the_list_of_events_are_copies_of_the_record() -> None:
    chat = Chat(None)
    chat._record.add("text")
    chat._record._events.append((1, {"custom": 1}))
    answer = chat._answer()
    assert (answer, answer.conversation_id) == ("text", "conv")
    assert answer.events == chat.events == [{"custom": 1}]
    chat.events.clear()
    assert chat.events == [{"custom": 1}]
