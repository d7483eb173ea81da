"""Hostile output of an agent: no script runs, no request leaves, and the page stays usable.

The set is in `hostile.json`; `test_units.py` runs its texts through the parser alone as well.
"""

import pytest
from playwright.sync_api import expect

from .conftest import Serve, Tabs, ask, wait_for
from .scripts import SCRIPTS

# What may be in an answer; anything else came from the agent's text.
_TAGS = [
    *("a", "blockquote", "br", "button", "code", "del", "details", "div", "em", "figcaption"),
    *("figure", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "progress", "section"),
    *("span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"),
]

_FOREIGN = """(allowed) => [...document.querySelectorAll("#turns *")]
  .filter((found) => !allowed.includes(found.localName) && !found.matches("article, h2.question")
    || [...found.attributes].some(({name}) => name.startsWith("on") || name === "style")
    || (found.href && !/^(https?|mailto):/.test(found.href)))
  .map((found) => found.outerHTML.slice(0, 200))"""


@pytest.mark.proves("PAGE-hostile")
def test_nothing_of_it_runs_or_leaves(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "hostile")
    wait_for(page, "done")
    for summary in page.locator("#turns summary").all():
        summary.click()
    assert page.evaluate("window.hacked ?? null") is None
    assert page.evaluate("({}).hacked ?? null") is None
    assert page.evaluate(_FOREIGN, _TAGS) == []
    shown = page.locator("#turns").inner_text()
    assert not set("\u202e\u2066\u0000\u001b") & set(shown)
    assert "native code" not in shown
    assert "cannot be drawn" not in shown
    # Only what can be loaded has a button.
    assert page.locator("#turns button.load").all_inner_texts() == ["Load from evil.example"]
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    timeline.press("End")
    timeline.press("ArrowLeft")
    expect(page.get_by_test_id("details-title")).to_contain_text("ERROR")
    assert page.evaluate(_FOREIGN.replace("#turns", "#details-json"), _TAGS) == []
    # The export and a further answer still work, and the ids of the page are still its own.
    ask(page, "fail")
    wait_for(page, "failed")
    assert page.evaluate("window.hacked ?? null") is None


def test_a_line_of_5_mb_leaves_the_page_usable(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "line")
    wait_for(page, "done")
    expect(page.get_by_test_id("notice-info")).to_contain_text("longer than this page draws")
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    timeline.press("Home")
    expect(page.get_by_test_id("details-json")).to_contain_text("more characters")
    ask(page, "fail")
    wait_for(page, "failed")
