"""`Last-Event-ID`: a cursor, or a ValueError that repeats nothing; the same through the server."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server import AgentApp, AgentStream
from coreason_client.server.http._cursor import Cursor, parse_cursor
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.corpus import REQUESTS, STREAM_ID
from tests.fuzz.inprocess import InProcess, in_process
from tests.fuzz.strategies import CANARY, damaged, examples, wire

GOOD = [STREAM_ID, f"{STREAM_ID}:0", f"{STREAM_ID}:7", f"{STREAM_ID.upper()}:{'9' * 18}"]
VALUES = damaged([value.encode() for value in GOOD]) | st.binary(max_size=80)
BODY = wire(REQUESTS[0])


def read(value: str) -> Cursor | None:
    try:
        return parse_cursor(value)
    except ValueError as error:
        assert_plain(error)
        return None


def text(cursor: Cursor) -> str:
    return f"{cursor.stream_id}:{cursor.seq}:{cursor.epoch}"


def assert_plain(error: ValueError) -> None:
    """It says what is wanted and not what was given."""
    assert type(error) is ValueError
    assert str(error) == "Last-Event-ID must be `<stream_id>:<seq>` or `<stream_id>`"


@given(VALUES.map(lambda raw: raw.decode("latin-1")) | st.text(max_size=60))
@example(STREAM_ID + ":" + "٣")
@example(STREAM_ID + ":1\n")
@example(STREAM_ID[:-1] + "\N{FULLWIDTH DIGIT ONE}")
@example("ſ" * 36)  # upper and lower case of a letter that is not ASCII
@example(CANARY)
def test_a_cursor_or_a_value_error(value: str) -> None:
    cursor = read(value)
    if cursor is None:
        return
    assert parse_cursor(text(cursor)) == cursor
    shortest = f"{cursor.stream_id}:{cursor.seq}"
    assert value.lower() == str(cursor.stream_id) or value.lower().startswith(shortest)


@given(st.uuids(), st.integers(0, 10**18 - 1), st.integers(1, 10**18 - 1))
def test_there_and_back(stream_id: UUID, seq: int, epoch: int) -> None:
    cursor = Cursor(stream_id, seq, epoch)
    assert parse_cursor(text(cursor)) == parse_cursor(text(cursor).upper()) == cursor
    assert parse_cursor(f"{text(cursor)}:7") == cursor


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module")
def server() -> Iterator[InProcess]:
    with in_process(AgentApp(hello)) as server:
        yield server


@examples(50)
@given(values=st.lists(VALUES, min_size=1, max_size=3))
@example(values=[STREAM_ID.encode(), STREAM_ID.encode()])
@example(values=[b""])
@example(values=[f"{STREAM_ID}:1".encode(), b""])
def test_the_server_says_400_or_404(server: InProcess, values: list[bytes]) -> None:
    """A resume of what is not there never starts anything."""
    headers = [(b"content-type", b"application/json")]
    answer = server.ask(BODY, headers + [(b"last-event-id", value) for value in values])
    problem = answer.problem
    assert answer.status in {400, 404}
    assert problem["type"].endswith(("bad-last-event-id", "stream-not-found"))
