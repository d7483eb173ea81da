"""One server for all clients of this folder."""

from collections.abc import Iterator

import pytest

from coreason_client.server import MemoryStreamLog

from ..conformance.sites import Site, site
from ..conformance.webhooks import Webhooks, receiving


@pytest.fixture(scope="package")
def server() -> Iterator[Site]:
    with site(MemoryStreamLog()) as server:
        yield server


@pytest.fixture(scope="package")
def webhooks() -> Iterator[Webhooks]:
    with receiving() as webhooks:
        yield webhooks
