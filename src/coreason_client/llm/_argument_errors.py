"""Errors for invalid arguments of a call and for habits of other libraries, and their checks."""

from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError, shown_value
from .errors import LLMRequestError

_CLIENT = "it is an argument of the client: LLMClient({}=…)"
_INSTEAD = {
    "stream": "call stream() or stream_sync() in place of generate() to get a stream",
    "stream_options": "result() of a stream always has the usage",
    "max_completion_tokens": "use max_tokens, which is sent under the name that the model expects",
    "max_output_tokens": "use max_tokens, which is sent under the name that the model expects",
    "n": "an answer is one choice, so call once for each",
    "input": "use messages",
    "prompt": "use messages",
    "system": "begin messages with one whose role is 'system'",
    "instructions": "begin messages with one whose role is 'system'",
    "functions": "use tools",
    "function_call": "use tool_choice",
    "text_format": "use response_format",
    "extra_body": "use extra",
    "extra_headers": _CLIENT.format("headers"),
    "api_key": _CLIENT.format("api_key"),
    "api_base": _CLIENT.format("base_url"),
    "base_url": _CLIENT.format("base_url"),
    "timeout": _CLIENT.format("timeout"),
    "max_retries": _CLIENT.format("max_retries"),
    "num_retries": _CLIENT.format("max_retries"),
    "custom_llm_provider": "write it before the model: model='provider/model'",
    "mock_response": "use coreason_client.testing.fake_model",
}
_ANSWER = {"choices": '["data"]', "output": '["data"]', "output_text": '["data"]["content"]'}


def invalid(argument: str, rule: str, value: Any) -> LLMRequestError:
    """Return the error for an argument that breaks a rule, such as "must be text"."""
    error = ArgumentError(argument, rule, value)
    return LLMRequestError(str(error), argument_error=error)


def quoted(keys: Iterable[Any]) -> str:
    """Return keys as a list for an error message."""
    return " and ".join(sorted(map(shown_value, keys)))


def unknown_option(names: Iterable[str], known: Iterable[str]) -> TypeError:
    """Return the error for names of arguments that do not exist; it says what to use instead."""
    name = min(names)
    hint = _INSTEAD.get(name) or (
        f"fields of the provider go into extra={{{name!r}: …}}, "
        f"and the options are {', '.join(sorted(known))}"
    )
    return TypeError(f"there is no option {name!r}; {hint}")


class AnswerDict(dict[str, Any]):
    """A response object that says how to read it if it is used like one of another library."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        key = f'["{name}"]' if name in self else _ANSWER.get(name)
        hint = "" if key is None else f": it is a dictionary, use response{key}"
        raise AttributeError(f"a response has no attribute {name!r}{hint}")


def check_text(where: str, text: Any) -> str:
    """Return a value if it is text that can be sent; `where` is its name in the error.

    Raises:
        LLMRequestError: it is not.
    """
    if not isinstance(text, str):
        raise invalid(where, "must be text", text)
    if not is_encodable(text):
        raise LLMRequestError(f"{where} must be valid Unicode, got half of a surrogate pair")
    return text


def is_encodable(text: str) -> bool:
    """Return True if a text can be encoded as UTF-8."""
    if text.isascii():  # fast: str stores this as a flag
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Return True for a finite or infinite number that is neither a bool nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
