"""One server for each log, and for each binding a driver for Ann and one for Bob."""

from collections.abc import Callable, Iterator

import httpx2
import pytest

from coreason_client.server import A2A, StreamLog

from .driver import LIMIT, Connections, Driver
from .drivers import DRIVERS, HTTP_DRIVERS, Connect, HTTPDriver
from .sites import LOGS, Site, card, site
from .webhooks import Webhooks, receiving


@pytest.fixture(scope="package", params=LOGS)
def make_log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], StreamLog]:
    """Makes an empty log, of each kind."""
    return lambda: LOGS[request.param](tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="package")
def server(make_log: Callable[[], StreamLog]) -> Iterator[Site]:
    """The server on each log."""
    with site(make_log()) as server:
        yield server


@pytest.fixture(scope="package")
def plain_server(make_log: Callable[[], StreamLog]) -> Iterator[Site]:
    """A server without push notifications, on each log."""
    settings = A2A(card=card(), extended_card=card("Extended"), push=False)
    with site(make_log(), settings) as server:
        yield server


@pytest.fixture(scope="package")
def http() -> Iterator[httpx2.Client]:
    """The connections over HTTP of all tests."""
    with httpx2.Client(timeout=LIMIT) as http:
        yield http


@pytest.fixture(scope="package")
def connections(http: httpx2.Client) -> Iterator[Connections]:
    """The connections of all tests."""
    connections = Connections(http)
    yield connections
    connections.close()


@pytest.fixture(scope="package")
def webhooks() -> Iterator[Webhooks]:
    """The receiver of all push notifications."""
    with receiving() as webhooks:
        yield webhooks


@pytest.fixture(params=DRIVERS)
def connect(request: pytest.FixtureRequest, connections: Connections) -> Connect:
    """Makes a driver for a server, for each binding."""
    make = DRIVERS[request.param]

    def connect(server: Site, key: str | None = None, version: str | None = "1.0") -> Driver:
        return make(connections, server.interface(make.name), key, version)

    return connect


@pytest.fixture
def ann(server: Site, connect: Connect) -> Driver:
    """A driver for Ann, for each binding and log."""
    return connect(server, "ann-key")


@pytest.fixture
def bob(ann: Driver) -> Driver:
    """A driver for Bob."""
    return ann.with_key("bob-key")


@pytest.fixture(params=HTTP_DRIVERS)
def http_ann(request: pytest.FixtureRequest, server: Site, connections: Connections) -> HTTPDriver:
    """A driver for Ann, for each log and each binding over HTTP."""
    return HTTP_DRIVERS[request.param](connections, server.a2a, "ann-key")
