"""The tests of the JavaScript client, and what it has in common with the Python package."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coreason_client import CAPClient, __version__
from coreason_client.cap.answer import WITH_REWINDS
from coreason_client.server import AgentApp, running
from coreason_manifest.definitions.service import ServiceRequest
from tests.browser import tools
from tests.server.test_inbox import talking

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "js"


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node.js; CI has to have it."""
    return tools.node()


def run(node: str, *arguments: str, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node, *arguments],
        cwd=PACKAGE,
        env={**os.environ, "PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


TEST_FILES = sorted(path.name for path in (PACKAGE / "test").glob("*.test.js"))


@pytest.mark.parametrize("name", TEST_FILES)
def test_javascript(name: str, node: str) -> None:
    result = run(node, "--test", "--test-reporter=tap", f"test/{name}")
    failed = [line for line in result.stdout.splitlines() if line.lstrip().startswith("not ok")]
    assert result.returncode == 0, "\n".join([*failed, result.stdout[-5000:], result.stderr])
    assert "\n# fail 0\n" in result.stdout
    assert "\n# pass 0\n" not in result.stdout


def test_there_are_tests() -> None:
    assert {"wire_cases.test.js", "faults.test.js", "disconnects.test.js"} <= set(TEST_FILES)


# The request of a chat


def javascript_request(node: str, options: dict[str, Any]) -> ServiceRequest:
    program = (
        'import { CAPClient } from "./coreason.js";'
        'const client = new CAPClient("https://agent.example");'
        f'console.log(JSON.stringify(client.chatRequest("Hello", {json.dumps(options)})));'
    )
    result = run(node, "--input-type=module", "--eval", program)
    return ServiceRequest.model_validate_json(result.stdout)


@pytest.mark.parametrize("rewinds", [False, True])
def test_a_chat_request_is_that_of_the_python_client(rewinds: bool, node: str) -> None:
    with CAPClient("https://agent.example", "key") as client:
        ours = client._endpoint.chat_request("Hello", "s1", rewinds=rewinds)
    theirs = javascript_request(node, {"sessionId": "s1", "rewinds": rewinds})
    assert theirs.payload.capabilities == (WITH_REWINDS if rewinds else None)
    assert without_ids(theirs) == without_ids(ours)


def without_ids(request: ServiceRequest) -> dict[str, Any]:
    """Return a request without what is new each time."""
    fields = request.dump()
    del fields["request_id"], fields["context"]["created_at"]
    for name in ("request_id", "root_request_id", "timestamp"):
        del fields["payload"][name]
    return fields


# A message to a running agent

TALK = """
import { CAPClient } from "./coreason.js";
const client = new CAPClient(process.argv[1]);
const stream = client.chat("hi");
const said = [(await stream.next()).value];
for (const word of ["a", "b", "a"]) await client.send(stream, word, { messageId: word });
await client.send(stream.streamId, "stop");
for await (const text of stream) said.push(text);
const refused = await client.send(stream, "late").catch((error) => error);
console.log(JSON.stringify([said.join(""), refused.name, refused.statusCode, refused.message]));
"""


def talk(node: str, **options: Any) -> subprocess.CompletedProcess[str]:
    with running(AgentApp(talking, **options)) as server:
        return run(node, "--input-type=module", "--eval", TALK, server.url)


def test_it_talks_to_a_running_agent(node: str) -> None:
    said, name, status, message = json.loads(talk(node, inbox=True).stdout)
    assert (said, name, status) == ("ready a b stop ", "CAPRuntimeError", 409)
    assert message.endswith("HTTP 409: The stream has ended: send a new request.")


def test_an_agent_without_an_inbox_takes_no_message(node: str) -> None:
    result = talk(node)
    assert "CAPRuntimeError" in result.stderr
    assert "HTTP 404" in result.stderr


# The package


def test_both_packages_have_the_same_version_and_licence() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (manifest["name"], manifest["version"]) == (project["name"], __version__)
    assert manifest["license"] == project["license"]
    assert (PACKAGE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_contains_the_client() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    included = build["build"]["targets"]["wheel"]["force-include"]
    static = "coreason_client/server/page/static"
    assert included["js/coreason.js"] == f"{static}/coreason.js"
    assert included["js/coreason.d.ts"] == f"{static}/coreason.d.ts"
    assert "/js" in build["build"]["targets"]["sdist"]["include"]
