"""Checks of the parts of a user message: text, images, files and audio."""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from ._argument_errors import invalid
from ._check_text import check_text
from ._parts import extension_of, mime_type_of
from .errors import LLMRequestError

__all__ = ["check_part"]

_IMAGE_KEYS = frozenset({"url", "detail"})
_FILE_SOURCES = ("file_data", "file_url", "file_id")
_FILE_KEYS = frozenset({*_FILE_SOURCES, "filename"})
_AUDIO_KEYS = frozenset({"data", "format"})

_URL = r"https?://[^\s]+"
_BASE64 = r"[A-Za-z0-9+/=]+"
_IMAGE_URL = re.compile(rf"{_URL}|data:image/[a-z0-9.+-]+;base64,{_BASE64}")
_FILE_URL = re.compile(_URL)
_DATA_URL = re.compile(rf"data:([\w.+-]+/[\w.+-]+)(?:;[\w.=-]+)*?;base64,({_BASE64})", re.ASCII)
_AUDIO_DATA = re.compile(_BASE64)
_AUDIO_FORMAT = re.compile(r"[a-z0-9]{1,16}", re.ASCII)
_PDF = b"%PDF-"


def check_part(where: str, part: Any) -> dict[str, Any]:
    """Return a part in the form of `Call`; `where` is its name in errors.

    Raises:
        LLMRequestError: the part is wrong.
    """
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _CHECKS or part.keys() != {"type", kind}:
        raise invalid(
            where,
            'must be {"type": "text", "text": …}, {"type": "image_url", "image_url": {"url": …}}, '
            '{"type": "file", "file": {…}} or {"type": "input_audio", "input_audio": {…}}',
            part,
        )
    return {"type": kind, kind: _CHECKS[kind](f"{where}.{kind}", part[kind])}


def _text(where: str, text: Any) -> str:
    check_text(where, text)
    checked: str = text
    return checked


def _image(where: str, image: Any) -> dict[str, Any]:
    if isinstance(image, str):
        image = {"url": image}
    if not isinstance(image, Mapping) or image.keys() - _IMAGE_KEYS:
        raise invalid(where, 'must be {"url": …}', image)
    url = image.get("url")
    if not isinstance(url, str) or not _IMAGE_URL.fullmatch(url):
        raise LLMRequestError(
            f"{where}.url must be an http(s) URL or data:image/…;base64,… without spaces"
        )
    if not isinstance(image.get("detail", ""), str):
        raise invalid(f"{where}.detail", "must be text", image["detail"])
    return dict(image)


def _file(where: str, file: Any) -> dict[str, Any]:
    rule = 'must have one of "file_data", "file_url" and "file_id", and may have a "filename"'
    if not isinstance(file, Mapping) or file.keys() - _FILE_KEYS:
        raise invalid(where, rule, file)
    given = [key for key in _FILE_SOURCES if file.get(key) is not None]
    if len(given) != 1:
        raise LLMRequestError(f"{where} {rule}, got {' and '.join(given) or 'none of them'}")
    name = file.get("filename")
    if name is not None:
        if not isinstance(name, str) or not name:
            raise invalid(f"{where}.filename", "must be text, or be left out", name)
        check_text(f"{where}.filename", name)
    [source] = given
    checked = {source: _SOURCES[source](f"{where}.{source}", file[source], name)}
    if source == "file_data" and name is None:
        name = f"file{extension_of(checked[source])}"
    return checked if name is None else {**checked, "filename": name}


def _file_data(where: str, data: Any, name: str | None) -> str:
    if isinstance(data, bytes | bytearray):
        return _encoded(where, bytes(data), name)
    match = _DATA_URL.fullmatch(data) if isinstance(data, str) else None
    if match is None:
        raise LLMRequestError(
            f"{where} must be bytes, or a URL such as data:application/pdf;base64,…"
        )
    return f"data:{match[1].lower()};base64,{match[2]}"


def _encoded(where: str, data: bytes, name: str | None) -> str:
    """Return bytes as a `data:` URL; the file name shows their type."""
    kind = mime_type_of(name or "") or ("application/pdf" if data.startswith(_PDF) else None)
    if not data:
        raise LLMRequestError(f"{where} must not be empty")
    if kind is None:
        raise LLMRequestError(
            f"{where} is bytes of an unknown type: add a filename with an extension such as .pdf, "
            "or pass a URL such as data:application/pdf;base64,…"
        )
    return f"data:{kind};base64,{b64encode(data).decode()}"


def _file_url(where: str, url: Any, name: str | None) -> str:
    if not isinstance(url, str) or not _FILE_URL.fullmatch(url):
        raise LLMRequestError(f"{where} must be an http(s) URL without spaces")
    return url


def _file_id(where: str, id_: Any, name: str | None) -> str:
    if not isinstance(id_, str) or not id_:
        raise invalid(where, "must be the id of a file that the provider stores", id_)
    check_text(where, id_)
    return id_


_SOURCES: dict[str, Callable[[str, Any, str | None], str]] = {
    "file_data": _file_data,
    "file_url": _file_url,
    "file_id": _file_id,
}


def _audio(where: str, audio: Any) -> dict[str, Any]:
    if not isinstance(audio, Mapping) or audio.keys() != _AUDIO_KEYS:
        raise invalid(where, 'must be {"data": …, "format": "wav"}', audio)
    kind = audio["format"]
    lower = kind.lower() if isinstance(kind, str) else ""
    if not _AUDIO_FORMAT.fullmatch(lower):
        raise invalid(f"{where}.format", "must be a format such as wav or mp3", kind)
    data = audio["data"]
    if isinstance(data, bytes | bytearray):
        data = b64encode(data).decode()
    if not isinstance(data, str) or not _AUDIO_DATA.fullmatch(data):
        raise LLMRequestError(f"{where}.data must be bytes, or base64 text without spaces")
    return {"data": data, "format": lower}


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "text": _text,
    "image_url": _image,
    "file": _file,
    "input_audio": _audio,
}
