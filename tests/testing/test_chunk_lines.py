from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._recording._file import chunk_fields, chunk_of
from tests.each import each

TABLE: list[tuple[bytes, dict[str, Any]]] = [
    (b'{"a":1}', {"json": {"a": 1}}),
    (b'{"a": 1}', {"chunk": '{"a": 1}'}),  # the spaces would be lost
    (b'{"a":1,"a":2}', {"chunk": '{"a":1,"a":2}'}),
    (b'{"a":1.0}', {"json": {"a": 1.0}}),
    (b'{"a":1e1}', {"chunk": '{"a":1e1}'}),
    (b'{"a":NaN}', {"chunk": '{"a":NaN}'}),
    (b'{"a":"\\u00e9"}', {"chunk": '{"a":"\\u00e9"}'}),
    (b'{"a":"\\ud83d"}', {"chunk": '{"a":"\\ud83d"}'}),
    (b'data: {"a":1}\n\n', {"events": [{"data": {"a": 1}}]}),
    (b"data: [DONE]\n\n", {"events": [{"text": "[DONE]"}]}),
    (b"data: 7\n\n", {"events": [{"data": 7}]}),
    (
        b'id: x:1\nevent: e\ndata: {"a":1}\n\ndata: no\n\n',
        {"events": [{"id": "x:1", "event": "e", "data": {"a": 1}}, {"text": "no"}]},
    ),
    (b'data: {"a":1}\n', {"chunk": 'data: {"a":1}\n'}),
    (b'data:{"a":1}\n\n', {"chunk": 'data:{"a":1}\n\n'}),
    (b"data: a\ndata: b\n\n", {"chunk": "data: a\ndata: b\n\n"}),
    (b"text: a\n\n", {"chunk": "text: a\n\n"}),
    (b": ping\n\n", {"chunk": ": ping\n\n"}),
    (b"\n\n", {"chunk": "\n\n"}),
]


@each(("data", "fields"), TABLE)
def test_json_and_events_are_readable(data: bytes, fields: dict[str, Any]) -> None:
    assert chunk_fields(data) == fields
    assert chunk_of(fields) == data


LINES = st.sampled_from(
    ["data: ", "id: ", "event: ", "text: ", ": ", '{"a":1}', "[1, 2]", "7", "\n", "\n\n", "\r\n"]
)


@given(st.binary() | st.lists(LINES | st.text(max_size=3)).map(lambda p: "".join(p).encode()))
def test_the_bytes_come_back(data: bytes) -> None:
    assert chunk_of(chunk_fields(data)) == data


@each(
    "fields", [{"events": 1}, {"events": [1]}, {"events": [{"oops": 1}]}, {"events": [{"id": 1}]}]
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="event"):
        chunk_of(fields)
