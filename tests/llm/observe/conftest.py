"""A provider on loopback for all tests of a module, and collectors for each test."""

from collections.abc import Iterator

import pytest

from tests.llm.observe.collect import Collected
from tests.llm.server import Provider, Replied, ServerInThread


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Provider]:
    with ServerInThread() as server:
        yield server


@pytest.fixture
def server(shared_server: Provider) -> Provider:
    """The provider, without what earlier tests left."""
    shared_server.received.clear()
    shared_server.replies = [Replied()]
    return shared_server


@pytest.fixture
def collected() -> Collected:
    return Collected()
