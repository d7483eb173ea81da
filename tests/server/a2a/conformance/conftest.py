"""One server for each log, and for each binding a driver for Ann and one for Bob."""

from collections.abc import Iterator
from functools import partial

import httpx2
import pytest

from coreason_client.server import A2A, MemoryStreamLog

from .drivers import DRIVERS, LIMIT, Connect, HTTPDriver
from .sites import LOGS, Site, card, site


@pytest.fixture(scope="package", params=LOGS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The server on each log."""
    log = LOGS[request.param](tmp_path_factory.mktemp("conformance"))
    with site(log) as server:
        yield server


@pytest.fixture(scope="package")
def memory_server() -> Iterator[Site]:
    """One server without push notifications, for what does not depend on the log."""
    settings = A2A(card=card(), extended_card=card("Extended"), push=False)
    with site(MemoryStreamLog(), settings) as server:
        yield server


@pytest.fixture(scope="package")
def http() -> Iterator[httpx2.Client]:
    """The connections of all tests: a client takes a moment to make."""
    with httpx2.Client(timeout=LIMIT) as http:
        yield http


@pytest.fixture(params=DRIVERS)
def connect(request: pytest.FixtureRequest, http: httpx2.Client) -> Connect:
    """Makes a driver for a URL, for each binding."""
    return partial(DRIVERS[request.param], http)


@pytest.fixture
def ann(server: Site, connect: Connect) -> HTTPDriver:
    """A driver for Ann, for each binding and log."""
    return connect(server.a2a, "ann-key")


@pytest.fixture
def bob(ann: HTTPDriver) -> HTTPDriver:
    """A driver for Bob."""
    return ann.with_key("bob-key")
