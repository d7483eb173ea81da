"""The wire table of embeddings: what is sent for a call, and what is read in a reply."""

import json
import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from coreason_client._drive import Reply
from coreason_client._http._types import Headers, ResponseHead
from coreason_client.llm import LLMRequestError, LLMResponseError
from coreason_client.llm._classify import FailedAttempt
from coreason_client.llm._embed import EmbedPlan, embed_format, read_embeddings
from coreason_client.llm._route import Target
from coreason_client.llm.providers.embeddings import EmbedCall

VECTORS = [[0.5, -1.0], [0.25, 2.0]]


def packed(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def listed(*embeddings: Any, **more: Any) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": one}
        for index, one in enumerate(embeddings)
    ]
    return {"object": "list", "data": data, "model": "m", **more}


USAGE = {"usage": {"prompt_tokens": 7, "total_tokens": 7}}


@dataclass(frozen=True, kw_only=True)
class Case:
    model: str
    path: str
    sent: Mapping[str, Any]
    reply: Any
    tokens: int | None = 7
    dimensions: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    vectors: Any = field(default_factory=lambda: VECTORS)
    texts: list[str] = field(default_factory=lambda: ["a", "b"])


BASE64 = {"input": ["a", "b"], "encoding_format": "base64"}

CASES = {
    "OpenAI": Case(
        model="openai/text-embedding-3-small",
        path="/v1/embeddings",
        sent={"model": "text-embedding-3-small", **BASE64},
        reply=listed(*map(packed, VECTORS), **USAGE),
    ),
    "OpenAI with dimensions and other fields": Case(
        model="openai/text-embedding-3-small",
        path="/v1/embeddings",
        dimensions=2,
        extra={"user": "u", "encoding_format": "float"},
        sent={
            "model": "text-embedding-3-small",
            "input": ["a", "b"],
            "encoding_format": "float",
            "dimensions": 2,
            "user": "u",
        },
        reply=listed(*VECTORS, **USAGE),
    ),
    "OpenAI in another order": Case(
        model="openai/m",
        path="/v1/embeddings",
        sent={"model": "m", **BASE64},
        reply={"data": listed(*VECTORS)["data"][::-1], **USAGE},
    ),
    "Azure": Case(
        model="azure/m",
        path="/openai/v1/embeddings",
        sent={"model": "m", **BASE64},
        reply=listed(*VECTORS, **USAGE),
    ),
    "a compatible server without an index and a usage": Case(
        model="m",
        path="/v1/embeddings",
        sent={"model": "m", "input": ["a", "b"]},
        reply={"data": [{"embedding": vector} for vector in VECTORS]},
        tokens=None,
    ),
    "a compatible server with only a total": Case(
        model="m",
        path="/v1/embeddings",
        sent={"model": "m", "input": ["a", "b"]},
        reply=listed(*VECTORS, usage={"total_tokens": 7}),
    ),
    "Mistral": Case(
        model="mistral/codestral-embed",
        path="/v1/embeddings",
        dimensions=2,
        sent={"model": "codestral-embed", "input": ["a", "b"], "output_dimension": 2},
        reply=listed(*VECTORS, **USAGE),
    ),
    "Gemini": Case(
        model="gemini/gemini-embedding-001",
        path="/v1beta/models/gemini-embedding-001:batchEmbedContents",
        dimensions=2,
        extra={"taskType": "RETRIEVAL_QUERY"},
        sent={
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "content": {"parts": [{"text": text}]},
                    "outputDimensionality": 2,
                    "taskType": "RETRIEVAL_QUERY",
                }
                for text in ("a", "b")
            ]
        },
        reply={"embeddings": [{"values": vector} for vector in VECTORS]},
        tokens=None,
    ),
    "Gemini with a usage": Case(
        model="gemini/models/gemini-embedding-001",
        path="/v1beta/models/gemini-embedding-001:batchEmbedContents",
        texts=["a"],
        sent={
            "requests": [
                {"model": "models/gemini-embedding-001", "content": {"parts": [{"text": "a"}]}}
            ]
        },
        reply={"embeddings": [{"values": [1]}], "usageMetadata": {"promptTokenCount": 7}},
        vectors=[[1.0]],
    ),
    "Vertex": Case(
        model="vertex/text-embedding-005",
        path="/v1/publishers/google/models/text-embedding-005:predict",
        dimensions=2,
        extra={"task_type": "RETRIEVAL_QUERY"},
        sent={
            "instances": [
                {"content": "a", "task_type": "RETRIEVAL_QUERY"},
                {"content": "b", "task_type": "RETRIEVAL_QUERY"},
            ],
            "parameters": {"outputDimensionality": 2},
        },
        reply={
            "predictions": [
                {"embeddings": {"values": vector, "statistics": {"token_count": tokens}}}
                for vector, tokens in zip(VECTORS, (3, 4), strict=True)
            ]
        },
    ),
    "Vertex without counts": Case(
        model="vertex/text-embedding-005",
        path="/v1/publishers/google/models/text-embedding-005:predict",
        sent={"instances": [{"content": "a"}, {"content": "b"}]},
        reply={"predictions": [{"embeddings": {"values": vector}} for vector in VECTORS]},
        tokens=None,
    ),
    "Vertex with embedContent": Case(
        model="vertex/gemini-embedding-2",
        path="/v1/publishers/google/models/gemini-embedding-2:embedContent",
        dimensions=2,
        texts=["a"],
        sent={
            "content": {"parts": [{"text": "a"}]},
            "embedContentConfig": {"outputDimensionality": 2},
        },
        reply={"embedding": {"values": [1, 2]}, "usageMetadata": {"promptTokenCount": 7}},
        vectors=[[1.0, 2.0]],
    ),
    "Perplexity": Case(
        model="perplexity/pplx-embed-v1-0.6b",
        path="/v1/embeddings",
        sent={
            "model": "pplx-embed-v1-0.6b",
            "input": ["a", "b"],
            "encoding_format": "base64_int8",
        },
        reply=listed("gH8B", "AAD/", **USAGE),
        vectors=[[-128.0, 127.0, 1.0], [0.0, 0.0, -1.0]],
    ),
    "Cohere's own API": Case(
        model="cohere/embed-v4.0",
        path="/v2/embed",
        dimensions=2,
        extra={"input_type": "search_query"},
        sent={
            "model": "embed-v4.0",
            "texts": ["a", "b"],
            "input_type": "search_query",
            "embedding_types": ["float"],
            "output_dimension": 2,
        },
        reply={
            "embeddings": {"float": VECTORS},
            "meta": {"billed_units": {"input_tokens": 7}},
        },
    ),
    "Titan": Case(
        model="bedrock/amazon.titan-embed-text-v2:0",
        path="/model/amazon.titan-embed-text-v2%3A0/invoke",
        dimensions=2,
        extra={"normalize": False},
        texts=["a"],
        sent={"inputText": "a", "dimensions": 2, "normalize": False},
        reply={"embedding": [0.5, -1], "inputTextTokenCount": 7},
        vectors=[[0.5, -1.0]],
    ),
    "Cohere": Case(
        model="bedrock/cohere.embed-english-v3",
        path="/model/cohere.embed-english-v3/invoke",
        extra={"input_type": "search_query"},
        sent={"texts": ["a", "b"], "input_type": "search_query"},
        headers={"X-Amzn-Bedrock-Input-Token-Count": "7"},
        reply={"id": "x", "embeddings": VECTORS, "response_type": "embeddings_floats"},
    ),
    "Cohere by type": Case(
        model="bedrock/us.cohere.embed-v4:0",
        path="/model/us.cohere.embed-v4%3A0/invoke",
        dimensions=2,
        sent={"texts": ["a", "b"], "input_type": "search_document", "output_dimension": 2},
        reply={"embeddings": {"float": VECTORS}, "response_type": "embeddings_by_type"},
        tokens=None,
    ),
    "Ollama": Case(
        model="ollama/nomic-embed-text",
        path="/api/embed",
        dimensions=2,
        extra={"truncate": False},
        sent={
            "model": "nomic-embed-text",
            "input": ["a", "b"],
            "dimensions": 2,
            "truncate": False,
        },
        reply={"model": "nomic-embed-text", "embeddings": VECTORS, "prompt_eval_count": 7},
    ),
}


