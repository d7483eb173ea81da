"""The wire formats of embeddings, in a table. Pure.

* OpenAI and compatible APIs: `/embeddings`, up to 2048 texts in a request. OpenAI and Azure are
  asked for base64, which is a third of the size of the numbers.
* Gemini: `:batchEmbedContents`, up to 100 texts, each with its own fields.
* Perplexity: the same, with base64 of 8-bit numbers and up to 512 texts.
* Vertex: `:predict`, up to 250 texts; one for `gemini-embedding-001`. Its other models of Gemini,
  such as `gemini-embedding-2`, have `:embedContent` for one text.
* Cohere: `/v2/embed`, up to 96 texts.
* Ollama: `/embed`.
* Bedrock: `/invoke` with the body of the model: Titan accepts one text, Cohere 96.
"""

import binascii
import math
import re
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

from .._answer import Malformed, Tokens
from .._cost import with_billing
from .._json import count, items, mapping, with_extra
from .._profile import ProviderProfile

__all__ = ["EMBEDDINGS", "EmbedCall", "EmbedFormat", "Embedded", "vector_of"]

_COHERE = re.compile(r"(?:^|[./])cohere\.embed-", re.ASCII)
_TITAN = re.compile(r"(?:^|[./])amazon\.titan-embed-", re.ASCII)
_COHERE_TEXTS = 96
_GEMINI_SIZE = "outputDimensionality"
_COUNT_HEADER = "x-amzn-bedrock-input-token-count"
_DIGITS = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """Texts to embed with a model; `dimensions` is None for the model's own number."""

    model: str
    texts: Sequence[str]
    dimensions: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors in a reply, in the order of the texts, and the token counts if it has any."""

    vectors: list[list[float]]
    tokens: Tokens | None = None


class EmbedFormat(ABC):
    """One wire format of embeddings. Instances have no state; one serves all calls."""

    max_texts: ClassVar[int] = 2048

    def texts_per_request(self, model: str) -> int:
        """Return the largest number of texts in one request."""
        return self.max_texts

    @abstractmethod
    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL for a call; `base` does not end with a slash."""

    @abstractmethod
    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call, with the caller's `extra` fields.

        Raises:
            LLMRequestError: the provider cannot express the call.
        """

    @abstractmethod
    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read a reply.

        Raises:
            Malformed: the reply does not follow the format.
        """


