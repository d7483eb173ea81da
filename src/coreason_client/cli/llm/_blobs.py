"""Takes the base64 data of attachments out of messages, and puts it back. Pure.

Every long text that is base64, alone or in a `data:` URL, becomes a reference by the SHA-256 of its
bytes. So a file that is attached to several messages is stored once.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

__all__ = ["MIN_LENGTH", "pack", "unpack"]

MIN_LENGTH = 256
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_REFERENCE, _OBJECT = "$blob", "$object"


def pack(value: Any) -> tuple[Any, dict[str, bytes]]:
    """Return a JSON value with references, and the bytes that they refer to, by their SHA-256."""
    blobs: dict[str, bytes] = {}
    return _packed(value, blobs), blobs


def _packed(value: Any, blobs: dict[str, bytes]) -> Any:
    if isinstance(value, str):
        return _packed_text(value, blobs)
    if isinstance(value, list | tuple):
        return [_packed(item, blobs) for item in value]
    if not isinstance(value, Mapping):
        return value
    packed = {key: _packed(item, blobs) for key, item in value.items()}
    # An object that looks like one of ours is wrapped, so that it stays what it is.
    return {_OBJECT: packed} if _REFERENCE in packed or _OBJECT in packed else packed


def _packed_text(text: str, blobs: dict[str, bytes]) -> Any:
    if len(text) < MIN_LENGTH:
        return text
    start = match.end() if (match := _DATA_URL.match(text)) else 0
    content = _decoded(text[start:])
    if content is None:
        return text
    digest = sha256(content).hexdigest()
    blobs[digest] = content
    return {_REFERENCE: digest, "prefix": text[:start]}


def _decoded(text: str) -> bytes | None:
    """Return the bytes if encoding them gives exactly this text."""
    try:
        content = b64decode(text, validate=True)
    except ValueError:
        return None
    return content if b64encode(content).decode() == text else None


def unpack(value: Any, blobs: Mapping[str, bytes]) -> Any:
    """Return the value that `pack` was given.

    Raises:
        KeyError: the bytes of a reference are missing.
    """
    if isinstance(value, list):
        return [unpack(item, blobs) for item in value]
    if not isinstance(value, dict):
        return value
    if _REFERENCE in value:
        return f"{value['prefix']}{b64encode(blobs[value[_REFERENCE]]).decode()}"
    items = value.get(_OBJECT, value)
    return {key: unpack(item, blobs) for key, item in items.items()}
