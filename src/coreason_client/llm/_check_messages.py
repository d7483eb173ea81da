"""Checks of the messages of a call."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from ..errors import shown_value
from ._argument_errors import check_text, invalid, is_encodable, quoted
from ._attachments import BINARY, Attachment, attachment, file_name, read_bytes
from ._call import PlainMessages, audio_format, extension_of
from .errors import LLMRequestError

_ROLES = ("system", "developer", "user", "assistant", "tool")
_KEYS: dict[str, frozenset[str]] = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset(
        {"role", "content", "name", "tool_calls", "reasoning", "prefix", "provider_items"}
    ),
    "tool": frozenset({"role", "content", "name", "tool_call_id", "is_error"}),
}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LISTS = (list, tuple)  # a constant, because `list | tuple` would build a union on every call
_PLAIN_ROLES = ("system", "user", "assistant")
RESPONSE_KEYS = frozenset(
    {"finish_reason", "filtered", "media", "parsed", "truncated"}
    | {"citations", "tool_results", "paused"}
)
"""Keys of our response objects that are not part of a conversation."""
_PLAIN_CALL_KEYS = frozenset(
    {"id", "name", "arguments", "signature", "invalid_arguments", "custom"}
)
_WRAPPED_CALL_KEYS = frozenset({"id", "type", "function", "signature", "index"})


class CheckedMessages(tuple[dict[str, Any], ...]):
    """Messages in the form of `ModelCall`: `check_messages` does not check them again."""

    __slots__ = ()


def check_messages(messages: Any) -> Sequence[dict[str, Any]]:
    """Return the messages in the form of `ModelCall`.

    Raises:
        LLMRequestError: a message is wrong.
    """
    if isinstance(messages, CheckedMessages):
        return messages
    if not isinstance(messages, _LISTS):
        messages = listed(messages)
    if not messages:
        raise LLMRequestError("messages must have at least one message, got an empty list")
    simple = [_simple_message(message) for message in messages]
    if None not in simple:  # nothing in them depends on the other messages
        return PlainMessages(simple)  # type: ignore[arg-type]
    checked = _checked(messages, 0)
    _check_tool_results(checked)
    _check_prefix(checked)
    return checked


def listed(messages: Any) -> Any:
    """Return messages as a list: a text is one message of the user.

    Raises:
        LLMRequestError: they are something else.
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if not isinstance(messages, _LISTS):
        raise invalid("messages", "must be text, or a list of messages", messages)
    return messages


def check_next_messages(earlier: CheckedMessages, messages: Sequence[Any]) -> CheckedMessages:
    """Return a conversation that begins with messages which were checked before.

    `messages` are those after them; they are checked.

    Raises:
        LLMRequestError: a message is wrong.
    """
    checked = [*earlier, *_checked(messages, len(earlier))]
    _check_tool_results(checked)
    _check_prefix(checked)
    return CheckedMessages(checked)


def _checked(messages: Sequence[Any], start: int) -> list[dict[str, Any]]:
    return [
        _simple_message(message) or _message(f"messages[{index}]", message)
        for index, message in enumerate(messages, start)
    ]


def _simple_message(message: Any) -> dict[str, Any] | None:
    """Return a message that `PlainMessages` may have, by far the most common; else None."""
    if message.__class__ is not dict or len(message) != 2:
        return None
    content = message.get("content")
    if message.get("role") not in _PLAIN_ROLES or content.__class__ is not str:
        return None
    return dict(message) if content.isascii() or is_encodable(content) else None


