"""The code that RFC 005 prints for agent developers, run as printed."""

import pytest

from coreason_client.server import AgentStream
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from .conftest import Serve

PRINTED = """
from coreason_manifest.definitions.presentation import StreamError, ErrorSeverity

error = StreamError(
    code="internal_error",
    message="Database connection failed",
    severity=ErrorSeverity.TRANSIENT
)
await stream.write_packet(op=StreamOpCode.ERROR, p=error)
"""
FORBIDDEN = """
await stream.write_error("Something went wrong")
"""


def as_agent(printed: str) -> object:
    lines = "".join(f"    {line}\n" for line in printed.strip().splitlines())
    source = f"async def assist(request, stream):\n{lines}"
    names: dict[str, object] = {
        "StreamOpCode": StreamOpCode,
        "ServiceRequest": ServiceRequest,
        "AgentStream": AgentStream,
    }
    exec(source, names)
    return names["assist"]


@pytest.mark.proves("RFC005-agent-write-error", "R14j", "RFC005-agent-same-shape")
def test_the_required_form_runs_as_printed(serve: Serve) -> None:
    answer = serve(as_agent(PRINTED)).ask()
    assert [packet.op.value for packet in answer.packets] == ["ERROR", "ERROR"]
    assert [packet.p.severity.value for packet in answer.packets] == ["TRANSIENT", "FATAL"]
    assert {packet.p.code for packet in answer.packets} == {"internal_error"}
    assert {packet.p.message for packet in answer.packets} == {"Database connection failed"}


@pytest.mark.proves("RFC005-agent-no-strings")
def test_the_forbidden_form_does_not_run(serve: Serve) -> None:
    answer = serve(as_agent(FORBIDDEN)).ask()
    assert [packet.p.code for packet in answer.packets] == ["agent_error"]
    assert b"Something went wrong" not in answer.raw
