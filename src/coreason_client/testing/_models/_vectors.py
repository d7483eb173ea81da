"""Embeddings and lists of models of a fake model, in every format. Pure."""

from array import array
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from ._wire import CREATED

_DIMENSIONS = 8


def vector_of(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """Return the vector of a text: numbers from -1 to 1, the same in every run."""
    numbers: list[float] = []
    block = 0
    while len(numbers) < dimensions:
        digest = sha256(f"{block}:{text}".encode("utf-8", "surrogatepass")).digest()
        numbers += [(byte - 127.5) / 127.5 for byte in digest]
        block += 1
    # Rounded so that they are exact in 32 bits, which is how some clients ask for them.
    return [round(number * 64) / 64 for number in numbers[:dimensions]]


def embeddings_reply(kind: str, path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer to a request for embeddings; each word counts as a token."""
    return _EMBEDDINGS[kind](path, asked)


def model_list_reply(kind: str, models: Sequence[str]) -> Mapping[str, Any]:
    """Return the list of models."""
    return _LISTS[kind](models)


def _tokens(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _size(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else _DIMENSIONS


def _openai(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    given = asked.get("input", "")
    texts = [given] if isinstance(given, str) else [str(text) for text in given]
    size = _size(asked.get("dimensions") or asked.get("output_dimension"))
    base64 = asked.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        vector: Any = vector_of(text, size)
        if base64:
            vector = b64encode(array("f", vector).tobytes()).decode()
        elif asked.get("encoding_format") == "base64_int8":  # of Perplexity
            small = array("b", [round(127 * number) for number in vector])
            vector = b64encode(small.tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = _tokens(texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked.get("model"), "usage": usage}


def _gemini(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    found = []
    for request in asked.get("requests", ()):
        text = "".join(part.get("text", "") for part in request["content"]["parts"])
        found.append({"values": vector_of(text, _size(request.get("outputDimensionality")))})
    return {"embeddings": found}


def _vertex(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    if path.endswith(":embedContent"):
        text = "".join(part.get("text", "") for part in asked["content"]["parts"])
        size = _size(asked.get("embedContentConfig", {}).get("outputDimensionality"))
        counted = {"promptTokenCount": _tokens([text])}
        return {"embedding": {"values": vector_of(text, size)}, "usageMetadata": counted}
    size = _size(asked.get("parameters", {}).get("outputDimensionality"))
    texts = [str(instance.get("content", "")) for instance in asked.get("instances", ())]
    return {
        "predictions": [
            {
                "embeddings": {
                    "values": vector_of(text, size),
                    "statistics": {"token_count": _tokens([text])},
                }
            }
            for text in texts
        ]
    }


def _ollama(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    given = asked.get("input", "")
    texts = [given] if isinstance(given, str) else list(given)
    size = _size(asked.get("dimensions"))
    vectors = [vector_of(text, size) for text in texts]
    return {"model": asked.get("model"), "embeddings": vectors, "prompt_eval_count": _tokens(texts)}


def _bedrock(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    if "inputText" in asked:
        text = str(asked["inputText"])
        size = _size(asked.get("dimensions"))
        return {"embedding": vector_of(text, size), "inputTextTokenCount": _tokens([text])}
    size = _size(asked.get("output_dimension"))
    return {"embeddings": [vector_of(text, size) for text in asked.get("texts", ())]}


def _cohere(path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    texts, size = asked.get("texts", ()), _size(asked.get("output_dimension"))
    return {
        "embeddings": {"float": [vector_of(text, size) for text in texts]},
        "meta": {"billed_units": {"input_tokens": _tokens(texts)}},
    }


_EMBEDDINGS: Mapping[str, Callable[[str, Mapping[str, Any]], Mapping[str, Any]]] = {
    "openai": _openai,
    "gemini": _gemini,
    "vertex": _vertex,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "cohere": _cohere,
}


def _listed(models: Sequence[str]) -> Mapping[str, Any]:
    # The fields of OpenAI and of Anthropic, which have the same path.
    data = [
        {"id": model, "object": "model", "type": "model", "created": CREATED, "owned_by": "fake"}
        for model in models
    ]
    return {"object": "list", "data": data, "has_more": False}


_LISTS: Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]] = {
    "openai": _listed,
    "gemini": lambda models: {"models": [{"name": f"models/{model}"} for model in models]},
    "ollama": lambda models: {"models": [{"model": m, "name": m} for m in models]},
    "bedrock": lambda models: {"modelSummaries": [{"modelId": model} for model in models]},
}