def _message(where: str, message: Any) -> dict[str, Any]:
    if not _is_object(message):
        raise invalid(where, "must be an object with role and content", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _KEYS:
        raise invalid(f"{where}.role", f"must be one of {', '.join(_ROLES)}", role)
    if not message.keys() <= _KEYS[role]:
        unknown = message.keys() - _KEYS[role]
        message = _without_keys(where, message, unknown, role)
    name = message.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        raise invalid(f"{where}.name", "must be text, or be left out", name)
    checked = _BY_ROLE[role](where, message)
    if name is None:
        checked.pop("name", None)
    return checked


def _without_keys(
    where: str, message: Mapping[str, Any], unknown: AbstractSet[str], role: str
) -> Mapping[str, Any]:
    """Drop unknown keys that are null, and keys of our own response objects.

    So `{"role": "assistant", **response["data"]}` is a valid message.
    """
    ignored = RESPONSE_KEYS if role == "assistant" else frozenset[str]()
    rejected = {key for key in unknown if message[key] is not None and key not in ignored}
    if rejected:
        raise LLMRequestError(
            f"{where} must not have {quoted(rejected)}: a message of role {role} has no such key"
        )
    return {key: value for key, value in message.items() if key not in unknown}


def _text_message(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    check_text(f"{where}.content", message.get("content"))
    return dict(message)


def _user_message(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return _text_message(where, message)
    if not content:
        raise LLMRequestError(f"{where}.content must have at least one part, got an empty list")
    parts = [check_part(f"{where}.content[{index}]", part) for index, part in enumerate(content)]
    return {**message, "content": parts}


def _assistant_message(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    checked = dict(message)
    if calls is not None and not isinstance(calls, list | tuple):
        raise invalid(f"{where}.tool_calls", "must be a list", calls)
    if calls:
        checked["tool_calls"] = [
            _tool_call(f"{where}.tool_calls[{index}]", call) for index, call in enumerate(calls)
        ]
    else:
        checked.pop("tool_calls", None)
    content = checked.setdefault("content", None)
    if not isinstance(content, str) and not (content is None and calls):
        raise invalid(f"{where}.content", "must be text, or null beside tool_calls", content)
    if content is not None:
        check_text(f"{where}.content", content)
    _check_prefix_key(where, checked)
    _check_provider_items(where, checked)
    reasoning = checked.get("reasoning")
    if reasoning is None:
        checked.pop("reasoning", None)
    elif not isinstance(reasoning, str):
        raise invalid(f"{where}.reasoning", "must be text, or be left out", reasoning)
    return checked


def _check_prefix_key(where: str, message: dict[str, Any]) -> None:
    prefix = message.get("prefix")
    if prefix is not None and not isinstance(prefix, bool):
        raise invalid(f"{where}.prefix", "must be true or false, or be left out", prefix)
    if prefix and ("tool_calls" in message or message["content"] is None):
        raise LLMRequestError(f"{where}.prefix must not be true beside tool_calls")
    if not prefix:
        message.pop("prefix", None)


def _check_provider_items(where: str, message: dict[str, Any]) -> None:
    """Check that the items of each provider are a list of objects; their content is opaque."""
    carried = message.get("provider_items")
    if carried is None:
        message.pop("provider_items", None)
    elif not isinstance(carried, Mapping) or not all(map(_are_items, carried.values())):
        raise invalid(
            f"{where}.provider_items", "must be lists of objects by provider name", carried
        )


def _are_items(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)


def _check_prefix(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that only the last message is the beginning of the answer, and not the only one."""
    for index, message in enumerate(messages):
        if "prefix" in message and (index == 0 or index < len(messages) - 1):
            raise LLMRequestError(
                f"messages[{index}].prefix must be left out: only the last of several messages can "
                "be the beginning of the answer"
            )


def _is_object(value: Any) -> bool:
    # Most are plain dicts, and asking an abstract class takes ten times longer.
    return value.__class__ is dict or isinstance(value, Mapping)


def _tool_call(where: str, call: Any) -> dict[str, Any]:
    """Check a tool call in our form or in OpenAI's, and return it in OpenAI's."""
    if not _is_object(call):
        raise invalid(where, "must be an object with id, name and arguments", call)
    if _is_object(call.get("custom")):  # OpenAI's form of a custom tool
        given = {
            "name": call["custom"].get("name"),
            "arguments": {"input": call["custom"].get("input")},
        }
        call = {"id": call.get("id"), **given, "custom": True}
    wrapped = "function" in call
    known = _WRAPPED_CALL_KEYS if wrapped else _PLAIN_CALL_KEYS
    if not call.keys() <= known:
        raise LLMRequestError(
            f"{where} must not have {quoted(call.keys() - known)}: a tool call has no such key"
        )
    function = call["function"] if wrapped else call
    if not _is_object(function):
        raise invalid(f"{where}.function", "must be an object", function)
    inside = f"{where}.function" if wrapped else where
    name, id_ = function.get("name"), call.get("id")
    if not isinstance(name, str) or not name:
        raise invalid(f"{inside}.name", "must be the name of a function", name)
    if not isinstance(id_, str) or not id_:
        raise invalid(f"{where}.id", "must be text", id_)
    arguments = _arguments(f"{inside}.arguments", function.get("arguments"))
    checked: dict[str, Any] = {
        "id": id_,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if (signature := call.get("signature")) is not None:
        if not isinstance(signature, str):
            raise invalid(f"{where}.signature", "must be text", signature)
        checked["signature"] = signature
    if call.get("custom") is True:
        checked["custom"] = True
    return checked


def _arguments(where: str, arguments: Any) -> str:
    if _is_object(arguments):
        return _to_json(where, dict(arguments))
    if arguments is None:
        return "{}"
    if not isinstance(arguments, str) or not _is_json_object(arguments):
        raise invalid(where, "must be an object, or an object as JSON text", arguments)
    check_text(where, arguments)
    return arguments or "{}"


def _to_json(where: str, arguments: dict[str, Any]) -> str:
    if _has_only_texts(arguments):
        return to_json(arguments).decode()
    try:
        text = _ENCODER.encode(arguments)
        # A model may have written half of a surrogate pair; it is sent back escaped.
        return text if is_encodable(text) else json.dumps(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise LLMRequestError(f"{where} cannot be encoded as JSON: {error}") from None


def _has_only_texts(arguments: dict[str, Any]) -> bool:
    """Return True if a faster encoder, which accepts more, gives the same result."""
    for key, value in arguments.items():
        if key.__class__ is not str or value.__class__ is not str:
            return False
        if not (value.isascii() and key.isascii()):
            return False
    return True


def _is_json_object(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _tool_message(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    id_ = message.get("tool_call_id")
    if not isinstance(id_, str) or not id_:
        raise invalid(
            f"{where}.tool_call_id", "must be the id of the call that this is the result of", id_
        )
    checked = _text_message(where, message)
    is_error = checked.get("is_error")
    if is_error is not None and not isinstance(is_error, bool):
        raise invalid(f"{where}.is_error", "must be true or false, or be left out", is_error)
    if not is_error:
        checked.pop("is_error", None)
    return checked


_BY_ROLE: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "system": _text_message,
    "developer": _text_message,
    "user": _user_message,
    "assistant": _assistant_message,
    "tool": _tool_message,
}


def _check_tool_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that each tool result follows its call.

    Some providers identify a result by the name of the function, which only the call contains.
    """
    known: set[str] = set()
    for index, message in enumerate(messages):
        if "tool_calls" in message:
            known.update(call["id"] for call in message["tool_calls"])
        if message["role"] == "tool" and message["tool_call_id"] not in known:
            raise LLMRequestError(
                f"messages[{index}].tool_call_id must be the id of a call in an earlier assistant "
                f"message, got {shown_value(message['tool_call_id'])}"
            )


# Parts of a user message: text, images, files and audio.

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


def check_part(where: str, part: Any) -> dict[str, Any]:
    """Return a part in the form of `ModelCall`; `where` is its name in errors.

    Raises:
        LLMRequestError: the part is wrong.
    """
    if isinstance(part, BINARY):
        return _attached(attachment(where, part))
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _CHECKS or part.keys() != {"type", kind}:
        raise invalid(
            where,
            'must be text, bytes, a Path, {"type": "text", "text": …}, {"type": "image_url", '
            '"image_url": {"url": …}}, {"type": "file", "file": {…}} or {"type": "input_audio", '
            '"input_audio": {…}}',
            part,
        )
    return {"type": kind, kind: _CHECKS[kind](f"{where}.{kind}", part[kind])}


def _attached(file: Attachment) -> dict[str, Any]:
    """Return the part for bytes or a file: its type shows whether it is an image or audio."""
    if file.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": file.url}}
    if file.media_type.startswith("audio/"):
        audio = {"data": file.data, "format": audio_format(file.media_type)}
        return {"type": "input_audio", "input_audio": audio}
    name = file.name or f"file{extension_of(file.url)}"
    return {"type": "file", "file": {"file_data": file.url, "filename": name}}


def _image(where: str, image: Any) -> dict[str, Any]:
    if isinstance(image, (str, *BINARY)):
        image = {"url": image}
    if not isinstance(image, Mapping) or image.keys() - _IMAGE_KEYS:
        raise invalid(where, 'must be {"url": …}', image)
    url = image.get("url")
    if isinstance(url, BINARY):
        url = attachment(f"{where}.url", url).url
    if not isinstance(url, str) or not _IMAGE_URL.fullmatch(url):
        raise LLMRequestError(
            f"{where}.url must be an image as bytes or a Path, an http(s) URL, or "
            "data:image/…;base64,… without spaces"
        )
    if not isinstance(image.get("detail", ""), str):
        raise invalid(f"{where}.detail", "must be text", image["detail"])
    return {**image, "url": url}


def _file(where: str, file: Any) -> dict[str, Any]:
    if isinstance(file, BINARY):
        file = {"file_data": file}
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
    if isinstance(file[source], Path):
        name = name or file_name(file[source])
    if source == "file_data" and name is None:
        name = f"file{extension_of(checked[source])}"
    return checked if name is None else {**checked, "filename": name}


def _file_data(where: str, data: Any, name: str | None) -> str:
    if isinstance(data, BINARY):
        return attachment(where, data, name).url
    match = _DATA_URL.fullmatch(data) if isinstance(data, str) else None
    if match is None:
        raise LLMRequestError(
            f"{where} must be bytes, a Path, or a URL such as data:application/pdf;base64,…"
        )
    return f"data:{match[1].lower()};base64,{match[2]}"


def _file_url(where: str, url: Any, name: str | None) -> str:
    if not isinstance(url, str) or not _FILE_URL.fullmatch(url):
        raise LLMRequestError(f"{where} must be an http(s) URL without spaces")
    return url


def _file_id(where: str, id_: Any, name: str | None) -> str:
    if not isinstance(id_, str) or not id_:
        raise invalid(where, "must be the id of a file that the provider stores", id_)
    return check_text(where, id_)


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
    if isinstance(data, BINARY):
        data = b64encode(read_bytes(f"{where}.data", data)).decode()
    if not isinstance(data, str) or not _AUDIO_DATA.fullmatch(data):
        raise LLMRequestError(f"{where}.data must be bytes, a Path, or base64 text without spaces")
    return {"data": data, "format": lower}


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "text": check_text,
    "image_url": _image,
    "file": _file,
    "input_audio": _audio,
}
