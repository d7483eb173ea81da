"""The end of a run prints the fault tables and the requirements that are still open.

A test hands in a line with `record_property("table: TITLE", LINE)`; properties travel with the
reports, so this works when the tests run in several processes too.
"""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_PREFIX = "table: "

# Loading the authorities of a system takes 50 ms, for each client that does it and in each process
# that a test starts, and no test trusts any of them. This is one whose key nobody has.
if "SYSTEM_SSL_CERT_FILE" not in os.environ:  # also set in the processes that run the tests
    os.environ["SYSTEM_SSL_CERT_FILE"] = os.environ.get("SSL_CERT_FILE", "")
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))

# A run that was started in the background, or with `nohup`, ignores these signals, and so would all
# programs that the tests start.
for _name, _usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    _number = getattr(signal, _name, None)  # Windows has no SIGHUP
    if _number and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# A slow machine is not a failure. What decides whether a change lands looks at the same examples
# every time; everywhere else new ones are tried. HYPOTHESIS_PROFILE=fuzz is for a search that may
# take an hour: what it finds becomes a seed.
# Fewer examples than usual: there are hundreds of properties, and `make fuzz` tries many more.
settings.register_profile("here", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=5_000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "here")
)


def pytest_configure(config: pytest.Config) -> None:
    mark = "conforms(*ids): the requirements of tests/server/a2a/requirements.toml that it proves"
    config.addinivalue_line("markers", mark)


def pytest_collection() -> None:
    """Collect no garbage while modules and tests are loaded, which leaves next to none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take the modules and the tests out of the garbage collection, which would look at them often.

    There are millions of objects in them, and they live until the end. What the tests leave behind
    is collected less often than usual, too.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.fixture(scope="session")
def a2a_peer() -> Iterator[str]:
    """The origin of an agent of the official A2A SDK; each of its faces is a path below it.

    There is one for all tests of a process, because its start takes seconds.
    """
    from tests.a2a.peer.process import running_peer

    with running_peer() as origin:
        yield origin


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print the tables of the tests, unless they would hide what failed."""
    if exitstatus != pytest.ExitCode.OK:
        return
    tables: defaultdict[str, list[str]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in report.user_properties:
                if name.startswith(_PREFIX):
                    tables[name.removeprefix(_PREFIX)].append(str(value))
    for title, lines in sorted(tables.items()):
        terminalreporter.section(title)
        for line in sorted(lines):
            terminalreporter.write_line(line)
