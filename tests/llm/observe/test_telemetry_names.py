"""The table of names: as pinned, as the installed conventions spell them, and all used."""

import ast
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from coreason_client.llm.observe import _telemetry_names as names
from coreason_client.llm.providers.profiles import PROFILES
from tests.llm.server import Provider, Replied

from .collect import MESSAGES, Collected, answer, streamed, synchronously

SOURCE = Path(names.__file__).parent
TABLE = {
    name: value
    for name, value in vars(names).items()
    if name.isupper() and not name.startswith("_") and isinstance(value, str | names.Metric)
}
PINNED = {
    "CONVENTIONS": (
        "open-telemetry/semantic-conventions-genai@06ec68e722c45a7218e23ea1bc1339fe4e21ecae"
    ),
    "RELEASED": "open-telemetry/semantic-conventions@v1.41.0",
    "CHAT": "chat",
    "EMBEDDINGS": "embeddings",
    "EXECUTE_TOOL": "execute_tool",
    "INVOKE_AGENT": "invoke_agent",
    "OPERATION_NAME": "gen_ai.operation.name",
    "PROVIDER_NAME": "gen_ai.provider.name",
    "REQUEST_MODEL": "gen_ai.request.model",
    "REQUEST_STREAM": "gen_ai.request.stream",
    "REQUEST_MAX_TOKENS": "gen_ai.request.max_tokens",
    "REQUEST_TEMPERATURE": "gen_ai.request.temperature",
    "REQUEST_STOP_SEQUENCES": "gen_ai.request.stop_sequences",
    "OUTPUT_TYPE": "gen_ai.output.type",
    "EMBEDDINGS_DIMENSIONS": "gen_ai.embeddings.dimension.count",
    "SERVER_ADDRESS": "server.address",
    "SERVER_PORT": "server.port",
    "RESPONSE_ID": "gen_ai.response.id",
    "RESPONSE_MODEL": "gen_ai.response.model",
    "RESPONSE_FINISH_REASONS": "gen_ai.response.finish_reasons",
    "RESPONSE_TIME_TO_FIRST_CHUNK": "gen_ai.response.time_to_first_chunk",
    "USAGE_INPUT_TOKENS": "gen_ai.usage.input_tokens",
    "USAGE_OUTPUT_TOKENS": "gen_ai.usage.output_tokens",
    "USAGE_CACHE_READ": "gen_ai.usage.cache_read.input_tokens",
    "USAGE_CACHE_WRITE": "gen_ai.usage.cache_write.input_tokens",
    "USAGE_REASONING": "gen_ai.usage.reasoning.output_tokens",
    "ERROR_TYPE": "error.type",
    "TOKEN_TYPE": "gen_ai.token.type",
    "TOKEN_MODALITY": "gen_ai.token.modality",
    "TOOL_NAME": "gen_ai.tool.name",
    "TOOL_TYPE": "gen_ai.tool.type",
    "TOOL_CALL_ID": "gen_ai.tool.call.id",
    "INPUT_MESSAGES": "gen_ai.input.messages",
    "OUTPUT_MESSAGES": "gen_ai.output.messages",
    "TOOL_DEFINITIONS": "gen_ai.tool.definitions",
    "TOOL_CALL_ARGUMENTS": "gen_ai.tool.call.arguments",
    "TOOL_CALL_RESULT": "gen_ai.tool.call.result",
    "OUTCOME": "coreason.outcome",
    "ATTEMPT": "coreason.attempt",
    "ATTEMPTS": "coreason.attempts",
    "REQUESTED_MODEL": "coreason.requested_model",
    "PROVIDER_REQUEST_ID": "coreason.provider_request_id",
    "COST_ESTIMATE": "coreason.cost_estimate",
    "ATTEMPT_FAILED": "coreason.attempt_failed",
    "OPERATION_DURATION": ("gen_ai.client.operation.duration", "s", 14),
    "OPERATION_FIRST_CHUNK": ("gen_ai.client.operation.time_to_first_chunk", "s", 14),
    "OPERATION_CHUNK": ("gen_ai.client.operation.time_per_output_chunk", "s", 14),
    "TOKEN_USAGE": ("gen_ai.client.token.usage", "{token}", 14),
    "INFERENCE_DURATION": ("gen_ai.client.inference.duration", "s", 14),
    "INFERENCE_FIRST_CHUNK": ("gen_ai.client.inference.time_to_first_chunk", "s", 14),
    "INFERENCE_CHUNK": ("gen_ai.client.inference.time_per_output_chunk", "s", 14),
    "INFERENCE_INPUT": ("gen_ai.client.inference.operation.input_tokens", "{token}", 14),
    "INFERENCE_OUTPUT": ("gen_ai.client.inference.operation.output_tokens", "{token}", 14),
    "SPENT_INPUT": ("gen_ai.client.inference.usage.input_tokens", "{token}", 0),
    "SPENT_OUTPUT": ("gen_ai.client.inference.usage.output_tokens", "{token}", 0),
    "SPENT_CACHE_READ": ("gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", 0),
    "SPENT_CACHE_WRITE": ("gen_ai.client.inference.usage.cache_write.input_tokens", "{token}", 0),
    "SPENT_REASONING": ("gen_ai.client.inference.usage.reasoning.output_tokens", "{token}", 0),
    "TOOL_DURATION": ("gen_ai.execute_tool.duration", "s", 13),
    "AGENT_DURATION": ("gen_ai.invoke_agent.duration", "s", 13),
}
# Newer than the installed package, which follows the last release.
NEWER = {
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.request.reasoning.level",
    "gen_ai.token.modality",
}


