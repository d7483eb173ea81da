"""Parts of a message: every valid form is accepted, and the error for any other says why."""

from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import LLMClient
from coreason_client.llm import LLMRequestError
from coreason_client.llm._attachments import MAX_FILE_BYTES
from coreason_client.llm._check_messages import check_part
from coreason_client.testing import fake_model
from tests.each import each

from .calls import HALF, PIXEL, rejection

OFFICE = "application/vnd.openxmlformats-officedocument"
PDF = "data:application/pdf;base64,JVBERi0xLjc="


def image(value: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": value}


def file(**fields: Any) -> dict[str, Any]:
    return {"type": "file", "file": fields}


def audio(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": fields}


FORMS = 'part must be text, bytes, a Path, {"type": "text", "text": …}, {"type": "image_url"'
IMAGE = "part.image_url.url must be an image as bytes or a Path, an http(s) URL, or data:image/…"
ONE_SOURCE = 'part.file must have one of "file_data", "file_url" and "file_id"'
DATA = "part.file.file_data must be bytes, a Path, or a URL such as data:application/pdf;base64,…"
UNKNOWN = "part.file.file_data is of an unknown type: pass it as a file part, with a filename"
SOUND = 'part.input_audio must be {"data": …, "format": "wav"}'
SOUND_DATA = "part.input_audio.data must be bytes, a Path, or base64 text without spaces"
SOUND_FORMAT = "part.input_audio.format must be a format such as wav or mp3"

NO_PARTS: list[Any] = [None, 5, [], {}, {"type": "audio", "audio": {}}, {"type": []}]
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
    (image(b"%PDF-1.7"), IMAGE),
    (b"text", "part is of an unknown type: pass it as a file part"),
    (b"", "part must not be empty"),
    (HALF, "part.text must be valid Unicode"),
    (Path("/dev/zero"), "part must be a file, and '/dev/zero' is none"),
    (Path("/nowhere/a.png"), "part must be a file, and '/nowhere/a.png' is none"),
    (Path("/" + "x" * 300), "part cannot be read: "),
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
    ("Hi", {"type": "text", "text": "Hi"}),
    (image(PIXEL), image({"url": PIXEL})),
    (image(b"\x89PNG\r\n\x1a\n"), image({"url": PIXEL})),
    (
        image({"url": b"\x89PNG\r\n\x1a\n", "detail": "low"}),
        image({"url": PIXEL, "detail": "low"}),
    ),
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


PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "

# Bytes, the name of their file, and the type of the part with its media type or format.
BYTES: list[tuple[bytes, str, str, str]] = [
    (PNG, "a", "image_url", "image/png"),
    (JPEG, "a.png", "image_url", "image/jpeg"),  # the bytes are right, the name is not
    (b"GIF89a", "a", "image_url", "image/gif"),
    (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a", "image_url", "image/webp"),
    (b"\x00\x00\x00\x18ftypheic", "a", "image_url", "image/heic"),
    (b"%PDF-1.7", "a", "file", "application/pdf"),
    (WAV, "a", "input_audio", "wav"),
    (b"ID3\x04", "a", "input_audio", "mp3"),
    (b"fLaC\0", "a", "input_audio", "flac"),
    (b"OggS\0", "a", "input_audio", "ogg"),
    (b"\xff\xfb\x90", "a", "input_audio", "mp3"),
    (b"\x00\x00\x00\x18ftypM4A ", "a", "input_audio", "m4a"),
    (b"\x00\x00\x00\x18ftypmp42", "a", "file", "video/mp4"),
]
NAMES: list[tuple[bytes, str, str, str]] = [
    (b"a,b", "a.csv", "file", "text/csv"),
    (b"The new WAVE of WEBP", "a.txt", "file", "text/plain"),
    (b"ID3 is a tag", "a.txt", "file", "text/plain"),
    (b"# A", "a.md", "file", "text/markdown"),
    (b"PK", "a.docx", "file", f"{OFFICE}.wordprocessingml.document"),
    (b"<svg/>", "a.svg", "image_url", "image/svg+xml"),
]


def read(part: dict[str, Any]) -> tuple[str, str, bytes]:
    """Return the type of a part, its media type or the format of audio, and its data."""
    kind: str = part["type"]
    value = part[kind]
    if kind == "input_audio":
        return kind, value["format"], b64decode(value["data"])
    head, _, data = (value.get("url") or value["file_data"]).partition(";base64,")
    return kind, head.removeprefix("data:"), b64decode(data)


@each(("data", "name", "kind", "found"), [*BYTES, *NAMES])
def test_a_path_becomes_the_part_for_its_type(
    data: bytes, name: str, kind: str, found: str
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        part = check_part("part", path)
        assert check_part("part", {"type": "file", "file": path}) == check_part(
            "part", file(file_data=data, filename=name)
        )
    assert read(part) == (kind, found, data)
    assert kind != "file" or part["file"]["filename"] == name


@each(("data", "name", "kind", "found"), BYTES)
def test_bytes_become_the_part_for_their_type(
    data: bytes, name: str, kind: str, found: str
) -> None:
    for one in (data, bytearray(data)):
        part = check_part("part", one)
        assert read(part) == (kind, found, data)
        assert check_part("part", part) == part


def test_the_name_of_a_file_is_sent_as_valid_unicode(tmp_path: Path) -> None:
    path = tmp_path / "a\udcff.pdf"
    path.write_bytes(b"%PDF-1.7")
    for part in (path, file(file_data=path)):
        assert check_part("part", part)["file"]["filename"] == "a?.pdf"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with path.open("wb") as large:
        large.truncate(MAX_FILE_BYTES + 1)
    message = rejection(check_part, "part", path)
    assert message.startswith("part must be at most 50,000,000 bytes, and '")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_valid_part_or_an_error(data: bytes) -> None:
    with suppress(LLMRequestError):
        part = check_part("part", data)
        assert check_part("part", part) == part


def test_a_path_is_read_once_in_a_call_and_sent_as_data(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    message = {"role": "user", "content": ["What is this?", path]}
    with fake_model(["a", "b"]) as fake, LLMClient("a-key", fake.url) as client:
        client.generate([message])
        result = client.run([message])
        sent = [request.json["messages"] for request in fake.requests]
    parts = [{"type": "text", "text": "What is this?"}, image({"url": PIXEL})]
    assert sent == [[{"role": "user", "content": parts}]] * 2
    assert result.messages[0] == message


def test_a_checked_part_is_a_copy() -> None:
    own = {"type": "text", "text": "a"}
    check_part("part", own)["text"] = "b"
    assert own["text"] == "a"
