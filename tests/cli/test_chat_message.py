"""The message to an agent service with its attachments."""

from base64 import b64encode

import pytest

from coreason_client.cli._attached import Attached, AttachFailure
from coreason_client.cli.chat._answer import chat_message
from coreason_manifest.definitions.message import BlobPart, TextPart, UriPart

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_text_alone_is_one_part_that_can_be_encoded() -> None:
    assert chat_message("a\udcff").parts == [TextPart(content="a?")]


def test_attachments_precede_the_text_and_texts_stay_apart() -> None:
    message = chat_message(
        "Compare.",
        [
            Attached("a.py", "a.py", b"x"),
            Attached("b.png", "b.png", PNG),
            Attached("https://x.example/c.pdf", "c.pdf", None),
            Attached("https://x.example/d", "d", None),
        ],
    )
    assert message.parts == [
        TextPart(content="File a.py:\n\nx\n\n"),
        BlobPart(content=b64encode(PNG).decode(), mime_type="image/png"),
        UriPart(uri="https://x.example/c.pdf", mime_type="application/pdf"),
        UriPart(uri="https://x.example/d"),
        TextPart(content="Compare."),
    ]
    assert message.text == "File a.py:\n\nx\n\nCompare."


def test_the_text_may_be_missing_and_a_file_may_be_refused() -> None:
    assert len(chat_message("", [Attached("b.png", "b.png", PNG)]).parts) == 1
    with pytest.raises(AttachFailure, match="the file is empty"):
        chat_message("What?", [Attached("a", "a", b"")])
