"""Pages show everything that an answer has: each version of the SDK."""

from collections.abc import Iterator

import pytest

from .pages import CAPABILITIES, Pages
from .serving import EVERYTHING, KEY, TRANSIENT, Site, check_whole, site


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.mark.timeout(120)
def test_a_page_shows_everything(pages: Pages, server: Site) -> None:
    body = {"capabilities": CAPABILITIES[pages.version]}
    chat = pages.chat(server.api, f"everything {pages.version}", key=KEY, body=body)
    shown = chat.send(EVERYTHING)
    check_whole(shown)
    assert [part["type"] for part in shown["data"] if part.get("transient")] == TRANSIENT
    [finished] = shown["finished"]
    assert not (finished["isAbort"] or finished["isDisconnect"] or finished["isError"])
