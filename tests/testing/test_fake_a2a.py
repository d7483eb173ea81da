import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client import A2AClient, AsyncA2AClient
from coreason_client.a2a import AgentCard, Task
from coreason_client.a2a.transport import JsonRpcTransport, RestTransport
from coreason_client.server import AgentStream, ServiceRequest
from coreason_client.testing import disconnect, fail, fake_a2a, status, virtual_clock


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with virtual_clock():
        yield


TRANSPORTS: dict[str, Any] = {"JSONRPC": JsonRpcTransport, "HTTP+JSON": RestTransport}


def texts(stream: Any) -> str:
    return "".join(event.text for event in stream)


@pytest.mark.proves("KIT-a2a")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_stream_that_breaks_is_complete(binding: str, version: str) -> None:
    script: list[Any] = [status("Looking."), "Sunny ", disconnect(), "in ", disconnect(), "Bonn."]
    with (
        fake_a2a(script, versions=[version]) as agent,
        A2AClient.with_transport(
            TRANSPORTS[binding](f"{agent.url}/a2a", version=version)
        ) as client,
    ):
        assert texts(client.send_message_stream("How is the weather?")) == "Sunny in Bonn."
    # Subscribing is not safe in 0.3, so the client fetches the task instead.
    assert agent.disconnects == (2 if version == "1.0" else 1)
    sent = [request for request in agent.requests if request.operation != "get_card"]
    assert sent[0].operation == "send_message_stream"
    assert {(request.binding, request.version) for request in sent} == {(binding, version)}
    assert sent[0].text == "How is the weather?"
    if version == "1.0":  # where each connection broke
        positions = [request.headers.get("last-event-id", "").partition(":")[2] for request in sent]
        assert positions == ["", "2", "3"]


def test_each_message_gets_the_next_script() -> None:
    async def echo(request: ServiceRequest, stream: AgentStream) -> str:
        return f"You said {stream.question}"

    card = AgentCard(name="Echo", description="Repeats.")
    scripts: list[Any] = ["One", [fail("No.", code="tired")], echo]
    with fake_a2a(*scripts, card=card) as agent, A2AClient.connect(agent.url) as client:
        answers = [client.send_message(word) for word in ("a", "b", "c", "d")]
        assert client.card is not None
        assert client.card.name == "Echo"
    assert [answer.text for answer in answers] == ["One", "No.", "You said c", "You said d"]
    failed = answers[1]
    assert isinstance(failed, Task)
    assert failed.status.state == "TASK_STATE_FAILED"


def test_it_can_be_used_in_an_event_loop_and_with_keys() -> None:
    async def use() -> str:
        async with fake_a2a("Hello", api_keys=["key-17"]) as agent:
            async with await AsyncA2AClient.connect(agent.url, auth="key-17") as client:
                text = (await client.send_message("Hi")).text
            assert "key-17" not in repr(agent.requests)
            assert agent.requests[-1].headers["authorization"] == "Bearer key-17"
            return text

    assert asyncio.run(use()) == "Hello"


def test_wrong_use_is_explained() -> None:
    with pytest.raises(TypeError, match="needs a script"):
        fake_a2a()
    with pytest.raises(TypeError, match="item 2 of script 1 must be text"):
        fake_a2a(["a", 7])
    agent = fake_a2a("a")
    with pytest.raises(RuntimeError, match="no URL yet"):
        _ = agent.url
    assert repr(agent) == "<FakeA2A at no port: 0 requests>"
    with agent, pytest.raises(RuntimeError, match="already being served"):
        agent.__enter__()
    agent.__exit__(None, None, None)  # once more does nothing
