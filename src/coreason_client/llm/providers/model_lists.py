"""The wire formats of lists of models, in a table. Pure.

Entries without an id are left out, and so are values of an unexpected type.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from .._answer import Malformed
from .._json import count, mapping, text
from ..types import ModelInfo

__all__ = ["MODEL_LISTS", "ModelFormat", "ModelPage"]

_PAGE = 1000  # models on a page: the maximum of Anthropic and Gemini
_MAX_SECONDS = 2**33  # of a date, in the year 2242

# The names of each field at the providers; the first one with a value counts.
_NAMES = ("display_name", "displayName", "modelName", "name")
_CONTEXT_WINDOWS = (
    "context_window",  # Groq
    "context_length",  # OpenRouter, Together, Fireworks
    "max_context_length",  # Mistral
    "max_model_len",  # vLLM
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Gemini
)
_MAX_OUTPUTS = ("max_completion_tokens", "max_tokens", "outputTokenLimit")


@dataclass(frozen=True, slots=True)
class ModelPage:
    """The models on one page of a list, and the cursor of the next page, None on the last."""

    models: list[ModelInfo]
    cursor: str | None = None


class ModelFormat(ABC):
    """One wire format of lists of models. Instances have no state; one serves all calls."""

    @abstractmethod
    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of a page; `base` does not end with a slash."""

    @abstractmethod
    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read a page of the models of a provider.

        Raises:
            Malformed: the reply does not follow the format.
        """


class OpenAIModels(ModelFormat):
    """The list at `/models`; Together sends it without an object around it."""

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of the list."""
        return f"{base}/models"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read the list."""
        found = reply if isinstance(reply, list) else _listed(reply, "data")
        return ModelPage(_models(found, provider))


class AnthropicModels(ModelFormat):
    """The pages at `/models`."""

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of a page; the cursor is the last id of the page before."""
        after = "" if cursor is None else f"&after_id={quote(cursor, safe='')}"
        return f"{base}/models?limit={_PAGE}{after}"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read a page."""
        last = text(mapping(reply).get("last_id")) if mapping(reply).get("has_more") is True else ""
        return ModelPage(_models(_listed(reply, "data"), provider), last or None)


class GeminiModels(ModelFormat):
    """The pages at `/models`, whose names begin with `models/`."""

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of a page."""
        token = "" if cursor is None else f"&pageToken={quote(cursor, safe='')}"
        return f"{base}/models?pageSize={_PAGE}{token}"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read a page."""
        found = [mapping(model) for model in _listed(reply, "models")]
        named = [
            {**model, "id": text(model.get("name")).removeprefix("models/"), "name": ""}
            for model in found
        ]
        cursor = text(mapping(reply).get("nextPageToken")) or None
        return ModelPage(_models(named, provider), cursor)


class OllamaModels(ModelFormat):
    """The list of the installed models at `/tags`."""

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of the list."""
        return f"{base}/tags"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read the list."""
        found = [mapping(model) for model in _listed(reply, "models")]
        ids = [text(model.get("model")) or text(model.get("name")) for model in found]
        return ModelPage(_models([{"id": id_} for id_ in ids], provider))


class BedrockModels(ModelFormat):
    """The list at `/foundation-models`, which is on another host than the models."""

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of the list."""
        return f"{base.replace('//bedrock-runtime', '//bedrock', 1)}/foundation-models"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read the list."""
        found = [mapping(model) for model in _listed(reply, "modelSummaries")]
        return ModelPage(_models([{**one, "id": one.get("modelId")} for one in found], provider))


def _listed(reply: Any, key: str) -> list[Any]:
    """Return the list in a reply.

    Raises:
        Malformed: there is none.
    """
    found = mapping(reply).get(key)
    if not isinstance(found, list):
        raise Malformed(f"the list of models must have `{key}`, got none")
    return found


def _models(found: list[Any], provider: str) -> list[ModelInfo]:
    return [_model(model, provider) for model in map(mapping, found) if text(model.get("id"))]


def _model(found: Mapping[str, Any], provider: str) -> ModelInfo:
    model: ModelInfo = {"id": found["id"], "provider": provider}
    if name := next(filter(None, (text(found.get(key)) for key in _NAMES)), ""):
        model["name"] = name
    if created := _created(found):
        model["created"] = created
    if window := _first_count(found, _CONTEXT_WINDOWS):
        model["context_window"] = window
    limits = {**found, **mapping(found.get("top_provider"))}  # OpenRouter
    if longest := _first_count(limits, _MAX_OUTPUTS):
        model["max_output_tokens"] = longest
    return model


def _created(found: Mapping[str, Any]) -> str:
    """Return the date of a model in the form of ISO 8601, empty if there is none."""
    if written := text(found.get("created_at")):
        return written
    seconds = count(found.get("created"))
    if not seconds or seconds >= _MAX_SECONDS:
        return ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _first_count(found: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    return next(filter(None, (count(found.get(key)) for key in keys)), None)


MODEL_LISTS: Mapping[str, ModelFormat] = {
    "openai": OpenAIModels(),
    "responses": OpenAIModels(),
    "anthropic": AnthropicModels(),
    "gemini": GeminiModels(),
    "ollama": OllamaModels(),
    "bedrock": BedrockModels(),
}
"""Formats of lists of models by the wire of a profile."""
