"""Rules that OpenAI's chat completions and its Responses API share. Pure.

* Which models reason.
* Files and audio in messages: `ProviderProfile.file_form` and `ProviderProfile.audio_form` have the
  differences between compatible providers.
* Strict mode, in which JSON schemas are enforced: every object forbids other properties and
  requires all of its own, and only some keywords are allowed. A schema that cannot be converted is
  sent unchanged, without strict mode.
* Custom tools, whose input is text; the two APIs nest their definitions differently.
* Citations of URLs.
* Errors.
"""

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from .._answer import ProviderFault
from .._call import ModelCall, data_of
from .._citations import citation
from .._json import codes, count, error_reason, http_status, mapping, text
from .._profile import ProviderProfile
from ..types import Citation

# Whether a model reasons, by the first matching prefix: always; by default, unless
# `reasoning_effort` is "none"; or only if `reasoning_effort` is set. While reasoning, models reject
# sampling parameters and stop sequences.
_REASONING: tuple[tuple[str, Literal["always", "default", "opt-in", "never"]], ...] = (
    ("gpt-6-astra", "always"),
    ("gpt-6.1-sol", "always"),
    ("gpt-6.1-terra", "default"),
    ("gpt-6-sol", "default"),
    ("gpt-6-luna", "default"),
    ("gpt-5.6", "default"),
    ("gpt-5.5-pro", "always"),
    ("gpt-5.5", "default"),
    ("gpt-5.4-pro", "always"),
    ("gpt-5.4", "opt-in"),
    ("gpt-5.3-chat", "always"),
    ("gpt-5.3", "opt-in"),
    ("gpt-5.2-pro", "always"),
    ("gpt-5.2-chat", "always"),
    ("gpt-5.2", "opt-in"),
    ("gpt-5.1-chat", "always"),
    ("gpt-5.1", "opt-in"),
    ("gpt-5-chat", "never"),
    ("gpt-5", "always"),
    ("o1", "always"),
    ("o3", "always"),
    ("o4", "always"),
)
_CODEX = re.compile(r"gpt-[0-9.]+-codex|codex-mini", re.ASCII)  # of any generation


def reasons(model: str, effort: Any) -> bool:
    """Return True if a model reasons in a call with this reasoning effort, None if none is set."""
    mode = reasoning_mode(model)
    if mode == "opt-in":
        return effort not in (None, "none")
    return mode == "always" or (mode == "default" and effort != "none")


@lru_cache(maxsize=256)
def reasoning_mode(model: str) -> str:
    """Return when a model reasons: "always", by "default", as an "opt-in", or "never"."""
    own_name = model.rpartition("/")[2]  # without the vendor prefix of gateways
    if _CODEX.match(own_name):
        return "always"
    return next((when for prefix, when in _REASONING if own_name.startswith(prefix)), "never")


# Files and audio.

_PDF = "application/pdf"
_RESPONSES = 'or use the Responses API with wire="responses"'


