"""The page for everyone: axe-core, the keyboard alone, every width, and no jumps of the layout."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from . import tools
from .conftest import Serve, Tabs, ask, wait_for
from .scripts import SCRIPTS

_AXE = """async () => (await axe.run()).violations
  .filter(({id, impact}) => ["serious", "critical"].includes(impact) || id === "heading-order")
  .map(({id, nodes}) =>
    [id, nodes.map(({target, failureSummary}) => `${target} ${failureSummary}`)])"""

_OVERFLOW = """() => [document.documentElement, document.body, document.getElementById("log"),
    document.getElementById("inspector-body")]
  .filter((found) => found.scrollWidth > found.clientWidth + 1)
  .map((found) => `${found.localName}#${found.id} ${found.scrollWidth} > ${found.clientWidth}`)"""


def violations(page: Page) -> list[object]:
    """Return what axe-core finds serious, and gaps in the headings.

    It is run outside of the page's policy.
    """
    page.evaluate(tools.axe().read_text(encoding="utf-8"))
    found: list[object] = page.evaluate(_AXE)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    serve: Serve, new_tabs: Callable[..., Tabs], scheme: str
) -> None:
    tools.axe()
    site = serve(SCRIPTS)
    page = new_tabs(color_scheme=scheme, viewport={"width": 375, "height": 720}).open(site.url)
    assert violations(page) == []
    ask(page, "everything")
    wait_for(page, "done")
    ask(page, "fail")
    wait_for(page, "failed")
    ask(page, "headings")
    wait_for(page, "done")
    assert violations(page) == []
    page.locator("#fold").click()
    page.get_by_test_id("timeline").press("End")
    assert violations(page) == []
    page.set_viewport_size({"width": 1600, "height": 900})
    assert violations(page) == []


def test_nothing_is_wider_than_the_window(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    page = new_tabs(viewport={"width": 375, "height": 800}).open(serve(SCRIPTS).url)
    ask(page, "everything")
    wait_for(page, "done")
    page.locator("#fold").click()
    page.get_by_test_id("timeline").press("End")
    for width in (375, 768, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(_OVERFLOW) == [], width


def test_on_a_phone_the_answer_has_most_of_the_space(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    page = new_tabs(viewport={"width": 375, "height": 720}).open(serve(SCRIPTS).url)
    ask(page, "everything")
    wait_for(page, "done")
    log, inspector = page.locator("#log"), page.locator("#inspector")
    assert height(log) > 0.65 * 720
    assert height(page.locator("#ask")) < 110, "the buttons are in one row"
    page.locator("#fold").click()
    expect(log).to_be_hidden()
    assert height(inspector) > 0.65 * 720
    expect(page.get_by_test_id("cut")).to_be_visible()
    page.locator("#fold").click()
    expect(log).to_be_visible()


def height(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["height"]


_COLUMNS = "found => getComputedStyle(found).gridTemplateColumns.split(' ').length"


def test_the_stream_uses_its_space(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    page = new_tabs().open(serve(SCRIPTS).url)
    for width, columns in ((1280, 3), (1600, 6)):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.get_by_test_id("figures").evaluate(_COLUMNS) == columns
        bottom = page.get_by_test_id("export").bounding_box()
        assert bottom is not None
        assert bottom["y"] + bottom["height"] > 860, "nothing is left below"


@pytest.mark.proves("PAGE-access")
def test_the_keyboard_is_enough(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    keyboard = page.keyboard
    keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the question")).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_test_id("question-input")).to_be_focused()
    keyboard.type("everything")
    keyboard.press("Shift+Enter")
    keyboard.press("Backspace")
    keyboard.press("Enter")
    wait_for(page, "done")
    reached = set()
    for _ in range(60):
        keyboard.press("Tab")
        focused = page.evaluate(
            "[document.activeElement.dataset.testid || document.activeElement.id,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        at_the_end = focused[0] == "page"  # the focus goes round through the body
        assert at_the_end or focused[1] != "none", f"{focused[0]} has no visible focus"
        reached.add(focused[0])
    expected = {"question-input", "send", "reload", "tab", "timeline", "curl", "python", "export"}
    assert expected <= reached


_SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifts.push(entry.value);
  }).observe({type: "layout-shift", buffered: false});
}"""


def test_the_layout_does_not_jump_and_the_reader_is_not_flooded(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    page.evaluate(_SHIFTS)
    page.evaluate(
        """() => {
          window.announced = [];
          new MutationObserver(() => window.announced.push(live.textContent))
            .observe(document.getElementById("live"), {childList: true});
        }"""
    )
    ask(page, "many")
    wait_for(page, "done")
    expect(page.locator("#live")).to_contain_text("complete")
    announced = page.evaluate("window.announced")
    assert 1 <= len(announced) <= 6
    assert sum(page.evaluate("window.shifts")) < 0.1
