"""The message of the user: the question and its attachments. Pure.

The type of a file follows from its first bytes, otherwise from its name. A file that is UTF-8 text
becomes text, with its name above it; other files become parts of the kinds image, audio and file. A
URL is passed on for the provider to fetch; its type follows from the name in its path.
"""

from base64 import b64encode
from collections.abc import Sequence
from mimetypes import guess_extension
from typing import Any

from .._attached import Attached, attach_failure, type_of_name
from .._text import encodable
from ._file_types import text_in, type_of_content

__all__ = ["user_message"]

Part = dict[str, Any]

# The names of formats that differ from those of media types.
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "vnd.wave": "wav", "mp4": "m4a", "x-m4a": "m4a"}


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
        raise attach_failure(
            url,
            "the name in the URL does not show a type; download the file and attach it,"
            " for example with: curl URL | coreason llm -a - …",
        )
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if media_type.startswith("audio/"):
        raise attach_failure(url, "providers do not fetch audio; download the file and attach it")
    return {"type": "file", "file": {"file_url": url, "filename": filename}}


def _file_part(attached: Attached, content: bytes) -> Part:
    name, filename = attached.name, attached.filename
    if not content:
        raise attach_failure(name, "the file is empty")
    media_type = type_of_content(content)
    if media_type is None and (text := text_in(content)) is not None:
        return _text(f"File {filename}:\n\n{text}")
    media_type = media_type or type_of_name(filename)
    if media_type is None or media_type.startswith("text/"):
        raise attach_failure(
            name,
            "the file is neither UTF-8 text nor of a known type; give it a name such as report.pdf",
        )
    data = b64encode(content).decode()
    kind, _, subtype = media_type.partition("/")
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    if kind == "audio":
        audio_format = _AUDIO_FORMATS.get(subtype, subtype.removeprefix("x-"))
        return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}
    if name == "-":
        filename += guess_extension(media_type) or ""  # some providers need it
    file_data = f"data:{media_type};base64,{data}"
    return {"type": "file", "file": {"file_data": file_data, "filename": filename}}


def _text(text: str) -> Part:
    return {"type": "text", "text": text}
