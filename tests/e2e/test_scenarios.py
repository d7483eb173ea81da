"""The programs printed in the documents, run as printed against our own agent.

Only the address and the key are changed, and the elisions (`# ...`) are left as they are.
"""

import re
import textwrap
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.server import AgentApp, AgentStream, running
from coreason_manifest.definitions.presentation import (
    CitationItem,
    ErrorSeverity,
    StreamError,
    StreamOpCode,
)
from coreason_manifest.definitions.service import ServiceRequest

KEY = "sk_test"

SCENARIO_A = """
from coreason_client import CAPClient

client = CAPClient(base_url="https://api.coreason.ai", api_key="sk_...")

print("User: Explain quantum mechanics.")
print("AI: ", end="", flush=True)

# The stream object holds the ID for the next turn
stream = client.chat("Explain quantum mechanics.")

for chunk in stream:
    print(chunk, end="", flush=True)

# Continue conversation
next_stream = client.chat("How does that relate to gravity?", conversation_id=stream.conversation_id)
# ...
"""  # noqa: E501 - as printed

SCENARIO_B = """
from coreason_client import CAPClient, ServiceRequest
from coreason_manifest.definitions.session import SessionContext
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import StreamOpCode

client = CAPClient(base_url="...", api_key="...")

# 1. Manually construct the envelope
context = SessionContext(
    user_id="user_123",
    session_id="sess_abc",
    # ... other required fields
)

payload = AgentRequest(
    messages=[
        ChatMessage.user("Analyze this data."),
        # ... attached files or complex history
    ]
)

request = ServiceRequest(
    request_id=uuid4(),
    context=context,
    payload=payload
)

# 2. Iterate strictly over packets
for packet in client.assist(request):
    if packet.op == StreamOpCode.DELTA:
        print(packet.p, end="")
    elif packet.op == StreamOpCode.EVENT:
        event = packet.p
        if event['type'] == 'CITATION_BLOCK':
            print(f"\\n[Citation: {event['data']['citations'][0]['uri']}]")
"""

RFC_005_AGENT = """
async def agent(request, stream):
    from coreason_manifest.definitions.presentation import StreamError, ErrorSeverity

    error = StreamError(
        code="internal_error",
        message="Database connection failed",
        severity=ErrorSeverity.TRANSIENT
    )
    await stream.write_packet(op=StreamOpCode.ERROR, p=error)
"""

RFC_005_CLIENT = """
if packet.op == StreamOpCode.ERROR:
    error: StreamError = packet.p
    if error.severity == ErrorSeverity.TRANSIENT:
        retry_stream()
    else:
        raise FatalError(error.message)
"""


async def scholar(request: ServiceRequest, stream: AgentStream) -> None:
    """Answers with what it was asked, what was said before, and a citation."""
    messages = request.payload.messages or []
    earlier = [message.text for message in await stream.history()]
    await stream.write(f"You asked: {messages[-1].text} ")
    await stream.write(f"Before: {earlier}")
    await stream.cite(
        CitationItem(source_id="s1", uri="https://a.example/1", title="One", confidence=0.9)
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(AgentApp(scholar, api_keys=[KEY])) as server:
        yield server.url


def run_as_printed(code: str, url: str, **names: Any) -> dict[str, Any]:
    code = re.sub(r'base_url="[^"]*"', f'base_url="{url}"', code)
    code = re.sub(r'api_key="[^"]*"', f'api_key="{KEY}"', code)
    namespace = {"__name__": "__main__", **names}
    exec(compile(code, "printed", "exec"), namespace)
    return namespace


@pytest.mark.proves("RFC004-4-scenario-a")
def test_scenario_a_runs_as_printed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_as_printed(SCENARIO_A, url)
    shown = capsys.readouterr().out
    assert "AI: You asked: Explain quantum mechanics." in shown
    following = "".join(names["next_stream"])
    assert "How does that relate to gravity?" in following
    assert "Explain quantum mechanics." in following, "the agent knows the earlier turn"
    names["client"].close()


@pytest.mark.proves("RFC004-4-scenario-b")
def test_scenario_b_runs_as_printed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_as_printed(SCENARIO_B, url, uuid4=uuid4)
    shown = capsys.readouterr().out
    assert "You asked: Analyze this data." in shown
    assert "[Citation: https://a.example/1]" in shown
    names["client"].close()


def test_the_agent_code_of_rfc_005_runs_as_printed() -> None:
    names: dict[str, Any] = {"StreamOpCode": StreamOpCode}
    exec(RFC_005_AGENT, names)
    # A stream that ends after a TRANSIENT error ends with a FATAL one, and says why.
    with (
        running(AgentApp(names["agent"], api_keys=[KEY])) as server,
        CAPClient(server.url, KEY) as client,
        pytest.raises(CAPRuntimeError) as caught,
    ):
        list(client.chat("x"))
    assert caught.value.stream_error is not None
    assert caught.value.stream_error.severity is ErrorSeverity.FATAL


@pytest.mark.parametrize("severity", ["WARNING", "TRANSIENT", "FATAL"])
def test_the_client_code_of_rfc_005_runs_as_printed(severity: str) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        error = StreamError(code="c", message="m", severity=ErrorSeverity(severity))
        await stream.write_packet(op=StreamOpCode.ERROR, p=error)

    class FatalError(Exception):
        pass

    function = (
        "def handle(packet):\n    retried = []\n    retry_stream = lambda: retried.append(1)\n"
        + textwrap.indent(RFC_005_CLIENT, "    ")
    )
    names: dict[str, Any] = {
        "StreamOpCode": StreamOpCode,
        "ErrorSeverity": ErrorSeverity,
        "StreamError": StreamError,
        "FatalError": FatalError,
    }
    exec(function, names)
    with running(AgentApp(agent)) as server, CAPClient(server.url, KEY) as client:
        stream = client.chat("x")
        packets = client.assist(stream.request) if stream.request else iter(())
        if severity == "WARNING":
            with pytest.raises(FatalError, match="m"):
                for packet in packets:
                    names["handle"](packet)
        else:
            with pytest.raises(CAPRuntimeError):
                list(packets)


def test_an_async_generator_is_an_agent_too() -> None:
    async def agent(request: ServiceRequest) -> AsyncIterator[str]:
        for word in ("one ", "two ", "three"):
            yield word

    with running(AgentApp(agent)) as server, CAPClient(server.url, KEY) as client:
        assert "".join(client.chat("count")) == "one two three"


def test_health_and_cancel_reach_the_agent(url: str) -> None:
    with CAPClient(url, KEY) as client:
        assert client.health().status == "ok"
        stream = client.chat("x")
        list(stream)
        assert stream.stream_id is not None
        client.cancel(stream.stream_id)
        with pytest.raises(CAPRuntimeError) as caught:
            client.cancel(uuid4())
        assert caught.value.status_code == 404
    with CAPClient(url, "wrong") as stranger, pytest.raises(CAPRuntimeError) as refused:
        list(stranger.chat("x"))
    assert refused.value.status_code == 401