def plan_of(case: Case) -> EmbedPlan:
    route = Target("http://127.0.0.1:9", "sk-key").route(case.model)
    call = EmbedCall(route.model, case.texts, case.dimensions, case.extra)
    return EmbedPlan(call, route, case.model, pricing=lambda *_: None)


def reply_of(case: Case, value: Any) -> Reply:
    head = ResponseHead(200, Headers([("x-request-id", "r-1"), *case.headers.items()]))
    return Reply(head, json.dumps(value).encode())


@pytest.mark.parametrize("name", CASES)
def test_what_is_sent(name: str) -> None:
    case = CASES[name]
    plan = plan_of(case)
    assert plan.url == f"http://127.0.0.1:9{case.path}"
    assert json.loads(plan.content) == case.sent


@pytest.mark.parametrize("name", CASES)
def test_what_is_read(name: str) -> None:
    case = CASES[name]
    response = read_embeddings(plan_of(case), reply_of(case, case.reply), 5.0)
    assert not isinstance(response, FailedAttempt)
    assert response["data"] == {"embeddings": case.vectors}
    usage = response["usage"]
    if case.tokens is None:
        assert usage.pop("estimated") is True
    else:
        assert usage["prompt_tokens"] == case.tokens
    assert list(usage) == ["prompt_tokens", "completion_tokens", "total_tokens", "cost_estimate"]
    assert usage["total_tokens"] == usage["prompt_tokens"] > 0
    provider = plan_of(case).route.profile.name
    assert (response["model"], response["provider"]) == (case.model, provider)
    assert response["request_id"] == "r-1"


