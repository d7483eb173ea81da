"""A thousand refusals need not be logged a thousand times."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
