"""What may be asked: every argument of a call is checked here, before anything is sent."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, shown_value
from ._terms import Call, Schema, is_model
from .errors import LLMRequestError

__all__ = ["check_call"]

_ROLES = ("system", "user", "assistant", "tool")
_KEYS: dict[str, frozenset[str]] = {
    "system": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "reasoning"}),
    "tool": frozenset({"role", "content", "name", "tool_call_id"}),
}
# Made once: `list | tuple` makes a type each time it is come by.
_LISTS, _NUMBERS = (list, tuple), (int, float)
_WITH_PLAIN_TEXT = ("system", "user", "assistant")
_HOW_IT_ENDED = frozenset({"finish_reason", "filtered", "media", "parsed", "truncated"})
_TOOL_KEYS = frozenset({"type", "function"})
_FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict"})
_PLAIN_CALL_KEYS = frozenset({"id", "name", "arguments", "signature"})
_WRAPPED_CALL_KEYS = frozenset({"id", "type", "function", "signature", "index"})
_IMAGE_KEYS = frozenset({"url", "detail"})
# What all providers take.
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_IMAGE_URL = re.compile(r"https?://[^\s]+|data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=]+")
_CHOICES = ("auto", "none", "required")
_SCHEMA_NAME = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)
_MOST_TOKENS = 2**31 - 1


def check_call(
    messages: Any,
    model: Any,
    tools: Any,
    temperature: Any,
    max_tokens: Any,
    *,
    tool_choice: Any = None,
    response_format: Any = None,
    stop: Any = None,
    extra: Any = None,
    stream: bool = False,
) -> Call:
    """Return the call that the arguments describe.

    Raises:
        LLMRequestError: one of them is wrong; the sentence names it.
    """
    if not isinstance(model, str) or not model.strip():
        raise _wrong("model", "must be the name of a model", model)
    checked_tools = _tools(tools)
    return Call(
        model=model,
        messages=_messages(messages),
        tools=checked_tools,
        temperature=_temperature(temperature),
        max_tokens=_max_tokens(max_tokens),
        tool_choice=_tool_choice(tool_choice, checked_tools),
        schema=_schema(response_format),
        stop=_stop(stop),
        extra=_extra(extra),
        stream=stream,
    )


# Messages.


def _messages(messages: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(messages, _LISTS):
        raise _wrong("messages", "must be a list of messages", messages)
    if not messages:
        raise LLMRequestError("messages is empty: there must be at least one message")
    checked = [
        _plain(message) or _message(f"messages[{index}]", message)
        for index, message in enumerate(messages)
    ]
    _check_results(checked)
    return checked


def _plain(message: Any) -> dict[str, Any] | None:
    """Return a message of the commonest shape by far, None for any other."""
    if message.__class__ is not dict or len(message) != 2:
        return None
    content = message.get("content")
    if message.get("role") not in _WITH_PLAIN_TEXT or content.__class__ is not str:
        return None
    return dict(message) if content.isascii() or _is_sendable(content) else None


def _message(where: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _wrong(where, "must be an object with role and content", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _KEYS:
        raise _wrong(f"{where}.role", f"must be one of {', '.join(_ROLES)}", role)
    if unknown := message.keys() - _KEYS[role]:
        message = _without(where, message, unknown, role)
    name = message.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        raise _wrong(f"{where}.name", "must be text, or be left out", name)
    checked = _BY_ROLE[role](where, message)
    if name is None:
        checked.pop("name", None)
    return checked


def _without(where: str, message: Mapping[str, Any], unknown: Any, role: str) -> Mapping[str, Any]:
    """Return a message without what says nothing: nulls, and how an answer of ours ended.

    So `{"role": "assistant", **response["data"]}` goes on with a conversation.
    """
    ended = _HOW_IT_ENDED if role == "assistant" else frozenset[str]()
    wrong = {key for key in unknown if message[key] is not None and key not in ended}
    if wrong:
        raise LLMRequestError(
            f"{where} has {_listed(wrong)}, which a message of role {role} does not have"
        )
    return {key: value for key, value in message.items() if key not in unknown}


def _with_text(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, str):
        raise _wrong(f"{where}.content", "must be text", content)
    _check_text(f"{where}.content", content)
    return dict(message)


def _check_text(where: str, text: str) -> None:
    if not _is_sendable(text):
        raise LLMRequestError(f"{where} has half of a surrogate pair, which is no text")


def _is_sendable(text: str) -> bool:
    if text.isascii():  # known without a look at it
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _user(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return _with_text(where, message)
    if not content:
        raise LLMRequestError(f"{where}.content is empty: there must be at least one part")
    parts = [_part(f"{where}.content[{index}]", part) for index, part in enumerate(content)]
    return {**message, "content": parts}


def _part(where: str, part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str) and len(part) == 2:
        _check_text(f"{where}.text", part["text"])
        return dict(part)
    if kind == "image_url" and len(part) == 2:
        image = _image(f"{where}.image_url", part.get("image_url"))
        return {"type": "image_url", "image_url": image}
    raise _wrong(
        where,
        'must be {"type": "text", "text": …} or {"type": "image_url", "image_url": {"url": …}}',
        part,
    )


def _image(where: str, image: Any) -> dict[str, Any]:
    if isinstance(image, str):
        image = {"url": image}
    if not isinstance(image, Mapping) or image.keys() - _IMAGE_KEYS:
        raise _wrong(where, 'must be {"url": …}', image)
    url = image.get("url")
    if not isinstance(url, str) or not _IMAGE_URL.fullmatch(url):
        raise LLMRequestError(
            f"{where}.url must be an http(s) address or data:image/…;base64,… without blanks"
        )
    if not isinstance(image.get("detail", ""), str):
        raise _wrong(f"{where}.detail", "must be text", image["detail"])
    return dict(image)


def _assistant(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    checked = dict(message)
    if calls is not None and not isinstance(calls, list | tuple):
        raise _wrong(f"{where}.tool_calls", "must be a list", calls)
    if calls:
        checked["tool_calls"] = [
            _tool_call(f"{where}.tool_calls[{index}]", call) for index, call in enumerate(calls)
        ]
    else:
        checked.pop("tool_calls", None)
    content = checked.setdefault("content", None)
    if not isinstance(content, str) and not (content is None and calls):
        raise _wrong(f"{where}.content", "must be text, or null beside tool_calls", content)
    if content is not None:
        _check_text(f"{where}.content", content)
    reasoning = checked.get("reasoning")
    if reasoning is None:
        checked.pop("reasoning", None)
    elif not isinstance(reasoning, str):
        raise _wrong(f"{where}.reasoning", "must be text, or be left out", reasoning)
    return checked


def _tool_call(where: str, call: Any) -> dict[str, Any]:
    """Take a call as it stands in our response object, or in OpenAI's form; return the latter."""
    if not isinstance(call, Mapping):
        raise _wrong(where, "must be an object with id, name and arguments", call)
    wrapped = "function" in call
    if unknown := call.keys() - (_WRAPPED_CALL_KEYS if wrapped else _PLAIN_CALL_KEYS):
        raise LLMRequestError(f"{where} has {_listed(unknown)}, which a tool call does not have")
    function = call["function"] if wrapped else call
    if not isinstance(function, Mapping):
        raise _wrong(f"{where}.function", "must be an object", function)
    inside = f"{where}.function" if wrapped else where
    name, id_ = function.get("name"), call.get("id")
    if not isinstance(name, str) or not name:
        raise _wrong(f"{inside}.name", "must be the name of a function", name)
    if not isinstance(id_, str) or not id_:
        raise _wrong(f"{where}.id", "must be text", id_)
    arguments = _arguments(f"{inside}.arguments", function.get("arguments"))
    checked: dict[str, Any] = {
        "id": id_,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if (signature := call.get("signature")) is not None:
        if not isinstance(signature, str):
            raise _wrong(f"{where}.signature", "must be text", signature)
        checked["signature"] = signature
    return checked


def _arguments(where: str, arguments: Any) -> str:
    if isinstance(arguments, Mapping):
        return _as_json(where, dict(arguments))
    if arguments is None:
        return "{}"
    if not isinstance(arguments, str) or not _is_object(arguments):
        raise _wrong(where, "must be an object, or an object as JSON text", arguments)
    _check_text(where, arguments)
    return arguments or "{}"


def _as_json(where: str, arguments: dict[str, Any]) -> str:
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        # Half of a surrogate pair, which a model may have written, is sent escaped, as it came.
        return text if _is_sendable(text) else json.dumps(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise LLMRequestError(f"{where} cannot be written as JSON: {error}") from None


def _is_object(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _tool(where: str, message: Mapping[str, Any]) -> dict[str, Any]:
    id_ = message.get("tool_call_id")
    if not isinstance(id_, str) or not id_:
        raise _wrong(f"{where}.tool_call_id", "must name the call that this is the result of", id_)
    return _with_text(where, message)


_BY_ROLE: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "system": _with_text,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
}


def _check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """A result must answer a call that was made before it: some providers know it by name only."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        if "tool_calls" in message:
            known.update(call["id"] for call in message["tool_calls"])
        if message["role"] == "tool" and message["tool_call_id"] not in known:
            raise LLMRequestError(
                f"messages[{index}].tool_call_id is {shown_value(message['tool_call_id'])}, and no "
                "assistant message before it made that call"
            )


# Tools.


def _tools(tools: Any) -> Sequence[Mapping[str, Any]]:
    if tools is None:
        return ()
    if not isinstance(tools, list | tuple):
        raise _wrong("tools", "must be a list of tools", tools)
    known: set[str] = set()
    for index, tool in enumerate(tools):
        name = _tool_name(f"tools[{index}]", tool)
        if name in known:
            raise LLMRequestError(f"tools[{index}].function.name is {name!r} for a second time")
        known.add(name)
    return tools


def _tool_name(where: str, tool: Any) -> str:
    """Check a tool and return its name."""
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise _wrong(where, 'must be {"type": "function", "function": {…}}', tool)
    if unknown := tool.keys() - _TOOL_KEYS:
        raise LLMRequestError(f"{where} has {_listed(unknown)}, which a tool does not have")
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise _wrong(f"{where}.function", "must be an object", function)
    where = f"{where}.function"
    if unknown := function.keys() - _FUNCTION_KEYS:
        raise LLMRequestError(f"{where} has {_listed(unknown)}, which a function does not have")
    name = function.get("name")
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise _wrong(f"{where}.name", "must be 1 to 64 letters, digits, _ or -", name)
    if not isinstance(function.get("description", ""), str):
        raise _wrong(f"{where}.description", "must be text", function["description"])
    if not isinstance(function.get("parameters", {}), Mapping):
        raise _wrong(f"{where}.parameters", "must be a JSON schema", function["parameters"])
    if not isinstance(function.get("strict", False), bool):
        raise _wrong(f"{where}.strict", "must be true or false", function["strict"])
    return name


def _tool_choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> str | None:
    if choice is None:
        return None
    if isinstance(choice, str) and choice in _CHOICES:
        if choice == "required" and not tools:
            raise LLMRequestError('tool_choice is "required", and there are no tools')
        return choice if tools else None  # providers refuse a choice among none
    named = isinstance(choice, Mapping) and choice.get("type") == "function"
    function = choice.get("function") if named else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise _wrong(
            "tool_choice",
            'must be "auto", "none", "required" or {"type": "function", "function": {"name": …}}',
            choice,
        )
    if all(tool["function"]["name"] != name for tool in tools):
        raise LLMRequestError(f"tool_choice names {name!r}, and tools has no such function")
    return f"tool:{name}"


# The rest.


def _temperature(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not 0 <= value <= 1:
        raise _wrong("temperature", "must be a number from 0 to 1", value)
    return value


def _max_tokens(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_TOKENS:
        raise _wrong("max_tokens", f"must be a whole number from 1 to {_MOST_TOKENS}", value)
    return value


def _stop(stop: Any) -> Sequence[str]:
    if stop is None:
        return ()
    words = [stop] if isinstance(stop, str) else stop
    if not isinstance(words, list | tuple) or not all(isinstance(w, str) and w for w in words):
        raise _wrong("stop", "must be text, or a list of texts, none of them empty", stop)
    return words


def _extra(extra: Any) -> Mapping[str, Any]:
    if extra is None:
        return {}
    if not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra):
        raise _wrong("extra", "must be an object of fields for the provider", extra)
    if "stream" in extra:
        raise LLMRequestError("extra must not have 'stream': call stream() for a stream")
    return extra


def _schema(response_format: Any) -> Schema | None:
    if response_format is None:
        return None
    if is_model(response_format):
        return _model_schema(response_format)
    if not isinstance(response_format, Mapping):
        raise _wrong(
            "response_format", "must be a JSON schema or a pydantic model", response_format
        )
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return Schema("answer", None)
    if kind == "json_schema":
        return _wrapped_schema(response_format.get("json_schema"))
    return Schema("answer", response_format)


def _model_schema(model: Any) -> Schema:
    try:
        schema = model.model_json_schema()
    except (RuntimeError, NameError, AttributeError) as error:  # those of pydantic are of these
        reason = str(error).partition("\n")[0]
        raise LLMRequestError(
            f"response_format is the model {model.__name__}, which has no JSON schema: {reason}"
        ) from None
    return Schema(_SCHEMA_NAME.sub("_", model.__name__)[:64], schema, strict=None)


def _wrapped_schema(wrapped: Any) -> Schema:
    where = "response_format.json_schema"
    schema = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
    name = wrapped.get("name", "answer") if isinstance(wrapped, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(name, str):
        raise _wrong(where, 'must be {"name": …, "schema": {…}}', wrapped)
    strict = wrapped.get("strict")
    if not isinstance(strict, bool | None):
        raise _wrong(f"{where}.strict", "must be true or false", strict)
    return Schema(name, schema, bool(strict))


def _wrong(where: str, rule: str, value: Any) -> LLMRequestError:
    error = ArgumentError(where, rule, value)
    return LLMRequestError(str(error), argument_error=error)


def _listed(keys: Any) -> str:
    return " and ".join(sorted(map(shown_value, keys)))
