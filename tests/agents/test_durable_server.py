"""A model as a durable agent: server, client, provider and log in a file, all real."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.agents.llm import llm_agent
from coreason_client.llm import AsyncLLMClient
from coreason_manifest.definitions.presentation import DeltaPacket, EventPacket
from tests.cli.models import KEY, Model, answer, chunk, model, streamed
from tests.server.durable.crash import Replica, replica

from .test_llm import request


def agent(served: Model, provider: str | None) -> Any:
    client = AsyncLLMClient(KEY, served.url, max_retries=0, timeout=10, provider=provider)
    return llm_agent("m", client=client)


@contextmanager
def process(path: Path, served: Model, provider: str | None) -> Iterator[tuple[Replica, CAPClient]]:
    with (
        replica(path, agent(served, provider)) as running,
        CAPClient(str(running.peer.http.base_url), "key", max_retries=0) as client,
    ):
        yield running, client


def test_the_next_process_continues_the_answer(tmp_path: Path) -> None:
    begun = streamed([chunk(content="The sky"), chunk(content=" is\n")], hold=True)
    path, asked = tmp_path / "streams.db", request("What is the sky?")
    with model(begun, answer("\nblue", ".")) as served:
        with process(path, served, "vllm") as (running, client):
            with client.assist(asked) as packets:
                assert [next(packets).p, next(packets).p] == ["The sky", " is\n"]
            running.die()
        with process(path, served, "vllm") as (_, client), client.assist(asked) as packets:
            received = list(packets)
    text = "".join(packet.p for packet in received if isinstance(packet, DeltaPacket))
    assert text == "The sky is\nblue."
    assert [packet.seq for packet in received] == list(range(1, len(received) + 1))
    [usage] = [packet.p for packet in received if isinstance(packet, EventPacket)]
    assert isinstance(usage, dict)
    assert usage["data"]["estimated"] is True
    assert served.sent(0) == [("user", "What is the sky?")]
    assert served.sent(1) == [("user", "What is the sky?"), ("assistant", "The sky is")]
    assert len(served.received) == 2


def test_a_model_that_cannot_continue_is_asked_again(tmp_path: Path) -> None:
    begun = streamed([chunk(content="The sky"), chunk(content=" is")], hold=True)
    path, asked = tmp_path / "streams.db", request("What is the sky?")
    with model(begun, answer("The sky", " was", " red.")) as served:
        with process(path, served, None) as (running, client):
            with client.assist(asked) as packets:
                assert [next(packets).p, next(packets).p] == ["The sky", " is"]
            running.die()
        # This client does not understand rewinds.
        with (
            process(path, served, None) as (_, client),
            pytest.raises(CAPRuntimeError) as caught,
            client.assist(asked) as packets,
        ):
            list(packets)
    assert caught.value.stream_error is not None
    assert caught.value.stream_error.code == "producer_lost"
    assert [served.sent(0), served.sent(1)] == [[("user", "What is the sky?")]] * 2


def test_a_client_with_rewinds_gets_the_new_answer(tmp_path: Path) -> None:
    begun = streamed([chunk(content="The sky"), chunk(content=" is")], hold=True)
    path = tmp_path / "streams.db"
    asked = request("What is the sky?", capabilities={"supported_events": ["USAGE", "REWIND"]})
    with model(begun, answer("The sky", " was", " red.")) as served:
        with process(path, served, None) as (running, client):
            with client.assist(asked) as packets:
                assert [next(packets).p, next(packets).p] == ["The sky", " is"]
            running.die()
        with process(path, served, None) as (_, client), client.assist(asked) as packets:
            received = list(packets)
    kinds = [packet.p if packet.op == "DELTA" else packet.op for packet in received]
    assert kinds == ["The sky", " is", "EVENT", " was", " red.", "EVENT", "CLOSE"]
    rewind: Any = received[2].p
    assert rewind["type"] == "REWIND"
    assert rewind["data"] == {"to_seq": 1, "step": "answer", "attempt": 2}


def test_a_cancelled_answer_leaves_the_model_and_is_not_continued(tmp_path: Path) -> None:
    begun = streamed([chunk(content="The sky")], hold=True)
    path, asked = tmp_path / "streams.db", request("What is the sky?")
    with model(begun) as served:
        with process(path, served, "vllm") as (_, client), client.assist(asked) as packets:
            assert next(packets).p == "The sky"
            assert packets.stream_id is not None
            client.cancel(packets.stream_id)
            assert served.was_left()
            with pytest.raises(CAPRuntimeError, match="cancelled"):
                list(packets)
        with (
            process(path, served, "vllm") as (_, client),
            pytest.raises(CAPRuntimeError, match="cancelled"),
            client.assist(asked) as packets,
        ):
            list(packets)
        assert len(served.received) == 1
