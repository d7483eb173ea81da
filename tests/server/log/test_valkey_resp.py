"""Commands and replies as bytes."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.exceptions import InvalidResponse, ReadOnlyError, ResponseError

from coreason_client.server.log.valkey._errors import reply_error
from coreason_client.server.log.valkey._resp import MORE, ReplyReader, make_reader, pack


def encoded(value: Any) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))


# Ours, and hiredis where it is installed.
READERS = [ReplyReader] if isinstance(make_reader(), ReplyReader) else [ReplyReader, make_reader]
FEW = settings(max_examples=40)  # these are slow to make

VALUES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40),
    lambda values: st.lists(values, max_size=5),
    max_leaves=20,
)


def read(reader: Any, pieces: Sequence[bytes]) -> list[Any]:
    replies = []
    for piece in pieces:
        reader.feed(piece)
        while (reply := reader.gets()) is not MORE:
            replies.append(reply)
    return replies


def cut(data: bytes, points: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({point % (len(data) + 1) for point in points}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("make", READERS)
@FEW
@given(st.lists(VALUES, max_size=6), st.lists(st.integers(0, 10_000), max_size=30))
def test_replies_are_read_whatever_pieces_they_come_in(
    make: Callable[[], Any], values: list[Any], points: list[int]
) -> None:
    data = b"".join(map(encoded, values))
    assert read(make(), cut(data, points)) == values


@FEW
@given(st.lists(st.lists(st.binary() | st.text() | st.integers(), min_size=1), max_size=5))
def test_packed_commands_are_arrays_of_their_arguments(commands: list[list[Any]]) -> None:
    # A lone surrogate cannot be part of a command.
    commands = [
        [a if not isinstance(a, str) else a.encode("utf-8", "ignore").decode() for a in command]
        for command in commands
    ]
    wanted = [[a if isinstance(a, bytes) else str(a).encode() for a in c] for c in commands]
    assert read(ReplyReader(), [pack(commands)]) == wanted


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"+OK\r\n", b"OK"),
        (b"+\r\n", b""),
        (b":-7\r\n", -7),
        (b"*-1\r\n", None),
        (b"*0\r\n", []),
        (b"*2\r\n*0\r\n$0\r\n\r\n", [[], b""]),
        (b"$4\r\n\r\n\r\n\r\n", b"\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("make", READERS)
def test_replies_of_each_kind(make: Callable[[], Any], data: bytes, reply: object) -> None:
    assert read(make(), [data]) == [reply]
    assert read(make(), [data[i : i + 1] for i in range(len(data))]) == [reply]


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("ERR no such thing", ResponseError, "no such thing"),
        ("READONLY You can't write", ReadOnlyError, "You can't write"),
        ("MOVED nowhere", ResponseError, "MOVED nowhere"),
        ("WRONGTYPE Operation", ResponseError, "WRONGTYPE Operation"),
    ],
)
@pytest.mark.parametrize("make", READERS)
def test_an_error_is_a_reply_like_any_other(
    make: Callable[[], Any], line: str, kind: type[Exception], words: str
) -> None:
    (error, after) = read(make(), [b"-%b\r\n:1\r\n" % line.encode()])
    assert (type(error), str(error), after) == (kind, words, 1)
    assert type(reply_error(line)) is kind


@pytest.mark.parametrize("data", [b"HTTP/1.1 400\r\n", b":x\r\n", b"$1_0\r\n", b"*+1\r\n"])
@pytest.mark.parametrize("make", READERS)
def test_bytes_of_another_protocol_are_refused(make: Callable[[], Any], data: bytes) -> None:
    with pytest.raises(InvalidResponse):
        read(make(), [data])
