"""After a fork, parent and child use connections of their own.

The forks happen in a program that each test runs, since the test's own process has threads.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from coreason_client.server import running
from tests.fork import server
from tests.http.support import Authority, Relay

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

SYNC = [
    (scenario, family) for scenario in ("sync-stream", "sync-rounds") for family in ("cap", "a2a")
]
ASYNC = [
    (scenario, family)
    for scenario in ("async-stream", "loop-in-thread", "idle-loop", "async-rounds")
    for family in ("cap", "a2a", "llm")
]
LIMIT = 40.0
OTHER = [
    *(("locks", "cap"), ("closed", "cap")),
    *(("end", "cap"), ("end", "a2a"), ("end", "llm")),
    ("prices", "llm"),
]


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with running(server.app()) as found:
        yield found.url


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def succeeds(scenario: str, family: str, url: str, control: str, certificates: str) -> None:
    """Run the program: no error, no warning, nothing printed by it or by its children."""
    program = ["-m", "tests.fork.program", scenario, family, url, control]
    # A fork with threads is what is tested here; newer versions of Python warn of it.
    warnings = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    running = subprocess.Popen(
        [sys.executable, *warnings, *program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SSL_CERT_FILE": certificates, "NO_PROXY": "*"},
        start_new_session=True,
    )
    try:
        out, err = running.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # with its children
        out, err = running.communicate()
    assert (running.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(("scenario", "family"), [*SYNC, *ASYNC, *OTHER])
def test_plain_connections(control: str, authority: Authority, scenario: str, family: str) -> None:
    succeeds(scenario, family, control, control, authority.file)


@pytest.mark.parametrize(("scenario", "family"), [*SYNC, *ASYNC])
def test_tls_connections(control: str, authority: Authority, scenario: str, family: str) -> None:
    with Relay(control, tls=authority.server) as relay:
        succeeds(scenario, family, relay.url, control, authority.file)
