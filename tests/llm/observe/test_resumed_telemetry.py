"""The span and the hooks of a stream that is resumed."""

from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.llm import ResponseInfo
from tests.llm.server import Provider
from tests.llm.test_resumed_streams import TEXT, Background

from .collect import MESSAGES, Collected, synchronously


@pytest.fixture
def background(server: Provider) -> Iterator[Provider]:
    """A provider whose first connection is cut after four events."""
    server.reply = Background(4)
    yield server
    server.reply = None


def test_a_stream_that_is_resumed_is_one_span(background: Provider, collected: Collected) -> None:
    log: list[ResponseInfo] = []
    result: dict[str, Any] = synchronously(
        background,
        lambda c: c.stream(MESSAGES, resume=True).result(),
        provider="openai",
        wire="responses",
        telemetry=collected.telemetry(),
        on_response=log.append,
    )
    assert result["data"]["content"] == TEXT
    attributes = collected.attributes()
    assert (attributes["coreason.attempts"], attributes["coreason.outcome"]) == (2, "complete")
    assert attributes["gen_ai.response.id"] == "resp_1"
    assert attributes["gen_ai.usage.output_tokens"] == 8
    assert [event.name for event in collected.span().events] == ["coreason.attempt_failed"]
    assert [type(info.error).__name__ for info in log] == ["LLMConnectionError", "NoneType"]
    assert [info.attempt for info in log] == [1, 2]
