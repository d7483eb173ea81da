"""Context overflow in every format that is known, each with an example that somebody received.

The source of each example: `report` is a whole error that a user pasted into a public bug report;
`sentence` is one of which the report shows only the sentence, so that the body around it is ours;
`docs` is the text of the server's own maintainers; `code` is a fixture in public code; `assumed` is
taken to be like another one, and was not seen.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.llm import LLMContextLengthError, LLMError
from coreason_client.llm._classify import _PATTERNS, FailedAttempt, http_failure, is_overflow
from coreason_client.llm._route import Target

INVALID = "invalid_request_error"


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": INVALID, "param": None, "code": None, **more}}


def vllm(message: str) -> dict[str, Any]:
    return {
        "object": "error",
        "message": message,
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": INVALID, "message": message}, "request_id": "req_1"}


def gemini(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


REDUCE = "Please reduce the length of the messages or completion."
TOO_LONG = "This model's maximum context length is 131072 tokens. However, you requested 131134 "
IN_ALL = "tokens (122942 in the messages, 8192 in the completion). "

# format, model, status, body, source
EXAMPLES: list[tuple[str, str, int, Any, str]] = [
    (
        *("openai", "openai/m", 400),
        openai(
            "This model's maximum context length is 4097 tokens. However, your messages resulted "
            "in 6988 tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        "report",
    ),
    (
        *("openai without a code", "openai/m", 400),
        openai(
            "This model's maximum context length is 8192 tokens, however you requested 8977 tokens "
            "(8977 in your prompt; 0 for the completion). Please reduce your prompt; or completion "
            "length."
        ),
        "report",
    ),
    (
        *("azure", "azure/m", 400),
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted "
            "in 173172 tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        "assumed",
    ),
    (
        *("anthropic, the prompt", "anthropic/m", 400),
        anthropic("prompt is too long: 209353 tokens > 199999 maximum"),
        "report",
    ),
    (
        *("anthropic, prompt and answer", "anthropic/m", 400),
        anthropic(
            "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease "
            "input length or `max_tokens` and try retryable"
        ),
        "report",
    ),
    (
        *("anthropic behind a gateway", "some-model", 400),
        openai("AnthropicError - prompt is too long: 202609 tokens > 200000 maximum"),
        "sentence",
    ),
    (
        *("gemini", "gemini/m", 400),
        gemini(
            "The input token count (134123) exceeds the maximum number of tokens allowed (131072)."
        ),
        "report",
    ),
    (
        *("bedrock behind a gateway", "some-model", 400),
        {"message": "Input is too long for requested model."},
        "sentence",
    ),
    (
        *("mistral", "mistral/m", 400),
        {
            "object": "error",
            "message": "Prompt contains 300000 tokens, too large for model with 131072 maximum "
            "context length",
            "type": "invalid_request_error",
            "code": None,
        },
        "code",
    ),
    (
        *("groq", "groq/m", 400),
        openai(REDUCE, param="messages", code="context_length_exceeded"),
        "report",
    ),
    (
        *("cerebras", "cerebras/m", 400),
        {
            "message": f"{REDUCE} Current length is 42328 while limit is 40000",
            "type": INVALID,
            "param": "messages",
            "code": "",
        },
        "sentence",
    ),
    (
        *("together", "together/m", 422),
        openai(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: "
            "2019 `inputs` tokens and 30 `max_new_tokens`"
        ),
        "sentence",
    ),
    (
        *("fireworks", "fireworks/m", 400),
        {
            "error": {
                "object": "error",
                "type": INVALID,
                "code": INVALID,
                "message": "The prompt is too long: 40177, model maximum context length: 32767",
            }
        },
        "report",
    ),
    (
        *("deepseek", "deepseek/m", 400),
        openai(f"{TOO_LONG}{IN_ALL}{REDUCE}", code=INVALID),
        "report",
    ),
    (
        *("xai", "xai/m", 400),
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 "
            "tokens.",
        },
        "sentence",
    ),
    (
        *("openrouter", "openrouter/m", 400),
        {
            "error": {
                "message": "This endpoint's maximum context length is 16384 tokens. However, you "
                "requested about 94307 tokens (94307 of text input). Please reduce the length of "
                'either one, or use the "middle-out" transform to compress your prompt '
                "automatically.",
                "code": 400,
                "metadata": {"provider_name": None},
            }
        },
        "report",
    ),
    (
        *("openrouter, in the words of the provider behind it", "openrouter/m", 400),
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps(vllm(TOO_LONG)), "provider_name": "DeepInfra"},
            }
        },
        "assumed",
    ),
    (
        *("cohere", "some-model", 400),
        {
            "message": "too many tokens: total number of tokens (prompt and prediction) cannot "
            "exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value."
        },
        "sentence",
    ),
    (
        *("vllm", "vllm/m", 400),
        vllm(
            "This model's maximum context length is 262144 tokens. However, you requested 0 output "
            "tokens and your prompt contains at least 262145 input tokens, for a total of at least "
            "262145 tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens. (parameter=input_tokens, value=262145)"
        ),
        "sentence",
    ),
    (
        *("vllm, with images", "vllm/m", 400),
        vllm(
            "The decoder prompt (length 10127) is longer than the maximum model length of 8192. "
            "Make sure that `max_model_len` is no smaller than the number of text tokens plus "
            "multimodal tokens."
        ),
        "report",
    ),
    (
        *("vllm, with images, earlier", "vllm/m", 400),
        vllm(
            "The prompt (total length 25938) is too long to fit into the model (context length "
            "4096). Make sure that `max_model_len` is no smaller than the number of text tokens "
            "plus multimodal tokens."
        ),
        "sentence",
    ),
    (
        *("sglang", "some-model", 400),
        vllm("The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
        "report",
    ),
    (
        *("tgi", "some-model", 422),
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. "
            "Given: 6204 `inputs` tokens and 2047 `max_new_tokens`",
            "error_type": "validation",
        },
        "sentence",
    ),
    (
        *("llama.cpp", "llamacpp/m", 400),
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
        "docs",
    ),
    (
        *("llama.cpp, while it writes", "llamacpp/m", 500),
        {
            "error": {
                "code": 500,
                "message": "Context size has been exceeded.",
                "type": "server_error",
            }
        },
        "report",
    ),
    (
        *("llama-cpp-python", "some-model", 500),
        openai("Requested tokens (2285) exceed context window of 2048", type="internal_error"),
        "sentence",
    ),
    (
        *("lm studio", "lmstudio/m", 400),
        {
            "error": "Attempts to keep the first 14538 tokens when context the overflows. However, "
            "the model is loaded with context length of only 2048 tokens, which is not enough. Try "
            "to load the model with a larger context length, or provide a shorter input"
        },
        "report",
    ),
    (
        *("ollama", "ollama/m", 400),
        {"error": "prompt too long; exceeded max context length by 4 tokens"},
        "code",
    ),
    (
        *("copilot", "some-model", 400),
        {
            "error": {
                "message": "prompt token count of 93854 exceeds the limit of 90000",
                "param": "",
                "code": "",
                "type": "",
            }
        },
        "report",
    ),
]


def answered(model: str, status: int, body: Any) -> FailedAttempt:
    route = Target("http://127.0.0.1:9", "sk-of-the-test").route(model)
    head = ResponseHead(status, Headers())
    return http_failure(route, head, route.adapter.fault(body), json.dumps(body).encode())


def test_sixteen_formats_and_more() -> None:
    seen = {name.partition(",")[0] for name, *_, source in EXAMPLES if source != "assumed"}
    assert len(seen) >= 16
    sources = {source for *_, source in EXAMPLES}
    assert sources <= {"report", "sentence", "docs", "code", "assumed"}


@pytest.mark.proves("R38")
@pytest.mark.parametrize(
    ("model", "status", "body"),
    [pytest.param(*row[1:4], id=row[0]) for row in EXAMPLES],
)
def test_a_request_that_is_too_long(model: str, status: int, body: Any) -> None:
    failure = answered(model, status, body)
    assert type(failure.error) is LLMContextLengthError, failure.error
    assert not failure.retryable


@pytest.mark.parametrize("sentence", sorted({one for row in _PATTERNS.values() for one in row}))
def test_every_sentence_has_an_example(sentence: str) -> None:
    bodies = [json.dumps(body).replace('\\"', '"') for _, _, _, body, _ in EXAMPLES]
    words = [part for body in bodies for part in re.split(r'(?<![\\\w])"|"(?=[,}:])', body)]
    assert any(re.search(sentence, part, re.ASCII) for part in words), sentence


# What a provider says in these words is something else.
OTHERS: list[tuple[str, int, Any, bool]] = [
    ("openai/m", 400, openai("max_tokens is too large: 300000. This model supports 16384"), False),
    (
        *("anthropic/m", 400),
        anthropic("max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens"),
        False,
    ),
    ("some-model", 429, {"message": "Too many tokens, please wait before trying retryable."}, True),
    # A sentence of another provider, and a limit of the rate and not of the model.
    ("anthropic/m", 400, anthropic("This model's maximum context length is 10 tokens"), False),
    (
        *("groq/m", 413),
        openai("Request too large for model", type="tokens", code="rate_limit_exceeded"),
        True,
    ),
    (
        *("some-model", 429),
        openai("This model's maximum context length is 8192 tokens", code="rate_limit_exceeded"),
        True,
    ),
    ("some-model", 401, openai("This model's maximum context length is 8192 tokens"), False),
]


@pytest.mark.parametrize(("model", "status", "body", "retryable"), OTHERS)
def test_other_errors_stay_what_they_are(
    model: str, status: int, body: Any, retryable: bool
) -> None:
    failure = answered(model, status, body)
    assert isinstance(failure.error, LLMError)
    assert not isinstance(failure.error, LLMContextLengthError)
    assert failure.retryable is retryable


@given(st.text())
def test_any_text_may_be_asked(text: str) -> None:
    assert not is_overflow("openai", text)
    assert not is_overflow("openai-compatible", text)
