"""One server for all clients of this folder."""

from collections.abc import Iterator

import pytest

from coreason_client.server import MemoryStreamLog

from ..conformance.sites import Site, site


@pytest.fixture(scope="package")
def server() -> Iterator[Site]:
    with site(MemoryStreamLog()) as server:
        yield server
