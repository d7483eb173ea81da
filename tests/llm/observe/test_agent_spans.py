"""The span of a model call in a served agent is a child of the span of the agent."""

import pytest

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import AsyncLLMClient
from coreason_client.server import AgentApp, running
from tests.llm.server import Provider
from tests.server.peer import Peer

from .collect import Collected, arguments, streamed


def test_a_model_call_is_below_its_agent(
    server: Provider, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: collected.tracers)
    server.replies = [streamed("Paris")]
    client = AsyncLLMClient(**arguments(server, {}))
    with running(AgentApp(llm_agent("m", client=client))) as served:
        peer = Peer(served.url)
        assert peer.ask().text == "Paris"
        peer.close()
    call, agent = collected.spans
    assert (call.name, agent.name.split()[0]) == ("chat m", "invoke_agent")
    assert call.parent is not None
    assert agent.context is not None
    assert call.parent.span_id == agent.context.span_id
