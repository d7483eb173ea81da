"""Images and audio in an answer: the same form for every provider."""

from base64 import b64decode, b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import audio_of, image_at, joined_audio, media_of


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", "image"),
        ("IMAGE/PNG", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "file"),
        ("images/png", "file"),
        ("", "file"),
    ],
)
def test_the_type_follows_from_the_first_half_of_the_mime_type(mime_type: str, kind: str) -> None:
    assert media_of(mime_type)["type"] == kind


def test_only_fields_with_a_value_are_present() -> None:
    assert media_of("image/png", data="AA==") == {
        "type": "image",
        "mime_type": "image/png",
        "data": "AA==",
    }
    assert media_of("", url="https://a.example/x") == {"type": "file", "url": "https://a.example/x"}


@pytest.mark.parametrize(
    ("url", "media"),
    [
        ("https://a.example/1.png", {"url": "https://a.example/1.png"}),
        ("data:image/png;base64,AA==", {"mime_type": "image/png", "data": "AA=="}),
        ("data:image/png;charset=x;base64,AA==", {"mime_type": "image/png", "data": "AA=="}),
        ("data:;base64,AA==", {"data": "AA=="}),
        ("data:image/svg+xml,<svg/>", {"url": "data:image/svg+xml,<svg/>"}),
        ("see data:image/png;base64,AA==", {"url": "see data:image/png;base64,AA=="}),
    ],
)
def test_an_image_is_a_url_or_the_data_inside_one(url: str, media: dict[str, str]) -> None:
    assert image_at(url) == {"type": "image", **media}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], []),
        ([{"id": "a1"}], []),
        ([{"data": None, "transcript": 5}], []),
        (
            [{"id": "a1", "transcript": "Hel"}, {"id": "a2", "transcript": "lo"}],
            [{"type": "audio", "transcript": "Hello", "id": "a1"}],
        ),
        ([{"data": "AAEC"}, {"data": "AwQF"}], [{"type": "audio", "data": "AAECAwQF"}]),
        (
            [{"id": ""}, {"id": "a2", "data": "AA=="}],
            [{"type": "audio", "data": "AA==", "id": "a2"}],
        ),
    ],
)
def test_pieces_of_audio_are_joined(pieces: list[Any], expected: list[Any]) -> None:
    assert joined_audio(pieces) == expected


def test_the_audio_of_a_message_is_a_single_piece() -> None:
    audio = {"id": "a", "data": "AA==", "transcript": "Hi", "expires_at": 1}
    assert audio_of(audio) == [{"type": "audio", "data": "AA==", "transcript": "Hi", "id": "a"}]
    assert audio_of({}) == []


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_the_bytes_of_padded_pieces_are_joined(pieces: list[bytes]) -> None:
    joined = joined_audio([{"data": b64encode(piece).decode()} for piece in pieces])
    assert b64decode(joined[0]["data"] if joined else "") == b"".join(pieces)


@given(st.binary(max_size=12), st.lists(st.integers(0, 16), max_size=3))
def test_a_base64_text_that_was_cut_anywhere_is_whole_again(data: bytes, cuts: list[int]) -> None:
    text = b64encode(data).decode()
    body = len(text.rstrip("="))  # the padding stays together, at the end
    edges = [0, *sorted(min(cut, body) for cut in cuts), len(text)]
    pieces = [{"data": text[a:b]} for a, b in pairwise(edges)]
    joined = joined_audio(pieces)
    assert (joined[0]["data"] if joined else "") == text


def test_pieces_that_are_not_base64_are_kept_as_they_are() -> None:
    assert joined_audio([{"data": "A="}, {"data": "B"}])[0]["data"] == "A=B"
