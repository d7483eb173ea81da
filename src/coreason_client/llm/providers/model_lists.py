"""The wire formats of lists of models, in a table. Pure.

Entries without an id are left out, and so are values of an unexpected type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar
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


class ModelFormat:
    """A wire format of lists of models. Instances have no state; one serves all calls.

    Attributes:
        path: the path of the first page below the base URL.
        next_page: what comes before the cursor of a later page.
        key: the name of the list in a reply.
    """

    path: ClassVar[str] = "/models"
    next_page: ClassVar[str] = ""
    key: ClassVar[str] = "data"

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of a page; `base` does not end with a slash."""
        after = "" if cursor is None else f"{self.next_page}{quote(cursor, safe='')}"
        return f"{base}{self.path}{after}"

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read a page of the models of a provider.

        Raises:
            Malformed: the reply does not follow the format.
        """
        page = mapping(reply)
        found = page.get(self.key)
        if not isinstance(found, list):
            raise Malformed(f"the list of models must have `{self.key}`, got none")
        models = map(self.named, map(mapping, found))
        usable = [_model(model, provider) for model in models if text(model.get("id"))]
        return ModelPage(usable, self.cursor(page))

    def named(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an entry of the list with its `id`."""
        return model

    def cursor(self, page: Mapping[str, Any]) -> str | None:
        """Return the cursor of the next page."""
        return None


class OpenAIModels(ModelFormat):
    """The list at `/models`; Together sends it without an object around it."""

    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read the list."""
        return super().read({"data": reply} if isinstance(reply, list) else reply, provider)


class AnthropicModels(ModelFormat):
    """The pages at `/models`; the cursor is the last id of the page before."""

    path = f"/models?limit={_PAGE}"
    next_page = "&after_id="

    def cursor(self, page: Mapping[str, Any]) -> str | None:
        """Return the last id, unless this is the last page."""
        return text(page.get("last_id")) or None if page.get("has_more") is True else None


class GeminiModels(ModelFormat):
    """The pages at `/models`, whose names begin with `models/`."""

    path = f"/models?pageSize={_PAGE}"
    next_page = "&pageToken="
    key = "models"

    def named(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a model with its id, which is in its name."""
        return {**model, "id": text(model.get("name")).removeprefix("models/"), "name": ""}

    def cursor(self, page: Mapping[str, Any]) -> str | None:
        """Return the token of the next page."""
        return text(page.get("nextPageToken")) or None


class OllamaModels(ModelFormat):
    """The list of the installed models at `/tags`."""

    path = "/tags"
    key = "models"

    def named(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a model with only its id."""
        return {"id": text(model.get("model")) or text(model.get("name"))}


class BedrockModels(ModelFormat):
    """The list at `/foundation-models`, which is on another host than the models."""

    path = "/foundation-models"
    key = "modelSummaries"

    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of the list."""
        return super().url(base.replace("//bedrock-runtime", "//bedrock", 1), cursor)

    def named(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a model with its id."""
        return {**model, "id": model.get("modelId")}


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
