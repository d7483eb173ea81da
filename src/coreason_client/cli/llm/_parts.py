"""The message of the user: the question and its attachments. Pure.

A file that is text becomes text; other files become parts of the kinds image, audio and file. A URL
is passed on for the provider to fetch; its type follows from the name in its path.
"""

from base64 import b64encode
from collections.abc import Sequence
from mimetypes import guess_extension
from typing import Any

from coreason_client.llm._call import audio_format

from .._attached import Attached, AttachFailure, type_of_name
from .._attached_content import FileText, file_content
from .._text import encodable

__all__ = ["user_message"]

Part = dict[str, Any]


def user_message(question: str, attached: Sequence[Attached]) -> dict[str, Any]:
    """Return the message; the attachments precede the question.

    Raises:
        Failure: the type of an attachment is unknown.
    """
    parts = [_part(one) for one in attached]
    if question:
        parts.append(_text(encodable(question)))
    if all(part["type"] == "text" for part in parts):
        # Some servers understand only plain text.
        return {"role": "user", "content": "\n\n".join(part["text"] for part in parts)}
    return {"role": "user", "content": parts}


def _part(attached: Attached) -> Part:
    if attached.content is None:
        return _url_part(attached.name, attached.filename)
    return _file_part(attached, attached.content)


def _url_part(url: str, filename: str) -> Part:
    media_type = type_of_name(filename)
    if media_type is None:
        raise AttachFailure(
            url,
            "the name in the URL does not show a type; download the file and attach it,"
            " for example with: curl URL | coreason llm -a - …",
        )
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if media_type.startswith("audio/"):
        raise AttachFailure(url, "providers do not fetch audio; download the file and attach it")
    return {"type": "file", "file": {"file_url": url, "filename": filename}}


def _file_part(attached: Attached, content: bytes) -> Part:
    found = file_content(attached, content)
    if isinstance(found, FileText):
        return _text(found.text)
    media_type, filename = found.media_type, attached.filename
    data = b64encode(content).decode()
    kind = media_type.partition("/")[0]
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    if kind == "audio":
        audio = {"data": data, "format": audio_format(media_type)}
        return {"type": "input_audio", "input_audio": audio}
    if attached.name == "-":
        filename += guess_extension(media_type) or ""  # some providers need it
    file_data = f"data:{media_type};base64,{data}"
    return {"type": "file", "file": {"file_data": file_data, "filename": filename}}


def _text(text: str) -> Part:
    return {"type": "text", "text": text}