def test_the_table_is_as_pinned() -> None:
    found = {
        name: (value.name, value.unit, len(value.boundaries))
        if isinstance(value, names.Metric)
        else value
        for name, value in TABLE.items()
    }
    assert found == PINNED


def test_the_boundaries_of_the_buckets() -> None:
    seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
    assert names.OPERATION_DURATION.boundaries == pytest.approx([*seconds, 81.92])
    tokens = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]
    assert names.TOKEN_USAGE.boundaries == (*tokens, 67108864)


def strings(module: Any) -> set[str]:
    return {value for value in vars(module).values() if isinstance(value, str)}


def test_the_released_names_are_spelled_as_in_the_released_package() -> None:
    attributes = strings(gen_ai_attributes) | strings(error_attributes) | strings(server_attributes)
    ours = {
        value
        for value in (*TABLE.values(), *names.EXTRA_PARAMETERS.values())
        if isinstance(value, str) and value.startswith(("gen_ai.", "server.", "error."))
    }
    assert ours - attributes == NEWER
    released = {
        value.name
        for name, value in TABLE.items()
        if isinstance(value, names.Metric) and name.startswith(("OPERATION_", "TOKEN_"))
    }
    assert released <= strings(gen_ai_metrics)


def test_the_providers_are_spelled_as_in_the_released_package() -> None:
    known = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    newer = {"moonshot_ai"}
    assert set(names.PROVIDER_NAMES.values()) - known <= newer
    ours = {profile.name for profile in PROFILES}
    # A provider of which the conventions have another spelling is in the table.
    spellings = {value.rpartition(".")[2].replace("_ai", "").replace("_", "") for value in known}
    assert {name for name in ours & spellings if name not in known} <= names.PROVIDER_NAMES.keys()


def used_names() -> set[str]:
    """Return the names of the table that other files use, and those that it uses itself."""
    found = set()
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found |= {node.attr} if node.value.id == "names" else set()
    return found


def test_every_name_of_the_table_is_used() -> None:
    versions = {"CONVENTIONS", "RELEASED"}
    expected = {*TABLE, "PROVIDER_NAMES", "EXTRA_PARAMETERS"} - versions
    assert used_names() - {"Metric"} == expected


def test_no_other_file_spells_a_name() -> None:
    for path in SOURCE.glob("*.py"):
        if path.stem != "_telemetry_names":
            text = path.read_text(encoding="utf-8")
            assert '"gen_ai.' not in text, path
            assert '"coreason.' not in text, path


def test_every_name_that_is_sent_is_in_the_table(server: Provider, collected: Collected) -> None:
    busy = Replied(503, body=b"{}")
    server.replies = [busy, answer(), streamed("a", "b")]
    options = {"telemetry": collected.telemetry(metric_names="both", record_content=True)}
    call = {"fallbacks": ["other"], "extra": {"seed": 1}}
    synchronously(server, lambda c: c.generate(MESSAGES, **call), max_retries=0, **options)
    synchronously(server, lambda c: c.stream(MESSAGES).result(), **options)
    sent = {name for span in collected.spans for name in span.attributes or {}}
    sent |= {
        name
        for span in collected.spans
        for event in span.events
        for name in (event.name, *(event.attributes or {}))
    }
    for name, point in collected.points():
        sent |= {name, *point.attributes}
    table = {value.name if isinstance(value, names.Metric) else value for value in TABLE.values()}
    assert sent
    assert sent <= table | set(names.EXTRA_PARAMETERS.values())
