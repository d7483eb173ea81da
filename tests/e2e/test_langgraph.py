"""Our A2A client and the real server of LangGraph, whose connections break at many positions.

After a break the client fetches the task. A finished task of this server has no artifacts, and its
status says "Task completed successfully": the answer is in the history.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from coreason_client import A2AClient
from coreason_client.testing import ChaosProxy, ConnectionPlan
from tests.ports import free_port

# langgraph-api needs an older protobuf than ours: LANGGRAPH_PYTHON names a Python that has it, such
# as that of `python -m venv lg && lg/bin/pip install 'langgraph-cli[inmem]'`.
LANGGRAPH_PYTHON = os.environ.get("LANGGRAPH_PYTHON")
CUTS = 36
START_SECONDS = 60.0

pytestmark = [
    pytest.mark.skipif(not LANGGRAPH_PYTHON, reason="LANGGRAPH_PYTHON names no Python with it"),
    pytest.mark.timeout(300),
]

AGENT = Path(__file__).parent / "langgraph_agent.py"
ANSWER = re.findall(r'^ANSWER = "(.*)"$', AGENT.read_text(), re.MULTILINE)[0]
OFFLINE = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "NO_COLOR": "1"}


def post(url: str, body: object, timeout: float = 10.0) -> bytes:
    content = json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return bytes(response.read())


def agent_url(base: str, server: subprocess.Popen[bytes]) -> str:
    """Return the address of the agent, as soon as the server answers."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            [assistant] = json.loads(post(f"{base}/assistants/search", {}))
        except OSError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.1)
        else:
            return f"{base}/a2a/{assistant['assistant_id']}"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the graph; return the address of the agent."""
    folder, port = tmp_path_factory.mktemp("langgraph"), free_port()
    shutil.copy(AGENT, folder / "agent.py")
    settings = {"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}
    (folder / "langgraph.json").write_text(json.dumps(settings))
    command = [str(LANGGRAPH_PYTHON), "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            env={**os.environ, **OFFLINE, "PYTHONPATH": ""},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield agent_url(f"http://127.0.0.1:{port}", server)
        except BaseException as error:
            error.add_note((folder / "log").read_text()[-2000:])
            raise
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(20)


def response_to(url: str) -> bytes:
    """Return all bytes of the response to a message, with the framing."""
    parts = urlsplit(url)
    # The ids are as long as those of our client, since the response repeats them.
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "Which town?"}]}
    call = {"jsonrpc": "2.0", "id": str(uuid4()), "method": "SendStreamingMessage"}
    body = json.dumps({**call, "params": {"message": message}}).encode()
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
        "A2A-Version: 1.0\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20) as peer:
        peer.sendall(head.encode() + body)
        return b"".join(iter(lambda: peer.recv(65_536), b""))


def test_the_answer_of_langgraph_survives_a_cut_at_any_position(agent: str) -> None:
    whole = response_to(agent)
    first = whole.index(b"\r\n\r\n", whole.index(b"data:")) + 4  # the event that names the task
    assert ANSWER.encode() in whole
    texts, reconnects = [], 0
    for number in range(CUTS):
        after = first + number * (len(whole) - first) // CUTS
        plan = [ConnectionPlan(("cut", "reset")[number % 2], after)]
        with ChaosProxy(agent, plan=plan) as proxy, A2AClient(proxy.url) as client:
            stream = client.send_message_stream("Which town?")
            pieces = [event.text for event in stream]
            assert stream.task is not None
            assert "".join(pieces) == stream.text == stream.task.text, f"cut after {after} bytes"
            texts.append(stream.text)
            reconnects += stream.reconnects
            fetched = client.get_task(stream.task.id)
            assert fetched.status.message is not None
            assert fetched.status.message.text == "Task completed successfully"
    assert texts == [ANSWER] * CUTS
    assert reconnects >= CUTS - 1  # the last bytes may be only those of the framing
