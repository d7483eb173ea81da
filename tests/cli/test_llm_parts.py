"""The message of the user: a question and its attachments."""

from base64 import b64encode
from typing import Any

import pytest

from coreason_client.cli._attached import Attached
from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.llm._question_answer import user_message

PNG = b"\x89PNG\r\n\x1a\n"


def b64(content: bytes) -> str:
    return b64encode(content).decode()


def file(name: str, content: bytes) -> Attached:
    return Attached(f"some/{name}", name, content)


def image(content: bytes, kind: str = "png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{b64(content)}"}}


@pytest.mark.parametrize(
    ("attached", "part"),
    [
        (file("a.png", PNG), image(PNG)),
        (file("wrong-name.txt", PNG), image(PNG)),  # the content counts, not the name
        (file("a.bmp", b"BM\xff\0"), image(b"BM\xff\0", "bmp")),
        (
            file("a.wav", b"RIFF\0\0\0\0WAVE"),
            {
                "type": "input_audio",
                "input_audio": {"data": b64(b"RIFF\0\0\0\0WAVE"), "format": "wav"},
            },
        ),
        (
            file("a", b"ID3\xff"),
            {"type": "input_audio", "input_audio": {"data": b64(b"ID3\xff"), "format": "mp3"}},
        ),
        (
            file("a.pdf", b"%PDF-1.7"),
            {
                "type": "file",
                "file": {
                    "file_data": f"data:application/pdf;base64,{b64(b'%PDF-1.7')}",
                    "filename": "a.pdf",
                },
            },
        ),
        (
            file("a.zip", b"PK\xff"),
            {
                "type": "file",
                "file": {
                    "file_data": f"data:application/zip;base64,{b64(bytes([80, 75, 255]))}",
                    "filename": "a.zip",
                },
            },
        ),
        (
            Attached("https://x.example/a.jpg?b=c", "a.jpg", None),
            {"type": "image_url", "image_url": {"url": "https://x.example/a.jpg?b=c"}},
        ),
        (
            Attached("https://x.example/a.pdf", "a.pdf", None),
            {
                "type": "file",
                "file": {"file_url": "https://x.example/a.pdf", "filename": "a.pdf"},
            },
        ),
    ],
)
def test_a_file_becomes_the_part_of_its_type(attached: Attached, part: dict[str, Any]) -> None:
    question = {"type": "text", "text": "What?"}
    assert user_message("What?", [attached]) == {"role": "user", "content": [part, question]}
    assert user_message("", [attached]) == {"role": "user", "content": [part]}


def test_text_files_become_text_before_the_question() -> None:
    attached = [file("a.py", b"x = 1\n"), file("b.svg", b"<svg/>")]
    assert user_message("Explain.", attached) == {
        "role": "user",
        "content": "File a.py:\n\nx = 1\n\n\nFile b.svg:\n\n<svg/>\n\nExplain.",
    }
    mixed = user_message("", [file("a.png", PNG), file("a.py", b"x")])
    assert mixed["content"] == [image(PNG), {"type": "text", "text": "File a.py:\n\nx"}]


def test_a_question_alone_is_text_that_can_be_encoded() -> None:
    assert user_message("a\udcff", []) == {"role": "user", "content": "a?"}


@pytest.mark.parametrize(
    ("attached", "says"),
    [
        (file("a", b""), "--attach some/a: the file is empty"),
        (file("a", b"\xff\0"), "--attach some/a: the file is neither UTF-8 text nor of a known"),
        (file("a.txt", b"\xff\0"), "--attach some/a.txt: the file is neither UTF-8 text nor of a"),
        (Attached("https://x.example/a", "a", None), "the name in the URL does not show a type"),
        (Attached("https://x.example/a.mp3", "a.mp3", None), "providers do not fetch audio"),
    ],
)
def test_an_unknown_type_is_an_error(attached: Attached, says: str) -> None:
    with pytest.raises(Failure, match=says) as caught:
        user_message("What?", [attached])
    assert caught.value.code is ExitCode.USAGE
