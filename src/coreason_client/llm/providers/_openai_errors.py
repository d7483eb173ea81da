"""Errors in the formats of OpenAI and of compatible providers. Pure."""

from collections.abc import Mapping
from typing import Any

from .._fault import Fault
from .._json import codes, count, http_status, mapping, text
from .._provider_text import error_reason

__all__ = ["described_error", "error_of"]

_NO_REASON = "the provider gave no reason"
# Bodies with one of these keys are answers.
_ANSWER_KEYS = frozenset({"choices", "output"})


def error_of(reply: Any) -> Fault | None:
    """Return the error in a body or an event, None if there is none."""
    body = mapping(reply)
    error = body.get("error")
    if error:
        if isinstance(error, str):  # xAI, and Ollama
            return Fault(error, codes(body.get("code"), body.get("type")))
        if isinstance(error, dict):
            return described_error(error)
    if not _ANSWER_KEYS.isdisjoint(body):
        return None
    if body.get("object") == "error" or {"code", "message"} <= body.keys():  # Mistral, llama.cpp
        return described_error(body)
    detail = body.get("detail")  # FastAPI's form, used by Mistral and many gateways
    return Fault(error_reason(body, b"") or _NO_REASON) if detail else None


def described_error(error: Mapping[str, Any]) -> Fault:
    """Return the error that an object describes."""
    code, kind = error.get("code"), error.get("type")
    # If the code is a number, the type is more specific.
    found = codes(code, kind) if count(code) is None else codes(kind, code)
    return Fault(
        _message_of(error),
        found,
        status=http_status(code),
        param=text(error.get("param")) or None,
    )


def _message_of(error: Mapping[str, Any]) -> str:
    """Return the reason of an error, including that of the provider behind a gateway."""
    message = error_reason(error, b"") or _NO_REASON
    raw = text(mapping(error.get("metadata")).get("raw"))  # OpenRouter
    return f"{message}: {raw}" if raw and raw not in message else message
