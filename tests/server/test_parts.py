"""Parts of artifacts and messages."""

from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.server.parts import Data, File, Link, dump_parts, text_of


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("text", {"text": "text"}),
        ({"a": 1}, {"data": {"a": 1}}),
        ([1, 2], {"data": [1, 2]}),
        (Data(None), {"data": None}),
        (Data(3, "application/x"), {"data": 3, "mediaType": "application/x"}),
        (File(b"A"), {"raw": "QQ=="}),
        (
            File(b"A", "a.png"),
            {"raw": "QQ==", "filename": "a.png", "mediaType": "image/png"},
        ),
        (
            File(b"A", "a.png", "image/x"),
            {"raw": "QQ==", "filename": "a.png", "mediaType": "image/x"},
        ),
        (Link("https://x.example/a"), {"url": "https://x.example/a"}),
        (
            Link("https://x.example/a", "a.pdf"),
            {"url": "https://x.example/a", "filename": "a.pdf", "mediaType": "application/pdf"},
        ),
    ],
)
def test_a_part(content: Any, part: dict[str, Any]) -> None:
    assert dump_parts([content]) == [part]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([], "at least one part"),
        ([b"bytes"], "must not be bytes: give a File"),
        ([3], "must be text, a dict, a list, a File, a Link or Data, got 'int'"),
        (["a", None], "got 'NoneType'"),
    ],
)
def test_what_is_no_part(contents: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dump_parts(contents)


def test_the_text_of_parts() -> None:
    assert text_of(dump_parts(["a", {"x": 1}, "b"])) == "ab"
