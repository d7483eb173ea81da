"""After a fork, parent and child use their own connections.

The forks happen in a program that each test runs, since the test's own process has threads.
"""

import os
from collections.abc import Iterator

import pytest

from coreason_client.server import running
from tests.fork import server
from tests.http.support import Authority, Relay
from tests.preloaded import run_preloaded

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

SYNC = [(scenario, "cap,a2a") for scenario in ("sync-stream", "sync-rounds")]
ASYNC = [
    (scenario, "cap,a2a,llm")
    for scenario in ("async-stream", "loop-in-thread", "idle-loop", "async-rounds")
]
OTHER = [("locks", "cap"), ("closed", "cap"), ("end", "cap,a2a,llm"), ("prices", "llm")]
LIMIT = 40.0


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with running(server.app()) as found:
        yield found.url


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def succeeds(scenario: str, families: str, url: str, control: str, certificates: str) -> None:
    """Run the program: no error, no warning, nothing printed by it or by its children.

    Only the program itself prints the names of the scenario and the family.
    """
    # A fork with threads is what is tested here; newer versions of Python warn of it.
    warnings = "error,ignore::DeprecationWarning"
    done = run_preloaded(
        ["-m", "tests.fork.program", scenario, families, url, control],
        env={
            **os.environ,
            "PYTHONWARNINGS": warnings,
            "SSL_CERT_FILE": certificates,
            "NO_PROXY": "*",
        },
        timeout=LIMIT,
    )
    announced = "".join(f"{scenario} {family}\n" for family in families.split(","))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", announced)


@pytest.mark.parametrize(("scenario", "families"), [*SYNC, *ASYNC, *OTHER])
def test_plain_connections(
    control: str, authority: Authority, scenario: str, families: str
) -> None:
    succeeds(scenario, families, control, control, authority.file)


@pytest.mark.parametrize(("scenario", "families"), [*SYNC, *ASYNC])
def test_tls_connections(control: str, authority: Authority, scenario: str, families: str) -> None:
    with Relay(control, tls=authority.server) as relay:
        succeeds(scenario, families, relay.url, control, authority.file)
