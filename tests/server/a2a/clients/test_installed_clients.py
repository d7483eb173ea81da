"""The clients of a2a-sdk 0.3, @a2a-js/sdk and google-adk, each in its own process."""

import os
from pathlib import Path
from typing import Any

import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_client.server.a2a import A2A
from tests.installed import npm_package, python_packages, run, run_python

from ..conformance.sites import Site

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
pytestmark = pytest.mark.timeout(120)  # the first run installs the clients

BINDINGS = ["JSONRPC", "HTTP+JSON"]
OLDER = [("JSONRPC", "A2AClientJSONRPCError"), ("HTTP+JSON", "A2AClientHTTPError")]
"""The older client has no special error for a task that does not exist."""


def expected(completed: str, input_required: str, canceled: str) -> dict[str, Any]:
    """The result of every client; only the names of the states differ."""
    return {
        "sent": [completed, "Hello from TCK"],
        "message": "Direct message response",
        "streamed": [completed, "Stream hello from TCK"],
        "asked": [input_required, "What else?"],
        "answered": [completed, True],
        "read": True,
        "cancelled": canceled,
    }


@pytest.mark.parametrize(("binding", "error"), OLDER)
def test_a2a_sdk_0_3(server: Site, binding: str, error: str) -> None:
    folder = str(python_packages("a2a-sdk==0.3.26", "httpx-sse==0.4.3"))
    command = ["-m", "tests.server.a2a.clients.older_sdk", server.url, binding]
    libraries = (folder, "a2a.client", "httpx")
    got = run_python(command, {"PYTHONPATH": folder}, ROOT, libraries=libraries)
    assert got.pop("error") == error
    assert got.pop("subscribed") == ["working", "canceled"]
    assert got == expected("completed", "input-required", "canceled")


@pytest.mark.parametrize("binding", BINDINGS)
def test_a2a_js(server: Site, binding: str) -> None:
    folder = npm_package("@a2a-js/sdk@1.3.0")
    command = ["node", str(HERE / "client.mjs"), str(folder), server.url, binding]
    got = run(command, {}, folder)
    assert got.pop("error").endswith("TaskNotFoundError")
    states = [f"TASK_STATE_{name}" for name in ("COMPLETED", "INPUT_REQUIRED", "CANCELED")]
    assert got == expected(*states)


# google-adk has dozens of dependencies, so it is not installed on demand: ADK_PYTHON names a Python
# that has it, such as that of `python -m venv adk && adk/bin/pip install google-adk a2a-sdk`.
ADK_PYTHON = os.environ.get("ADK_PYTHON")


async def in_chunks(request: ServiceRequest, stream: AgentStream) -> None:
    for chunk in ("Hello ", "from ", "afar."):
        await stream.write(chunk)


@pytest.mark.skipif(not ADK_PYTHON, reason="ADK_PYTHON names no Python with google-adk")
@pytest.mark.parametrize("on_card", [False, True])
def test_google_adk(on_card: bool) -> None:
    settings = A2A(grpc_address="127.0.0.1:0", grpc_on_card=on_card, repeats_answer=True)
    with running(AgentApp(in_chunks, a2a=settings)) as server:
        command = [str(ADK_PYTHON), "-W", "ignore", str(HERE / "adk.py"), server.url]
        got = run(command, {"PYTHONPATH": ""}, HERE)
    if on_card:
        [error] = got["errors"]
        assert "Agent card RPC URL must" in error
    else:
        chunks = ["Hello ", "from ", "afar."]
        assert got == {"chunks": chunks, "answers": ["Hello from afar."], "errors": []}
