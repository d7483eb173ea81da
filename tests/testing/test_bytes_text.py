from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.testing._recording._file import bytes_of, fields_of
from tests.each import each

TABLE: list[tuple[bytes, dict[str, str]]] = [
    (b"", {"chunk": ""}),
    (b"plain\n", {"chunk": "plain\n"}),
    ("é😀".encode(), {"chunk": "é😀"}),
    (b"caf\xc3", {"chunk": "caf", "after": "c3"}),
    (b"\xa9 au lait", {"before": "a9", "chunk": " au lait"}),
    (b"\x98\x80 and \xf0\x9f", {"before": "9880", "chunk": " and ", "after": "f09f"}),
    (b"\x98", {"before": "98", "chunk": ""}),
    (b"\xff\xfe", {"base64": "//4="}),
    (b"a\xffb", {"base64": "Yf9i"}),
]


@each(("data", "fields"), TABLE)
def test_bytes_are_text_where_they_can_be(data: bytes, fields: dict[str, str]) -> None:
    assert fields_of(data, "chunk") == fields
    assert bytes_of(fields, "chunk") == data


@given(st.binary() | st.text().map(str.encode))
def test_the_bytes_come_back(data: bytes) -> None:
    assert bytes_of(fields_of(data, "chunk"), "chunk") == data


@given(st.text(), st.integers(0, 40))
@example("😀", 1)
@example("😀", 3)
def test_text_stays_readable_wherever_it_is_cut(text: str, at: int) -> None:
    data = text.encode()
    assert "base64" not in fields_of(data[:at], "chunk")
    assert "base64" not in fields_of(data[at:], "chunk")


@each("fields", [{"base64": "!"}, {"base64": 1}, {"chunk": 1}, {"chunk": "", "before": "zz"}])
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        bytes_of(fields, "chunk")
