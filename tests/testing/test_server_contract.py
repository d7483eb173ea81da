"""The contract of a server: ours fulfils it, and it finds what a wrong server does wrong."""

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.testing.contracts import server_contract
from coreason_client.testing.contracts.server_contract import (
    CAPPeer,
    ServerContract,
    ServerUnderTest,
    question_body,
)
from coreason_manifest.definitions.service import ServiceRequest

KEYS = ("key-1", "key-2")


async def count(request: ServiceRequest, stream: AgentStream) -> None:
    slow = "slowly" in stream.question
    for number in range(10):
        await stream.write(f"{number} ")
        await asyncio.sleep(5 if slow and number else 0)


@pytest.fixture(scope="module", params=["with keys", "without keys"])
def cap_server(request: pytest.FixtureRequest) -> Iterator[ServerUnderTest]:
    keys = KEYS if request.param == "with keys" else None
    with running(AgentApp(count, api_keys=keys)) as server:
        key, other = keys or (None, None)
        yield ServerUnderTest(server.url, key, other, slow_question="Count slowly.")


class TestOurServer(ServerContract):
    """The skipped tests need keys, and run with the server that has them."""


Wrong = Callable[[Scope, Message], Message | None]


def wrong_server(change: Wrong) -> ASGIApp:
    """Our server, whose messages are changed on their way out."""
    app = AgentApp(count, api_keys=KEYS)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            changed = change(scope, message)
            if changed is not None:
                await send(changed)

        await app(scope, receive, pass_on)

    return serve


def without_ids(scope: Scope, message: Message) -> Message:
    body = b"".join(
        line for line in message.get("body", b"").splitlines(True) if not line.startswith(b"id:")
    )
    return {**message, "body": body} if "body" in message else message


def doubled(scope: Scope, message: Message) -> Message:
    return {**message, "body": message["body"] * 2} if message.get("body") else message


def other_status(status: int, becomes: int) -> Wrong:
    def change(scope: Scope, message: Message) -> Message:
        wrong = message.get("status") == status
        return {**message, "status": becomes} if wrong else message

    return change


@pytest.mark.proves("KIT-server-contract")
@pytest.mark.parametrize(
    ("change", "test"),
    [
        (without_ids, "test_every_event_has_its_position_as_id"),
        (doubled, "test_an_answer_is_a_numbered_stream"),
        (other_status(409, 500), "test_another_body_with_the_same_id_is_a_conflict"),
        (other_status(404, 403), "test_an_unknown_stream_cannot_be_cancelled"),
        (other_status(401, 403), "test_a_key_is_needed"),
        (other_status(415, 422), "test_an_invalid_body_is_refused"),
        (other_status(400, 404), "test_a_wrong_position_is_refused"),
    ],
)
def test_a_wrong_server_fails(change: Wrong, test: str) -> None:
    run = getattr(ServerContract(), test)
    with running(wrong_server(change)) as server:
        peer = CAPPeer(server.url, "key-1", 10.0)
        given: dict[str, Any] = {
            "cap_server": ServerUnderTest(server.url, *KEYS),
            "peer": peer,
            "body": question_body("Count to ten."),
        }
        try:
            with pytest.raises((AssertionError, ValueError)):
                run(**{name: given[name] for name in inspect.signature(run).parameters})
        finally:
            peer.close()


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (other_status(200, 500), "test_an_answer_is_a_numbered_stream"),
        (without_ids, "test_every_event_has_its_position_as_id"),
    ],
)
def test_a_fault_that_other_tests_build_on_is_one_failure(change: Wrong, failing: str) -> None:
    with running(wrong_server(change)) as server:
        found = server_contract._first_failed(ServerUnderTest(server.url, *KEYS))
    assert found == failing
    assert failing not in server_contract._NEEDS[failing]
    assert set(server_contract._NEEDS) <= set(dir(ServerContract))


def no_answers(scope: Scope, message: Message) -> Message | None:
    return other_status(200, 500)(scope, message) if scope["path"] == "/assist" else message


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (no_answers, {"failed": 1, "passed": 3, "skipped": 13}),
        (without_ids, {"failed": 1, "passed": 4, "skipped": 12}),
        (other_status(409, 500), {"failed": 1, "passed": 15, "skipped": 1}),
    ],
)
def test_a_run_shows_a_fault_once_and_says_what_was_skipped(
    change: Wrong, counts: dict[str, int], tmp_path: Path
) -> None:
    """One test is skipped in any case: there is no `slow_question`."""
    with running(wrong_server(change)) as server:
        (tmp_path / "test_it.py").write_text(
            "import pytest\n"
            "from coreason_client.testing import ServerContract, ServerUnderTest\n"
            "@pytest.fixture(scope='module')\n"
            "def cap_server():\n"
            f"    return ServerUnderTest({server.url!r}, *{KEYS!r}, timeout=10.0)\n"
            "class TestIt(ServerContract): pass\n"
        )
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "--rootdir=.", "test_it.py"]
        out = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # they take a second
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
    found = re.findall(r"(\d+) (failed|passed|skipped)", out.splitlines()[-1])
    assert {outcome: int(count) for count, outcome in found} == counts, out
    assert ("it builds on test_" in out) is (counts["skipped"] > 1)
