"""`ModelCall`: a checked request in a provider-neutral form, and rules for its parts. Pure."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic_core import to_json

from ._argument_errors import invalid
from .types import Message

if TYPE_CHECKING:
    from mimetypes import MimeTypes

KEEP_INVALID_CALLS = "_keep_invalid_calls"
"""The internal option of `generate` and `stream` that sets `Call.keep_invalid_calls`."""

PromptCache: TypeAlias = Literal["5m", "1h"]
"""The lifetime of a cached prompt."""


class _DefaultModel(str):
    """A separate type, so that the default is distinct from equal text passed by a caller."""

    __slots__ = ()


DEFAULT_MODEL: str = _DefaultModel("gpt-4-turbo")
"""The model of calls without `model`, unless the variable `DEFAULT_MODEL` sets another one."""

DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
"""The model of embeddings without `model`."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema of the answer; if `schema` is None, the answer is any JSON object.

    `strict` is None if the caller did not choose: strict where provider and schema allow it.
    `wrapped`: the answer is an object whose only key has the value that the caller asked for.
    """

    name: str
    schema: Mapping[str, Any] | None
    strict: bool | None = False
    wrapped: bool = False


class PlainMessages(list[Message]):
    """Messages of the roles "system", "user" and "assistant" that have nothing but text.

    Nearly all calls have only such messages, and every wire format can express them.
    """

    __slots__ = ()


# Not frozen: that would double the cost of creating one, and every call creates one.
@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A checked request.

    Messages and tools have the form of OpenAI's chat completions: content is text, a list of
    parts, or None in an assistant message with `tool_calls`; a `tool` message has a `tool_call_id`
    and text. Roles are "system", "developer", "user", "assistant" and "tool"; an adapter receives
    "developer" only if the profile has `developer_role`. A tool call is
    `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`, with the
    `signature` that it was received with, if any; a call of a custom tool has `"custom": True`, and
    the arguments `{"input": text}`. A tool without the key `function` is the provider's own, and is
    sent as it is. An assistant message may have `reasoning`, and
    the `provider_items` of the response that it was built from: a list of opaque objects for each
    provider name, which only that provider gets back. The last message may be the beginning of the
    answer: an assistant message with `"prefix": True`.
    `tool_choice` is "auto", "none", "required", or "tool:" followed by the name of a tool.

    Only user messages have parts. A part is one of these; an adapter rejects those that its wire
    format cannot express in `Adapter.part_problem`:

    * `{"type": "text", "text": …}`
    * `{"type": "image_url", "image_url": {"url": …}}`, with an http(s) or a
      `data:image/…;base64,…` URL, and an optional `detail`.
    * `{"type": "file", "file": {…}}` with exactly one of `file_data` (a `data:MIME;base64,…` URL;
      then there is always a `filename`), `file_url` (an http(s) URL) and `file_id` (the
      provider's own id of an uploaded file); `filename` is optional with the latter two.
    * `{"type": "input_audio", "input_audio": {"data": base64 text, "format": "wav"}}`; the format
      is in lower case.

    `temperature` and `max_tokens` are None if the provider's own default applies. `arguments` are
    those that not every provider has, by name, without None. `prompt_cache`
    is the lifetime of cached prompts, None if the caller did not ask for caching. `raw` asks for
    the provider's reply in the response object. `resume` asks for a stream that can be resumed.
    `keep_invalid_calls`: a tool call whose arguments are not a JSON object is part of the answer,
    with `invalid_arguments`, and not an error.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    temperature: float | None = 0.7
    max_tokens: int | None = 2000
    tool_choice: str | None = None
    schema: Schema | None = None
    stop: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    prompt_cache: PromptCache | None = None
    raw: bool = False
    resume: bool = False
    keep_invalid_calls: bool = False


def sampling(call: ModelCall, temperature: str, max_tokens: str, stop: str) -> dict[str, Any]:
    """Return what a call has of these, by the names that a provider has for them."""
    fields = {
        temperature: call.temperature,
        max_tokens: call.max_tokens,
        stop: [*call.stop] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def is_pydantic_model(value: Any) -> bool:
    """Return True if a value is a pydantic model class, without importing pydantic."""
    return isinstance(value, type) and hasattr(value, "model_json_schema")


# Parts of a message.

# Types of text besides text/…
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript"})


_OFFICE = "application/vnd.openxmlformats-officedocument"
# Types that the table of Python lacks.
_MORE_TYPES = {
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".md": "text/markdown",
    ".m4a": "audio/mp4",
}


def data_of(url: str) -> tuple[str, str] | None:
    """Return the MIME type and the base64 text of a `data:` URL, None for another URL."""
    head, comma, data = url.partition(";base64,")
    return (head.removeprefix("data:"), data) if comma and head.startswith("data:") else None


def is_text(mime_type: str) -> bool:
    """Return True if files of a MIME type are text."""
    return mime_type.startswith("text/") or mime_type in _TEXT_TYPES


def text_of(data: str) -> str | None:
    """Return the text that base64 contains, None if it is not UTF-8."""
    try:
        return b64decode(data).decode("utf-8-sig")
    except ValueError:
        return None


def mime_type_of(name: str) -> str | None:
    """Return the MIME type of a file by its name or URL, None if it is not known."""
    path = urlsplit(name).path if "://" in name else name
    return _types().guess_type(path, strict=False)[0]


def extension_of(url: str) -> str:
    """Return the file extension for a `data:` URL, empty if there is none."""
    found = data_of(url)
    return _types().guess_extension(found[0], strict=False) or "" if found else ""


@lru_cache(maxsize=1)
def _types() -> "MimeTypes":
    from mimetypes import MimeTypes  # not at import: few calls have files

    types = MimeTypes()  # Python's own table, the same on every machine
    for extension, kind in _MORE_TYPES.items():
        types.add_type(kind, extension)
    return types


# The audio formats whose names differ from the names of media types.
_AUDIO_NAMES = {"mpeg": "mp3", "x-wav": "wav", "vnd.wave": "wav", "mp4": "m4a", "x-m4a": "m4a"}


def audio_format(media_type: str) -> str:
    """Return the `format` of an `input_audio` part for a media type such as `audio/mpeg`."""
    subtype = media_type.partition("/")[2]
    return _AUDIO_NAMES.get(subtype, subtype.removeprefix("x-"))


# Prompt caching: where the cached beginnings of a prompt end.
#
# Providers cache the beginning of a prompt. Some do so for every request. Others cache up to the
# breakpoints that a request sets, at most four: the client sets one after the tools, one after the
# system prompt and one after the last user message, so that the next request of a conversation
# finds the whole previous prompt. A breakpoint never changes the text that the model receives.

_LIFETIMES: Mapping[Any, PromptCache | None] = {False: None, True: "5m", "5m": "5m", "1h": "1h"}
_INSTRUCTIONS = ("system", "developer")


def check_prompt_cache(value: Any) -> PromptCache | None:
    """Return the lifetime of cached prompts, None if the caller does not ask for caching.

    Raises:
        LLMRequestError: the value is wrong.
    """
    if isinstance(value, bool | str) and value in _LIFETIMES:
        return _LIFETIMES[value]
    raise invalid("prompt_cache", 'must be True, False, "5m" or "1h"', value)


def cached_lists(
    tools: list[Any], system: list[Any], turns: Sequence[Mapping[str, Any]]
) -> list[list[Any]]:
    """Return the lists at whose ends a request sets breakpoints, without empty ones.

    `turns` are messages with a `role` and a list of `content`.
    """
    asked: list[list[Any]] = [turn["content"] for turn in turns if turn["role"] == "user"]
    return [blocks for blocks in (tools, system, *asked[-1:]) if blocks]


def cache_key(call: ModelCall) -> str | None:
    """Return a key that calls with the same tools and instructions share, None without these.

    OpenAI sends requests with the same key to the same cache.
    """
    if call.prompt_cache is None:
        return None
    first = takewhile(lambda message: message["role"] in _INSTRUCTIONS, call.messages)
    beginning = [*call.tools, *first]
    return blake2b(to_json(beginning), digest_size=16).hexdigest() if beginning else None
