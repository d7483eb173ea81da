"""Arguments by name: their values, and the requests as the official libraries read them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from botocore.session import Session  # type: ignore[import-untyped]
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from google.genai import types as google
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from coreason_client import LLMClient
from coreason_client.llm import LLMRequestError
from coreason_client.llm._check_call import check_call
from coreason_client.testing import fake_model
from tests.each import each
from tests.llm.calls import WEATHER, rejection
from tests.llm.wire.arguments import ALL, NAMED
from tests.llm.wire.case import Unary

MESSAGES = [{"role": "user", "content": "Hi"}]


@cache
def typed(params: Any) -> TypeAdapter[Any]:
    return TypeAdapter(params)


def read_typed(params: Any, body: Mapping[str, Any]) -> None:
    assert body.keys() <= params.__required_keys__ | params.__optional_keys__
    typed(params).validate_python(body)


def read_openai(body: Mapping[str, Any]) -> None:
    read_typed(CompletionCreateParamsNonStreaming, body)


def read_anthropic(body: Mapping[str, Any]) -> None:
    sampling = {"top_p"}  # the library no longer has it, the API does for older models
    read_typed(
        MessageCreateParamsNonStreaming,
        {name: value for name, value in body.items() if name not in sampling},
    )


def read_gemini(body: Mapping[str, Any]) -> None:
    google.GenerationConfig.model_validate(body["generationConfig"])
    google.ServiceTier(body.get("serviceTier", "flex"))


def read_bedrock(body: Mapping[str, Any]) -> None:
    shape = Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": "m", **body}, shape)
    assert not report.has_errors(), report.generate_report()


def read_ollama(body: Mapping[str, Any]) -> None:
    ChatRequest.model_validate(body)


READERS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "openai": read_openai,
    "azure": read_openai,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
    "vertex": read_gemini,
    "bedrock": read_bedrock,
    "ollama": read_ollama,
}


def read_cases() -> list[Unary]:
    named = [case for case in NAMED if case.sent and case.model.partition("/")[0] in READERS]
    return [case for case in named if case.ask.keys() & ALL.keys()]


@each("case", read_cases(), lambda case: case.name)
def test_the_official_libraries_know_what_is_sent(case: Unary) -> None:
    assert case.sent is not None
    READERS[case.model.partition("/")[0]](case.sent)


@pytest.mark.parametrize("model", ["gpt-4o", "o3"])
def test_the_responses_api_has_all_but_the_seed(model: str) -> None:
    asked: dict[str, Any] = {name: value for name, value in ALL.items() if name != "seed"}
    with (
        fake_model(["hello", "hello"]) as fake,
        LLMClient("a-key", fake.url, f"openai/{model}", wire="responses") as client,
    ):
        client.generate("Hi", tools=[WEATHER], **asked)
        client.run("Hi", **asked)
        first, second = (request.json for request in fake.requests)
        with pytest.raises(LLMRequestError, match="seed must be left out: openai does not have it"):
            client.generate("Hi", seed=7)
    read_typed(ResponseCreateParamsNonStreaming, first)
    assert first["reasoning"] == second["reasoning"] == {"effort": "low"}
    assert first["service_tier"] == second["service_tier"] == "flex"
    assert first["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in second
    assert ("top_p" in first, "temperature" in first) == (model == "gpt-4o",) * 2


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("reasoning_effort", "much", "must be one of none, minimal, low, medium, high, xhigh, max"),
        ("reasoning_effort", ["low"], "must be one of none"),
        ("top_p", 1.1, "must be a number from 0 to 1"),
        ("top_p", True, "must be a number from 0 to 1"),
        ("top_p", float("nan"), "must be a number from 0 to 1"),
        ("seed", 2**63, "must be a whole number"),
        ("seed", 1.0, "must be a whole number"),
        ("seed", False, "must be a whole number"),
        ("parallel_tool_calls", 0, "must be True, False or None"),
        ("service_tier", "", "must be the name of a tier"),
    ],
)
def test_a_wrong_value_names_the_argument(name: str, value: Any, rule: str) -> None:
    message = rejection(check_call, MESSAGES, "m", None, 0.7, 9, **{name: value})
    assert message.startswith(f"{name} {rule}")
