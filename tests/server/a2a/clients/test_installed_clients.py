"""The client of a2a-sdk 0.3 and that of @a2a-js/sdk, each in a process of its own."""

import sys
from typing import Any

import pytest

from ..conformance.sites import Site
from .installed import HERE, npm_package, python_packages, run

pytestmark = pytest.mark.timeout(120)  # the first run installs the clients

BINDINGS = ["JSONRPC", "HTTP+JSON"]
OLDER = [("JSONRPC", "A2AClientJSONRPCError"), ("HTTP+JSON", "A2AClientHTTPError")]
"""The older client has no error of its own for a task that does not exist."""


def expected(completed: str, input_required: str, canceled: str) -> dict[str, Any]:
    """What every client must get; only the names of the states differ."""
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
    folder = python_packages("a2a-sdk==0.3.26", "httpx-sse==0.4.3")
    command = [sys.executable, str(HERE / "older_sdk.py"), server.url, binding]
    got = run(command, {"PYTHONPATH": str(folder)}, folder)
    assert got.pop("error") == error
    assert got == expected("completed", "input-required", "canceled")


@pytest.mark.parametrize("binding", BINDINGS)
def test_a2a_js(server: Site, binding: str) -> None:
    folder = npm_package("@a2a-js/sdk@1.3.0")
    command = ["node", str(HERE / "client.mjs"), str(folder), server.url, binding]
    got = run(command, {}, folder)
    assert got.pop("error").endswith("TaskNotFoundError")
    states = [f"TASK_STATE_{name}" for name in ("COMPLETED", "INPUT_REQUIRED", "CANCELED")]
    assert got == expected(*states)
