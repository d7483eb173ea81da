"""The tutorial for a web page works as printed, in Chromium; only ports and pauses differ."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.docs.terminals import Player
from tests.ports import free_port

from .conftest import TIMEOUT

TEXT = (Path(__file__).parents[2] / "docs/tutorials/frontend.md").read_text(encoding="utf-8")
STORY = "This is the story of a fox. " + "".join(
    f"On day {day} it went out to look for something to eat. " for day in range(1, 8)
)


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    ports = {port: str(free_port()) for port in ("8000", "5173")}
    with Player(tmp_path, {**ports, "PAUSE = 0.3": "PAUSE = 0.05"}) as player:
        yield player


def story_goes_on(page: Page, day: int) -> None:
    expect(page.locator("#answer")).to_contain_text(f"On day {day}")


def story_is_whole(page: Page) -> None:
    expect(page.locator("#status")).to_contain_text("Complete.")
    assert page.locator("#answer").evaluate("(shown) => shown.textContent") == (
        f"{STORY}And that was the week."
    )


@pytest.mark.timeout(180)
def test_the_page_of_the_tutorial(browser: Browser, player: Player) -> None:
    written, killed = re.split(r"(?m)^## Kill the agent$", TEXT)
    expect.set_options(timeout=TIMEOUT)
    player.play(written, "frontend.md")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(player.replace("http://127.0.0.1:5173/"))
        page.get_by_text("Tell").click()
        story_goes_on(page, 2)
        page.reload()
        story_is_whole(page)
        page.get_by_text("Tell").click()
        story_goes_on(page, 1)
        page.get_by_text("Stop").click()
        expect(page.locator("#status")).to_have_text("Stopped.")
        page.get_by_text("Tell").click()
        story_goes_on(page, 1)
        player.play(killed, "frontend.md")
        story_is_whole(page)
        expect(page.locator("#status")).to_have_text(re.compile("Lost connections: [1-9]"))