def part_problem(part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    name = profile.name
    if part["type"] == "input_audio" and profile.audio_form is None:
        return f"which {name} does not accept: send a transcript as a text part"
    if part["type"] != "file":
        return None
    file = part["file"]
    if profile.file_form is None:
        return f"which {name} does not accept: send the text of the file as a text part"
    if profile.file_form == "url" and "file_id" in file:
        return f"but {name} stores no files with a file_id: pass file_data or file_url"
    return _pdf_problem(file, name) if profile.file_form == "pdf" else None


def _pdf_problem(file: Mapping[str, Any], name: str) -> str | None:
    if "file_url" in file:
        return (
            f"but chat completions of {name} do not fetch a file_url: load the file and pass "
            f"file_data, {_RESPONSES}"
        )
    found = data_of(file.get("file_data", ""))
    if found is None or found[0] == _PDF:
        return None
    return (
        f"but chat completions of {name} accept only PDF files, got {found[0]}: send its text as a "
        f"text part, {_RESPONSES}"
    )


def sent_content(content: Any, profile: ProviderProfile) -> Any:
    """Return the content of a message in the form of the provider."""
    if not isinstance(content, list):
        return content
    return [_sent_part(part, profile) for part in content]


def _sent_part(part: Mapping[str, Any], profile: ProviderProfile) -> Mapping[str, Any]:
    if part["type"] == "input_audio" and profile.audio_form == "text":
        return {"type": "input_audio", "input_audio": part["input_audio"]["data"]}
    if part["type"] != "file":
        return part
    file = part["file"]
    if profile.file_form == "document_url":
        return _document(file)
    if profile.file_form == "url" and "file_url" in file:
        named = {"filename": file["filename"]} if "filename" in file else {}
        return {"type": "file", "file": {"file_data": file["file_url"], **named}}
    return part


def _document(file: Mapping[str, Any]) -> Mapping[str, Any]:
    if "file_id" in file:
        return {"type": "file", "file_id": file["file_id"]}
    named = {"document_name": file["filename"]} if "filename" in file else {}
    url = file.get("file_data") or file["file_url"]
    return {"type": "document_url", "document_url": url, **named}


# Strict mode.

_KEPT = frozenset(
    {
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "title",
        "type",
    }
)
# `required` is generated.
_DROPPED = frozenset({"default", "discriminator", "examples", "required"})
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
_MAX_DEPTH = 10


class _NotStrict(Exception):
    """The schema cannot be enforced."""


def sent_schema(call: ModelCall, profile: ProviderProfile) -> Mapping[str, Any] | None:
    """Return the name, the schema and the strictness of an answer, None if it has no schema."""
    schema = call.schema
    if schema is None or schema.schema is None or not profile.json_schemas:
        return None
    sent, strict = schema.schema, bool(schema.strict)
    if schema.strict is None and any(fnmatchcase(call.model, one) for one in profile.strict_models):
        converted = strict_schema(sent)
        sent, strict = (sent, False) if converted is None else (converted, True)
    return {"name": schema.name, "schema": sent, "strict": strict}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in strict form, None if that is not possible."""
    if schema.get("type") != "object":  # required by strict mode
        return None
    try:
        return _strict(schema, 0)
    except _NotStrict:
        return None


def _strict(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not schema or depth > _MAX_DEPTH:
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # no other keyword is allowed beside it
    strict = {key: value for key, value in schema.items() if key in _KEPT}
    for key, value in schema.items():
        if key not in _KEPT and key not in _DROPPED:
            strict["anyOf" if key == "oneOf" else key] = _keyword(key, value, depth + 1)
    if schema.get("type") == "object":
        if "properties" not in schema:
            raise _NotStrict
        strict["additionalProperties"] = False
        strict["required"] = list(schema["properties"])
    elif not strict.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NotStrict
    return strict


def _keyword(key: str, value: Any, depth: int) -> Any:
    if key in {"properties", "$defs"} and isinstance(value, Mapping):
        return {name: _strict(named, depth) for name, named in value.items()}
    if key in {"anyOf", "oneOf"} and isinstance(value, list):
        return [_strict(option, depth) for option in value]
    if key == "items":
        return _strict(value, depth)
    closed = key == "additionalProperties" and value is False
    if closed or (key == "format" and isinstance(value, str) and value in _FORMATS):
        return value
    raise _NotStrict


# Custom tools, and citations.


def nested_custom(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a custom tool in the form of chat completions; it may have either form."""
    if "custom" in tool:
        return tool
    custom = {key: value for key, value in tool.items() if key != "type"}
    form = mapping(custom.get("format"))
    if form.get("type") == "grammar" and "grammar" not in form:
        grammar = {key: value for key, value in form.items() if key != "type"}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": "custom", "custom": custom}


def flat_custom(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a custom tool in the form of the Responses API; it may have either form."""
    flat = {"type": "custom", **mapping(tool.get("custom") or tool)}
    form = mapping(flat.get("format"))
    if "grammar" in form:
        flat["format"] = {"type": "grammar", **mapping(form["grammar"])}
    return flat


def custom_input(call: Mapping[str, Any]) -> str:
    """Return the text that a call of a custom tool has."""
    return text(json.loads(call["function"]["arguments"], strict=False).get("input"))


def url_citation(found: Mapping[str, Any], offset: int = 0) -> Citation:
    """Return the citation in an annotation; `offset` is where the annotated text begins."""
    start, end = count(found.get("start_index")), count(found.get("end_index"))
    return citation(
        title=found.get("title") or found.get("filename"),
        url=found.get("url"),
        source_id=found.get("file_id"),
        cited_text=found.get("content"),
        start=None if start is None else offset + start,
        end=None if end is None else offset + end,
    )


# Errors.

_NO_REASON = "the provider gave no reason"
# Bodies with one of these keys are answers.
_ANSWER_KEYS = frozenset({"choices", "output"})


def error_of(reply: Any) -> ProviderFault | None:
    """Return the error in a body or an event, None if there is none."""
    body = mapping(reply)
    error = body.get("error")
    if error:
        if isinstance(error, str):  # xAI, and Ollama
            return ProviderFault(error, codes(body.get("code"), body.get("type")))
        if isinstance(error, dict):
            return described_error(error)
    if not _ANSWER_KEYS.isdisjoint(body):
        return None
    if body.get("object") == "error" or {"code", "message"} <= body.keys():  # Mistral, llama.cpp
        return described_error(body)
    detail = body.get("detail")  # FastAPI's form, used by Mistral and many gateways
    return ProviderFault(error_reason(body, b"") or _NO_REASON) if detail else None


def described_error(error: Mapping[str, Any]) -> ProviderFault:
    """Return the error that an object describes."""
    code, kind = error.get("code"), error.get("type")
    # If the code is a number, the type is more specific.
    found = codes(code, kind) if count(code) is None else codes(kind, code)
    return ProviderFault(
        _message_of(error), found, status=http_status(code), param=text(error.get("param")) or None
    )


def _message_of(error: Mapping[str, Any]) -> str:
    """Return the reason of an error, including that of the provider behind a gateway."""
    message = error_reason(error, b"") or _NO_REASON
    raw = text(mapping(error.get("metadata")).get("raw"))  # OpenRouter
    return f"{message}: {raw}" if raw and raw not in message else message
