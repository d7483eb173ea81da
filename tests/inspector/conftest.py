"""The A2A agent of the official SDK, by the name that the tests of this folder use."""

import pytest


@pytest.fixture(scope="session")
def origin(a2a_peer: str) -> str:
    """The peer's origin; each of its faces is a path below it."""
    return a2a_peer
