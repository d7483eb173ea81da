"""Fixtures for pytest; all their names begin with `coreason_`. A test starts without agent cards.

An installed package registers this module by itself, through the entry point `pytest11`. Loading it
costs only the definitions below: what a fixture needs is imported when a test uses the fixture.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from . import ChaosProxy, FakeA2A, FakeAgent, FakeModel, FaultServer, VirtualClock
    from ._replay import StartRecording

__all__ = [
    "coreason_a2a",
    "coreason_agent",
    "coreason_chaos",
    "coreason_clock",
    "coreason_faults",
    "coreason_model",
    "coreason_no_network",
    "coreason_recording",
]


def pytest_runtest_setup() -> None:
    """Forget the cards of agents in earlier tests: a new agent may get the port of one of them."""
    if (cards := sys.modules.get("coreason_client.a2a._card")) is not None:
        cards.SHARED_CACHE.clear()


def _served(make: Callable[..., AbstractContextManager[Any]]) -> Iterator[Callable[..., Any]]:
    """Yield a function like `make` whose servers run until the end of the test."""
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(make(*given, **options))


@pytest.fixture
def coreason_agent() -> "Iterator[Callable[..., FakeAgent]]":
    """A function like `fake_agent` whose agents are served until the end of the test."""
    from . import fake_agent

    yield from _served(fake_agent)


@pytest.fixture(scope="session")
def coreason_faults() -> "Iterator[FaultServer]":
    """A `FaultServer` for all tests: `coreason_faults.run("NAME")` is a stream with a fault."""
    from . import FaultServer

    with FaultServer() as server:
        yield server


@pytest.fixture
def coreason_chaos() -> "Iterator[Callable[..., ChaosProxy]]":
    """A function like `ChaosProxy` whose proxies run until the end of the test.

    A test that fails shows their seeds, under "Captured stdout teardown".
    """
    from . import ChaosProxy

    proxies: list[ChaosProxy] = []
    with ExitStack() as stack:

        def start(upstream: Any, **options: Any) -> "ChaosProxy":
            proxies.append(stack.enter_context(ChaosProxy(upstream, **options)))
            return proxies[-1]

        yield start
    for proxy in proxies:
        print(proxy.report())  # noqa: T201 - pytest shows it if the test has failed


@pytest.fixture
def coreason_clock() -> "Iterator[VirtualClock]":
    """The waits of all clients take no time during the test; `waits` has them."""
    from . import virtual_clock

    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def coreason_no_network() -> Iterator[None]:
    """Network access beyond this machine raises an error during the test."""
    from . import no_network

    with no_network():
        yield


@pytest.fixture
def coreason_a2a() -> "Iterator[Callable[..., FakeA2A]]":
    """A function like `fake_a2a` whose agents are served until the end of the test."""
    from . import fake_a2a

    yield from _served(fake_a2a)


@pytest.fixture
def coreason_model() -> "Iterator[Callable[..., FakeModel]]":
    """A function like `fake_model` whose models are served until the end of the test."""
    from . import fake_model

    yield from _served(fake_model)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which recordings are made."""
    parser.getgroup("coreason").addoption(
        "--coreason-record",
        action="store_true",
        help="let coreason_recording call the real services and write its files again",
    )


@pytest.fixture
def coreason_recording(request: pytest.FixtureRequest) -> "Iterator[StartRecording]":
    """A function that replays a recorded service; with `--coreason-record` it records it.

    `coreason_recording("https://agent.example")` uses the file `recordings/NAME_OF_THE_TEST.jsonl`
    beside the file of the test. A test that fails does not change the file.
    """
    from ._replay import recordings_of_test

    failed_before = request.session.testsfailed
    with recordings_of_test(
        request.path.parent / "recordings",
        request.node.name,
        records=request.config.getoption("--coreason-record", default=False),
        has_failed=lambda: request.session.testsfailed > failed_before,
    ) as start:
        yield start
