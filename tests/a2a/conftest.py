"""No card of one test is kept for the next: their agents may get the same port."""

from collections.abc import Iterator

import pytest

from coreason_client.a2a._card import SHARED_CACHE


@pytest.fixture(autouse=True)
def no_card_is_kept() -> Iterator[None]:
    SHARED_CACHE.clear()
    yield
    SHARED_CACHE.clear()