def _sized(call: EmbedCall, field: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with the number of dimensions, if there is one, and the caller's fields."""
    if call.dimensions is not None:
        body[field] = call.dimensions
    return with_extra(body, call.extra)


class OpenAIEmbeddings(EmbedFormat):
    """The format of `/embeddings`."""

    number: ClassVar[str] = "f"
    """The type code of numbers in base64."""

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint."""
        return f"{base}/embeddings"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        body: dict[str, Any] = {"model": call.model, "input": list(call.texts)}
        if profile.base64_embeddings:
            body["encoding_format"] = "base64"
        return _sized(call, profile.dimensions_field, body)

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors, which may be in any order."""
        found = [mapping(item) for item in items(reply.get("data"))]
        if all(count(item.get("index")) is not None for item in found):
            found.sort(key=lambda item: item["index"])
        vectors = [vector_of(item.get("embedding"), self.number) for item in found]
        usage = mapping(reply.get("usage"))
        prompt = count(usage.get("prompt_tokens"))
        if prompt is None:
            prompt = count(usage.get("total_tokens"))
        return Embedded(vectors, with_billing(_tokens(prompt), reply))


class PerplexityEmbeddings(OpenAIEmbeddings):
    """The same format with vectors of whole numbers from -128 to 127, in base64."""

    max_texts: ClassVar[int] = 512
    number: ClassVar[str] = "b"

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint, which is not beside that of chat completions."""
        return f"{base.removesuffix('/v1')}/v1/embeddings"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        return {**super().body(call, profile), "encoding_format": "base64_int8"}


class CohereEmbeddings(EmbedFormat):
    """The format of `/v2/embed`; without `input_type` in `extra` it is "search_document"."""

    max_texts: ClassVar[int] = _COHERE_TEXTS

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint; the base URL may be that of the compatible API."""
        return f"{base.removesuffix('/compatibility/v1').removesuffix('/v2')}/v2/embed"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        asked = {"input_type": "search_document", "embedding_types": ["float"]}
        body = {"model": call.model, "texts": list(call.texts), **asked}
        return _sized(call, "output_dimension", body)

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors."""
        listed = items(mapping(reply.get("embeddings")).get("float"))
        billed = mapping(mapping(reply.get("meta")).get("billed_units"))
        tokens = _tokens(count(billed.get("input_tokens")))
        return Embedded([vector_of(vector) for vector in listed], tokens)


class GeminiEmbeddings(EmbedFormat):
    """The format of `:batchEmbedContents`; `extra` is added to the request of each text."""

    max_texts: ClassVar[int] = 100

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint."""
        return f"{base}/models/{quote(_gemini_name(call.model), safe='')}:batchEmbedContents"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        model = {"model": f"models/{_gemini_name(call.model)}"}
        requests = [{**model, "content": {"parts": [{"text": text}]}} for text in call.texts]
        return {"requests": [_sized(call, _GEMINI_SIZE, request) for request in requests]}

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors."""
        found = [mapping(item) for item in items(reply.get("embeddings"))]
        return Embedded([vector_of(item.get("values")) for item in found], _gemini_tokens(reply))


class VertexEmbeddings(EmbedFormat):
    """The format of `:predict` on Vertex; `extra` is added to the instance of each text."""

    max_texts: ClassVar[int] = 250

    def texts_per_request(self, model: str) -> int:
        """Return the largest number of texts in one request."""
        return 1 if model.startswith("gemini-") else self.max_texts

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint."""
        verb = "embedContent" if _embeds_content(call.model) else "predict"
        return f"{base}/publishers/google/models/{quote(call.model, safe='')}:{verb}"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        if _embeds_content(call.model):
            content: dict[str, Any] = {"content": {"parts": [{"text": call.texts[0]}]}}
            if call.dimensions is not None:
                content["embedContentConfig"] = {_GEMINI_SIZE: call.dimensions}
            return with_extra(content, call.extra)
        instances = [with_extra({"content": text}, call.extra) for text in call.texts]
        body: dict[str, Any] = {"instances": instances}
        if call.dimensions is not None:
            body["parameters"] = {_GEMINI_SIZE: call.dimensions}
        return body

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors."""
        if "embedding" in reply:
            vector = vector_of(mapping(reply["embedding"]).get("values"))
            return Embedded([vector], _gemini_tokens(reply))
        found = [mapping(mapping(one).get("embeddings")) for one in items(reply.get("predictions"))]
        counts = [count(mapping(one.get("statistics")).get("token_count")) for one in found]
        known = [number for number in counts if number is not None]
        tokens = _tokens(sum(known)) if known and len(known) == len(counts) else None
        return Embedded([vector_of(one.get("values")) for one in found], tokens)


def _embeds_content(model: str) -> bool:
    return model.startswith("gemini-") and model != "gemini-embedding-001"


class OllamaEmbeddings(OpenAIEmbeddings):
    """The format of `/api/embed`."""

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL of the endpoint."""
        return f"{base}/embed"

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors."""
        vectors = [vector_of(vector) for vector in items(reply.get("embeddings"))]
        return Embedded(vectors, _tokens(count(reply.get("prompt_eval_count"))))


class BedrockEmbeddings(EmbedFormat):
    """The bodies of Amazon's Titan and of Cohere's models at `/invoke`.

    Cohere requires `input_type`; without one in `extra` it is "search_document".
    """

    def texts_per_request(self, model: str) -> int:
        """Return the largest number of texts in one request."""
        return _COHERE_TEXTS if _COHERE.search(model) else 1

    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL for a call; the model id, which may be an ARN, is one segment."""
        return f"{base}/model/{quote(call.model, safe='')}/invoke"

    def body(self, call: EmbedCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body.

        Raises:
            LLMRequestError: the model is of another vendor.
        """
        if _COHERE.search(call.model):
            body = {"texts": list(call.texts), "input_type": "search_document"}
            return _sized(call, "output_dimension", body)
        if _TITAN.search(call.model):
            return _sized(call, "dimensions", {"inputText": call.texts[0]})
        raise profile.rejected(
            f"the embeddings of {profile.name} are those of amazon.titan-embed-… and "
            f"cohere.embed-…, got {call.model!r}: use one of these models",
            call.model,
        )

    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read the vectors; the tokens of Cohere are in a header."""
        if "embedding" in reply:
            tokens = count(reply.get("inputTextTokenCount"))
            return Embedded([vector_of(reply["embedding"])], _tokens(tokens))
        found = reply.get("embeddings")
        listed = items(found) or items(mapping(found).get("float"))
        counted = headers.get(_COUNT_HEADER, "")
        tokens = int(counted) if _DIGITS.fullmatch(counted) else None
        return Embedded([vector_of(vector) for vector in listed], _tokens(tokens))


def _gemini_name(model: str) -> str:
    return model.removeprefix("models/")


def _gemini_tokens(reply: Mapping[str, Any]) -> Tokens | None:
    return _tokens(count(mapping(reply.get("usageMetadata")).get("promptTokenCount")))


def _tokens(prompt: int | None) -> Tokens | None:
    return None if prompt is None else Tokens(prompt, 0)


EMBEDDINGS: Mapping[str, EmbedFormat] = {
    "openai": OpenAIEmbeddings(),
    "responses": OpenAIEmbeddings(),
    "gemini": GeminiEmbeddings(),
    "vertex": VertexEmbeddings(),
    "ollama": OllamaEmbeddings(),
    "bedrock": BedrockEmbeddings(),
    "cohere": CohereEmbeddings(),
    "perplexity": PerplexityEmbeddings(),
}
"""Embedding formats by the wire of a profile, or of its embeddings."""


# Vectors: lists of JSON numbers, or base64.


def vector_of(value: Any, number: str = "f") -> list[float]:
    """Return a vector that a provider sent: a list of numbers, or their base64.

    The base64 is that of 32-bit floats ("f"), the least significant byte first, or of 8-bit
    integers ("b").

    Raises:
        Malformed: it is not a vector of finite numbers.
    """
    vector = _decoded(value, number) if isinstance(value, str) else _listed(value)
    # One pass in C. The sum of finite numbers of embeddings is finite, any other sum is not.
    if not vector or not math.isfinite(sum(vector)):
        raise Malformed("an embedding must be a list of finite numbers")
    return vector


def _listed(value: Any) -> list[float]:
    try:
        return array("d", value if isinstance(value, list) else []).tolist()
    except (TypeError, OverflowError):
        raise Malformed("an embedding must be a list of finite numbers") from None


def _decoded(text: str, number: str) -> list[float]:
    numbers: array[Any] = array(number)
    try:
        numbers.frombytes(binascii.a2b_base64(text, strict_mode=True))
    except ValueError:
        bits = 8 * numbers.itemsize
        raise Malformed(f"an embedding must be base64 of {bits}-bit numbers") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist() if number == "f" else _listed(numbers.tolist())
