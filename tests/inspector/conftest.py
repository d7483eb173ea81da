"""One A2A agent of the official SDK for all tests of this folder in the same process."""

from collections.abc import Iterator

import pytest

from tests.a2a.peer.process import running_peer


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """The peer's origin; each of its faces is a path below it."""
    with running_peer() as origin:
        yield origin
