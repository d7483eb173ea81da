"""The interface of adapters: what each wire format must provide, and the defaults."""

import pytest

from coreason_client.llm._adapter import Adapter, AnswerReader
from coreason_client.llm.providers import ADAPTERS

each_adapter = pytest.mark.parametrize("name", sorted(ADAPTERS))


def test_every_operation_but_the_headers_must_be_written() -> None:
    assert Adapter.__abstractmethods__ == {"url", "body", "answer", "reader", "fault"}


@each_adapter
def test_the_framing_and_the_headers_of_a_format(name: str) -> None:
    adapter = ADAPTERS[name]
    framings = {"ollama": "ndjson", "bedrock": "eventstream"}
    assert adapter.framing == framings.get(name, "sse")
    assert dict(adapter.headers()) == (
        {"anthropic-version": "2023-06-01"} if name == "anthropic" else {}
    )


@each_adapter
def test_an_adapter_has_no_state_and_each_stream_has_its_own_reader(name: str) -> None:
    adapter = ADAPTERS[name]
    first, second = adapter.reader(), adapter.reader()
    assert isinstance(first, AnswerReader)
    assert first is not second
    assert not vars(adapter)
