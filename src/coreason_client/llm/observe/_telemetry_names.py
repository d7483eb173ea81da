"""Every name that the telemetry of the AI client uses, in one table.

The names follow the semantic conventions for generative AI, which are still in development:
`CONVENTIONS` is the commit whose names the spans and the latest metrics have, `RELEASED` the last
release that contains the older metrics. To follow a newer version, change this file and its test.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

CONVENTIONS: Final = (
    "open-telemetry/semantic-conventions-genai@06ec68e722c45a7218e23ea1bc1339fe4e21ecae"
)
RELEASED: Final = "open-telemetry/semantic-conventions@v1.41.0"

# Operations: the values of `gen_ai.operation.name`, and the first word of the name of a span.
CHAT: Final = "chat"
EMBEDDINGS: Final = "embeddings"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"

# Attributes of requests.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
OUTPUT_TYPE: Final = "gen_ai.output.type"
EMBEDDINGS_DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# Attributes of responses.
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE: Final = "error.type"

# Attributes of metrics only.
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - not a password
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105

# Attributes of tool calls.
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"

# Content, which is recorded only on request.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

# Names of this package, for which the conventions have none.
OUTCOME: Final = "coreason.outcome"
ATTEMPT: Final = "coreason.attempt"
ATTEMPTS: Final = "coreason.attempts"
REQUESTED_MODEL: Final = "coreason.requested_model"
PROVIDER_REQUEST_ID: Final = "coreason.provider_request_id"
COST_ESTIMATE: Final = "coreason.cost_estimate"
ATTEMPT_FAILED: Final = "coreason.attempt_failed"
"""The name of the event in a span for each failed attempt."""

PROVIDER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "azure": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "gemini": "gcp.gemini",
        "mistral": "mistral_ai",
        "moonshot": "moonshot_ai",
        "vertex": "gcp.vertex_ai",
        "xai": "x_ai",
    }
)
"""The names of providers that differ in the conventions; all others are used as they are."""

EXTRA_PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "frequency_penalty": "gen_ai.request.frequency_penalty",
        "presence_penalty": "gen_ai.request.presence_penalty",
        "reasoning_effort": "gen_ai.request.reasoning.level",
        "seed": "gen_ai.request.seed",
        "top_k": "gen_ai.request.top_k",
        "top_p": "gen_ai.request.top_p",
    }
)
"""The attributes of arguments by name, and of fields in `extra`."""


class Metric(NamedTuple):
    """One metric: a histogram, or a counter if it has no boundaries of buckets."""

    name: str
    unit: str
    description: str
    boundaries: tuple[float, ...] = ()


_SECONDS = tuple(0.01 * 2**power for power in range(14))  # 0.01 to 81.92
_LONG_SECONDS = tuple(0.1 * 2**power for power in range(13))  # 0.1 to 409.6
_TOKENS = tuple(float(4**power) for power in range(14))  # 1 to 67108864


def _seconds(name: str, description: str) -> Metric:
    return Metric(f"gen_ai.client.{name}", "s", description, _SECONDS)


def _tokens(name: str, what: str) -> Metric:
    return Metric(f"gen_ai.client.{name}", "{token}", f"Number of {what}.", _TOKENS)


def _counter(name: str, what: str) -> Metric:
    return Metric(f"gen_ai.client.inference.usage.{name}", "{token}", f"Number of {what}.")


# The released metrics.
OPERATION_DURATION: Final = _seconds("operation.duration", "GenAI operation duration.")
OPERATION_FIRST_CHUNK: Final = _seconds("operation.time_to_first_chunk", "Time to the first chunk.")
OPERATION_CHUNK: Final = _seconds("operation.time_per_output_chunk", "Time per output chunk.")
TOKEN_USAGE: Final = _tokens("token.usage", "input and output tokens used")

# The latest metrics. Operations other than inference keep `OPERATION_DURATION`.
INFERENCE_DURATION: Final = _seconds("inference.duration", "GenAI client inference duration.")
INFERENCE_FIRST_CHUNK: Final = _seconds("inference.time_to_first_chunk", "Time to the first chunk.")
INFERENCE_CHUNK: Final = _seconds("inference.time_per_output_chunk", "Time per output chunk.")
INFERENCE_INPUT: Final = _tokens(
    "inference.operation.input_tokens", "input tokens per inference operation"
)
INFERENCE_OUTPUT: Final = _tokens(
    "inference.operation.output_tokens", "output tokens per inference operation"
)
SPENT_INPUT: Final = _counter("input_tokens", "input tokens used, including cached tokens")
SPENT_OUTPUT: Final = _counter("output_tokens", "output tokens used, including reasoning")
SPENT_CACHE_READ: Final = _counter("cache_read.input_tokens", "input tokens read from a cache")
SPENT_CACHE_WRITE: Final = _counter("cache_write.input_tokens", "input tokens written to a cache")
SPENT_REASONING: Final = _counter("reasoning.output_tokens", "output tokens used for reasoning")
TOOL_DURATION: Final = Metric(
    "gen_ai.execute_tool.duration", "s", "Duration of one tool execution.", _LONG_SECONDS
)
AGENT_DURATION: Final = Metric(
    "gen_ai.invoke_agent.duration", "s", "Duration of one agent invocation.", _LONG_SECONDS
)
