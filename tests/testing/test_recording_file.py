import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._recording._file import (
    RecordedChunk,
    RecordedExchange,
    Recording,
    RecordingError,
    dump,
    load,
)
from tests.each import each

HEAD = '{"format": "coreason-recording", "version": 1, "base": ""}\n'
REQUEST = '{"request": 1, "method": "GET", "path": "/", "headers": {}}\n'
RESPONSE = '{"response": 1, "status": 200, "headers": {}}\n'

NAMES = st.text("abc-", min_size=1, max_size=4)
HEADERS = st.dictionaries(NAMES, st.text(max_size=5)).map(lambda found: tuple(found.items()))
TIMES = st.none() | st.integers(0, 10**6).map(lambda number: number / 1000)
CHUNKS = st.lists(st.builds(RecordedChunk, st.binary(), TIMES), max_size=5).map(tuple)
EXCHANGES = st.builds(
    RecordedExchange,
    method=st.sampled_from(["GET", "POST"]),
    target=st.text(),
    headers=HEADERS,
    body=st.binary(),
    status=st.integers(100, 599),
    response_headers=HEADERS,
    chunked=st.booleans(),
    at=TIMES,
    chunks=CHUNKS,
    end=st.sampled_from(["complete", "disconnect", "client left"]),
)


def same_body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


@given(st.lists(EXCHANGES, max_size=3))
def test_any_chunks_survive_the_file(exchanges: list[RecordedExchange]) -> None:
    recording = Recording(tuple(exchanges), "/v1")
    text = dump(recording)
    again = load(text)
    assert [one.chunks for one in again.exchanges] == [one.chunks for one in exchanges]
    for old, new in zip(exchanges, again.exchanges, strict=True):
        assert same_body(new.body) == same_body(old.body) or old.body != old.body
        assert (new.method, new.target, new.headers) == (old.method, old.target, old.headers)
        assert (new.status, new.response_headers) == (old.status, old.response_headers)
        assert (new.chunked, new.at, new.end) == (old.chunked, old.at, old.end)
    assert dump(again) == text
    assert len(text.splitlines()) == text.count("\n")  # no editor sees other lines


def test_a_connection_that_was_closed_without_an_answer() -> None:
    recording = Recording((RecordedExchange("GET", "/", (), b"", end="disconnect"),))
    assert load(dump(recording)) == recording


def test_a_file_is_readable() -> None:
    exchange = RecordedExchange(
        "POST",
        "/v1/chat?a=b",
        (("x", "y"),),
        b'{"a": "b"}',
        200,
        chunked=True,
        at=0.0104,
        chunks=(RecordedChunk(b'data: {"a":"\xc3\xa9"}\n\n', 0.02), RecordedChunk(b"\xff")),
        end="disconnect",
    )
    expected = """
{"format": "coreason-recording", "version": 1, "base": "/v1"}
{"request": 1, "method": "POST", "path": "/v1/chat?a=b", "headers": {"x": "y"}, "json": {"a": "b"}}
{"response": 1, "status": 200, "headers": {}, "chunked": true, "at": 0.01}
{"events": [{"data": {"a": "é"}}], "at": 0.02}
{"base64": "/w=="}
{"end": "disconnect"}
"""
    assert dump(Recording((exchange,), "/v1")) == expected.lstrip()


@each(
    ("text", "message"),
    [
        ("", "the first line must have the format 'coreason-recording'"),
        ('{"format": "har"}', "the first line must have the format"),
        ("oops", "line 1 must be JSON"),
        ("[]", "line 1 must be a JSON object"),
        (HEAD.replace("1", "2"), "the version must be 1, got 2: record it again"),
        (HEAD + '{"chunk": ""}', "line 2 must be the line of a request"),
        (HEAD + REQUEST, "line 2 begins an exchange without an 'end'"),
        (HEAD + REQUEST + '{"end": "oops"}', "line 3 must have an 'end' that is one of complete"),
        (HEAD + REQUEST.replace('"GET"', "1") + '{"end": "complete"}', "must have 'method'"),
        (HEAD + REQUEST.replace("{}", "1") + '{"end": "complete"}', "must have 'headers'"),
        (
            HEAD + REQUEST + '{"response": 1, "status": 9, "headers": {}}\n{"end": "complete"}',
            "line 3 must have a 'status' from 100 to 599",
        ),
        (
            HEAD + REQUEST + RESPONSE + '{"oops": 1}\n{"end": "complete"}',
            "line 4 must be a chunk or the end of an exchange",
        ),
        (
            HEAD + REQUEST + RESPONSE + '{"base64": "!"}\n{"end": "complete"}',
            "line 4 has a chunk that cannot be read",
        ),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(RecordingError) as caught:
        load(text)
    assert message in str(caught.value)
