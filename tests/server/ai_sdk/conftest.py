"""One process of Node for each version of the SDK, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from .pages import VERSIONS, Pages, all_pages, pages_of


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    with all_pages():
        yield


@pytest.fixture(params=VERSIONS, ids=lambda version: f"ai {version}")
def pages(request: pytest.FixtureRequest) -> Pages:
    """Each version of the SDK."""
    return pages_of(request.param)


@pytest.fixture
def newest() -> Pages:
    """The newest version of the SDK."""
    return pages_of(VERSIONS[-1])
