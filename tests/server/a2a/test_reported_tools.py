"""The tool calls and tokens that an agent reports, over A2A: statuses and no artifacts."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from coreason_client import A2AClient, Task
from coreason_client.a2a import AgentCard, TaskStatusUpdateEvent
from coreason_client.server import A2A, AgentApp, AgentStream, ServiceRequest, running

RESULT = "blue " * 12_000
LIMIT = 60


async def forecaster(request: ServiceRequest, stream: AgentStream) -> None:
    call_id = await stream.tool_call("weather", {"city": "Rome", "date": None}, "call-1")
    await stream.tool_result(call_id, RESULT)
    await stream.tool_result("call-2", "no answer", is_error=True)
    await stream.write("It is blue.")
    await stream.usage(prompt_tokens=3, completion_tokens=4, model="m")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(AgentApp(forecaster, a2a=A2A(grpc_address="127.0.0.1:0"))) as server:
        yield server.url


def connected(url: str, binding: str, version: str) -> A2AClient:
    document = httpx2.get(f"{url}/.well-known/agent-card.json", timeout=LIMIT).json()
    only = [
        one
        for one in document["supportedInterfaces"]
        if (one["protocolBinding"], one["protocolVersion"]) == (binding, version)
    ]
    card = AgentCard.model_validate({**document, "supportedInterfaces": only})
    return A2AClient.from_agent_card(card)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_reports_are_statuses_while_the_agent_works(url: str, binding: str, version: str) -> None:
    with connected(url, binding, version) as client:
        events = list(client.send_message_stream("What is the weather?"))
        task = client.send_message("And now?")
    assert "".join(event.text for event in events) == "It is blue."
    assert [event.status_text for event in events if event.status_text] == ["Calling weather"]
    statuses = [event for event in events if isinstance(event, TaskStatusUpdateEvent)]
    about: list[Any] = [(event.metadata or {}).get("coreason") for event in statuses]
    found = [report for report in about if report is not None]
    call, result, failed, usage = (report["data"] for report in found)
    kinds = [report["type"] for report in found]
    assert kinds == ["TOOL_CALL", "TOOL_RESULT", "TOOL_RESULT", "USAGE"]
    given = {"city": "Rome", "date": None}
    assert call == {"call_id": "call-1", "name": "weather", "arguments": given}
    assert (result["call_id"], result["result"], result["is_error"]) == ("call-1", RESULT, False)
    assert (failed["call_id"], failed["is_error"]) == ("call-2", True)
    assert (usage["prompt_tokens"], usage["total_tokens"], usage["model"]) == (3, 7, "m")
    assert isinstance(task, Task)
    assert [artifact.text for artifact in task.artifacts] == ["It is blue."]