@pytest.mark.parametrize("name", ["OpenAI", "Gemini", "Vertex", "Ollama", "Cohere"])
@pytest.mark.parametrize(
    "value",
    [{}, {"data": [], "embeddings": []}, {"data": {}, "embeddings": {}}, {"data": 5}, [], "", 5],
)
def test_a_reply_without_the_vectors_is_an_error(name: str, value: Any) -> None:
    failure = read_embeddings(plan_of(CASES[name]), reply_of(CASES[name], value), 5.0)
    assert isinstance(failure, FailedAttempt)
    assert type(failure.error) is LLMResponseError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OpenAI", listed("AAA=", "AAA=")),
        ("OpenAI", listed([], [1])),
        ("OpenAI", {"data": [None, 5]}),
        ("Gemini", {"embeddings": [{"values": None}, {"values": [1]}]}),
        ("Ollama", {"embeddings": [[1], ["x"]]}),
        ("Titan", {"embedding": []}),
        ("Cohere", {"embeddings": {"float": [[1], None]}}),
        ("Vertex", {"predictions": [{}, None]}),
    ],
)
def test_a_wrong_vector_is_an_error_that_is_not_retried(name: str, value: Any) -> None:
    failure = read_embeddings(plan_of(CASES[name]), reply_of(CASES[name], value), 5.0)
    assert isinstance(failure, FailedAttempt)
    assert "an embedding must be" in str(failure.error)
    assert failure.retryable is False


def test_too_few_vectors_are_an_error_that_has_the_numbers() -> None:
    case = CASES["OpenAI"]
    failure = read_embeddings(plan_of(case), reply_of(case, listed([1.0])), 5.0)
    assert isinstance(failure, FailedAttempt)
    assert "it has 1 embeddings for 2 texts" in str(failure.error)


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("openai/text-embedding-3-small", 2048),
        ("m", 2048),
        ("gemini/gemini-embedding-001", 100),
        ("vertex/gemini-embedding-001", 1),
        ("vertex/text-embedding-005", 250),
        ("vertex/gemini-embedding-2", 1),
        ("perplexity/pplx-embed-v1-4b", 512),
        ("cohere/embed-v4.0", 96),
        ("ollama/nomic-embed-text", 2048),
        ("bedrock/amazon.titan-embed-text-v2:0", 1),
        ("bedrock/us.cohere.embed-v4:0", 96),
    ],
)
def test_the_number_of_texts_in_a_request(model: str, texts: int) -> None:
    route = Target("http://127.0.0.1:9", "sk-key").route(model)
    assert embed_format(route).texts_per_request(route.model) == texts


def test_another_model_of_bedrock_is_an_error_that_names_those_with_embeddings() -> None:
    route = Target("http://127.0.0.1:9", "sk-key").route("bedrock/anthropic.claude-x")
    with pytest.raises(LLMRequestError, match=r"amazon\.titan-embed-… and cohere\.embed-…, got"):
        EmbedPlan(EmbedCall(route.model, ["a"]), route)
