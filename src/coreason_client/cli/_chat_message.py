"""The message of the user to an agent service: the text and its attachments. Pure.

A text file becomes a text part, any other file a blob part, a URL a URI part that the agent may
fetch. The attachments precede the text.
"""

from base64 import b64encode
from collections.abc import Sequence

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    Role,
    TextPart,
    UriPart,
)

from ._attached import Attached, type_of_name
from ._attached_content import FileText, file_content
from ._text import encodable

__all__ = ["chat_message"]


def chat_message(text: str, attached: Sequence[Attached] = ()) -> ChatMessage:
    """Return the message.

    Raises:
        AttachFailure: a file is empty, or its type is unknown.
    """
    parts = [_part(one) for one in attached]
    if text:
        # Command line bytes that are not UTF-8 cannot be encoded in JSON.
        parts.append(TextPart(content=encodable(text)))
    return ChatMessage(role=Role.USER, parts=_with_blank_lines(parts))


def _part(attached: Attached) -> MessagePart:
    if attached.content is None:
        return UriPart(uri=attached.name, mime_type=type_of_name(attached.filename))
    found = file_content(attached, attached.content)
    if isinstance(found, FileText):
        return TextPart(content=found.text)
    return BlobPart(content=b64encode(found.content).decode(), mime_type=found.media_type)


def _with_blank_lines(parts: list[MessagePart]) -> list[MessagePart]:
    """Return the parts with a blank line after each text that another text follows.

    Agents join the text parts of a message, see `ChatMessage.text`.
    """
    texts = [index for index, part in enumerate(parts) if isinstance(part, TextPart)]
    for index in texts[:-1]:
        part = parts[index]
        if isinstance(part, TextPart):
            parts[index] = TextPart(content=f"{part.content}\n\n")
    return parts
