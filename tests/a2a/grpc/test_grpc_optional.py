"""The extra is optional: what works without it, and that nothing loads it before it is needed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

WITHOUT = """
import sys


class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("grpc", "google"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Block())
from coreason_client.a2a import (
    A2AClient, A2ANoSupportedInterfaceError, AgentCard, AgentInterface, AsyncGrpcTransport
)
from coreason_client.errors import MissingExtraError

over_grpc = AgentInterface(url="a.example:443", protocol_binding="GRPC", protocol_version="1.0")
over_http = AgentInterface(url="https://a.example", protocol_binding="JSONRPC")
both = AgentCard(name="x", supported_interfaces=[over_grpc, over_http])
with A2AClient.from_agent_card(both) as client:
    print(client.transport._route.channel.url)
try:
    A2AClient.from_agent_card(AgentCard(name="x", supported_interfaces=[over_grpc]))
except A2ANoSupportedInterfaceError as error:
    print(error)
try:
    AsyncGrpcTransport("a.example:443")
except MissingExtraError as error:
    print(error.extra)
"""

NOT_LOADED = """
import sys

from coreason_client.a2a import A2AClient, AgentCard, AgentInterface, AsyncA2AClient

over_http = AgentInterface(url="https://a.example", protocol_binding="JSONRPC")
A2AClient.from_agent_card(AgentCard(name="x", supported_interfaces=[over_http])).close()
print([name for name in ("grpc", "google.protobuf") if name in sys.modules])
"""


def output(program: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return found.stdout.splitlines()


def test_without_the_extra() -> None:
    url, error, extra = output(WITHOUT)
    assert url == "https://a.example"
    assert error.endswith("GRPC needs the extra 'grpc': pip install 'coreason-client[grpc]'")
    assert extra == "grpc"


def test_the_extra_is_not_loaded_for_other_bindings() -> None:
    assert output(NOT_LOADED) == ["[]"]
