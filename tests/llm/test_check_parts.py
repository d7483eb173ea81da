"""Parts of a message: every valid form is accepted, and the error for any other says why."""

from types import MappingProxyType
from typing import Any

import pytest

from coreason_client.llm._check_messages import check_part

from .calls import HALF, PIXEL, rejection

PDF = "data:application/pdf;base64,JVBERi0xLjc="


def image(value: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": value}


def file(**fields: Any) -> dict[str, Any]:
    return {"type": "file", "file": fields}


def audio(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": fields}


FORMS = 'part must be {"type": "text", "text": …}, {"type": "image_url"'
IMAGE = "part.image_url.url must be an http(s) URL or data:image/…;base64,… without spaces"
ONE_SOURCE = 'part.file must have one of "file_data", "file_url" and "file_id"'
DATA = "part.file.file_data must be bytes, or a URL such as data:application/pdf;base64,…"
UNKNOWN = "part.file.file_data is bytes of an unknown type: add a filename with an extension"
SOUND = 'part.input_audio must be {"data": …, "format": "wav"}'
SOUND_DATA = "part.input_audio.data must be bytes, or base64 text without spaces"
SOUND_FORMAT = "part.input_audio.format must be a format such as wav or mp3"

NO_PARTS: list[Any] = [None, "x", [], {}, {"type": "audio", "audio": {}}, {"type": []}]
WRONG: list[tuple[Any, str]] = [
    *((part, FORMS) for part in NO_PARTS),
    *((part, FORMS) for part in ({"type": "text"}, {"type": "text", "text": "a", "more": 1})),
    ({"type": "file", "image_url": PIXEL}, FORMS),
    ({"type": "text", "text": 5}, "part.text must be text, got 5"),
    ({"type": "text", "text": HALF}, "part.text must be valid Unicode"),
    (image(None), 'part.image_url must be {"url": …}'),
    (image([]), 'part.image_url must be {"url": …}'),
    (image({"url": PIXEL, "size": 5}), 'part.image_url must be {"url": …}'),
    (image({"url": PIXEL, "detail": 5}), "part.image_url.detail must be text, got 5"),
    *((image({"url": url}), IMAGE) for url in (None, 5, "", "file:///etc/passwd")),
    *((image(url), IMAGE) for url in ("https://a.example/b c", "https://a.example/b\n")),
    (image("data:text/html;base64,AAAA"), IMAGE),
    (image("data:image/png;base64,A A="), IMAGE),
    (image("data:image/png;base64,"), IMAGE),
    ({"type": "file", "file": None}, ONE_SOURCE),
    ({"type": "file", "file": PDF}, ONE_SOURCE),
    (file(), f'{ONE_SOURCE}, and may have a "filename", got none of them'),
    (file(filename="a.pdf"), ONE_SOURCE),
    (file(file_data=None, file_id=None), ONE_SOURCE),
    (file(file_data=PDF, more=1), ONE_SOURCE),
    (file(file_data=PDF, file_id="f-1"), "got file_data and file_id"),
    (file(file_data=PDF, filename=""), "part.file.filename must be text, or be left out, got ''"),
    (file(file_data=PDF, filename=5), "part.file.filename must be text"),
    (file(file_data=PDF, filename=HALF), "part.file.filename must be valid Unicode"),
    *((file(file_data=data), DATA) for data in (5, "", "JVBERi0=", "data:application/pdf,x")),
    (file(file_data="data:;base64,AAAA"), DATA),
    (file(file_data="data:application/pdf;base64,"), DATA),
    (file(file_data="data:application/pdf;base64,A A"), DATA),
    (file(file_data="https://a.example/b.pdf"), DATA),
    (file(file_data=b"", filename="a.pdf"), "part.file.file_data must not be empty"),
    (file(file_data=b"x"), UNKNOWN),
    (file(file_data=b"x", filename="a.nothing-known"), UNKNOWN),
    *(
        (file(file_url=url), "part.file.file_url must be an http(s) URL without spaces")
        for url in (5, "", "a.pdf", "file:///a.pdf", "https://a.example/b c.pdf", PDF)
    ),
    (file(file_id=""), "part.file.file_id must be the id of a file that the provider stores"),
    (file(file_id=5), "part.file.file_id must be the id of a file"),
    (file(file_id=HALF), "part.file.file_id must be valid Unicode"),
    ({"type": "input_audio", "input_audio": "UklGRg=="}, SOUND),
    (audio(), SOUND),
    (audio(data="UklGRg=="), SOUND),
    (audio(data="UklGRg==", format="wav", more=1), SOUND),
    *((audio(data="UklGRg==", format=kind), SOUND_FORMAT) for kind in (None, "", "audio/wav", 5)),
    *((audio(data=data, format="wav"), SOUND_DATA) for data in (None, "", b"", "A A", 5, HALF)),
]


@pytest.mark.parametrize(("part", "words"), WRONG)
def test_the_error_for_a_wrong_part_says_what_is_wrong(part: Any, words: str) -> None:
    assert words in rejection(check_part, "part", part)


NAMED = {"file_data": PDF, "filename": "file.pdf"}
TEXT = "data:text/plain;base64,aGk="

TAKEN: list[tuple[Any, Any]] = [
    (image(PIXEL), image({"url": PIXEL})),
    (
        image(MappingProxyType({"url": PIXEL, "detail": "low"})),
        image({"url": PIXEL, "detail": "low"}),
    ),
    (file(file_data=PDF), file(**NAMED)),
    (file(file_data=PDF, filename=None), file(**NAMED)),
    (file(file_data=PDF, filename="a.x"), file(file_data=PDF, filename="a.x")),
    (file(file_data=b"%PDF-1.7"), file(**NAMED)),
    (file(file_data=bytearray(b"%PDF-1.7")), file(**NAMED)),
    (file(file_data=b"hi", filename="a.TXT"), file(file_data=TEXT, filename="a.TXT")),
    (
        file(file_data="data:text/plain;charset=utf-8;base64,aGk="),
        file(file_data=TEXT, filename="file.txt"),
    ),
    (
        file(file_data="data:a/b.c+d;base64,aGk="),
        file(file_data="data:a/b.c+d;base64,aGk=", filename="file"),
    ),
    (file(file_data="data:Application/PDF;base64,JVBERi0xLjc="), file(**NAMED)),
    (file(file_url="https://a.example/b.pdf"), file(file_url="https://a.example/b.pdf")),
    (file(file_id="file-1", file_data=None), file(file_id="file-1")),
    (file(file_id="file-1", filename="a.pdf"), file(file_id="file-1", filename="a.pdf")),
    (audio(data="UklGRg==", format="WAV"), audio(data="UklGRg==", format="wav")),
    (audio(data=b"RIFF", format="mp3"), audio(data="UklGRg==", format="mp3")),
]


@pytest.mark.parametrize(("part", "checked"), TAKEN)
def test_a_valid_part_is_taken_in_one_form(part: Any, checked: Any) -> None:
    assert check_part("part", part) == checked
    assert check_part("part", checked) == checked  # a checked part is valid


def test_a_checked_part_is_a_copy() -> None:
    given = {"type": "text", "text": "a"}
    check_part("part", given)["text"] = "b"
    assert given["text"] == "a"
