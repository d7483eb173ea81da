"""The site: it is built once, and everything about it is checked in one test."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from scripts.build_docs import build, configuration, relative_links
from scripts.check_site import read_page
from scripts.site_texts import nav_pages
from tests.browser import tools
from tests.browser.test_access import violations

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
TIMEOUT = 60_000.0  # ms: the whole suite may run beside it
# Pixels of a page between header and footer, in a window of 1280: a reader looks for one thing.
TALLEST = 13_840


def sources() -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(page.path for page in nav_pages(configuration()["nav"])) == sources()


def test_the_page_for_missing_pages_has_relative_links() -> None:
    absolute = '<a href="/"></a><a href="/a/b.html"></a>"base":"/","search":"/assets/c.js"'
    relative = '<a href="index.html"></a><a href="a/b.html"></a>"base":".","search":"assets/c.js"'
    assert relative_links(absolute) == relative
    assert relative_links(relative) == relative
    assert relative_links('<script src="/c.js"></script>') == '<script src="c.js"></script>'
    assert relative_links('<a href="//x.example/"></a>') == '<a href="//x.example/"></a>'


@pytest.mark.timeout(300)  # seconds on a quiet machine
def test_the_site() -> None:
    site = build()  # fails if a link leads nowhere, or if a page loads something from elsewhere
    entries_are_there(site)
    texts_are_there(site)
    assert not re.findall(r'"/(?!/)[^"<> ]+"', (site / "404.html").read_text(encoding="utf-8"))
    works_without_a_network(site, tools.browser())


def entries_are_there(site: Path) -> None:
    """Each entry of the reference has its place on the page."""
    for source in sources():
        wanted = ENTRY.findall((DOCS / source).read_text(encoding="utf-8"))
        html = (site / source).with_suffix(".html").read_text(encoding="utf-8")
        assert not set(wanted) - read_page(html).ids, source


def texts_are_there(site: Path) -> None:
    """Each page is there as Markdown, and in the index with a sentence."""
    index = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+?\]\((.+?)\): (.+)$", index, re.MULTILINE)
    assert sorted(path for path, _ in listed) == sources()
    for path, sentence in listed:
        assert 15 < len(sentence) < 400, (path, sentence)
        assert "<!--" not in (site / path).read_text(encoding="utf-8").partition("\n```")[0]
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert [path for path in sources() if f"<!-- {path} -->" not in whole] == []


def convinces_at_once(chromium: Browser, site: Path) -> None:
    """The first screen has the sentence, the command and the recording, on a phone too."""
    for width, height in ((1440, 900), (390, 844)):
        page = chromium.new_page(
            viewport={"width": width, "height": height},
            color_scheme="light" if width > height else "dark",
            reduced_motion="reduce",  # the recording shows its end
        )
        page.goto(f"{site.as_uri()}/index.html", timeout=TIMEOUT)
        hero = page.locator(".hero").bounding_box()
        assert hero is not None
        assert hero["y"] + hero["height"] <= height
        last = page.locator("svg.chat .result").last
        assert last.evaluate("text => getComputedStyle(text).visibility") == "visible"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
        page.close()


def works_without_a_network(site: Path, browser: Path) -> None:
    """Pages and search work from the file system, and nothing else is asked for."""
    left: list[str] = []
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = playwright.chromium.launch(executable_path=browser, args=options)
        page = chromium.new_page(viewport={"width": 375, "height": 800})
        page.set_default_timeout(TIMEOUT)
        page.on("request", lambda request: left.append(request.url))
        for name in ("benchmarks", "index"):
            page.goto(f"{site.as_uri()}/{name}.html")
            # Tables and pictures are moved inside of their own boxes.
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        convinces_at_once(chromium, site)
        page.keyboard.press("Control+k")
        search = page.get_by_role("combobox", name="Search")
        search.press_sequentially("bookmar")
        page.get_by_text("Resume in another process").first.wait_for()
        search.press("k")  # results must not change what has been typed
        expect(search).to_have_value("bookmark", timeout=TIMEOUT)
        page.get_by_text("Resume in another process").first.wait_for()
        plain = chromium.new_page(
            viewport={"width": 1280, "height": 800}, java_script_enabled=False
        )
        for name in sources():
            plain.goto(f"{site.as_uri()}/{name.removesuffix('.md')}.html", timeout=TIMEOUT)
            height = plain.evaluate("document.querySelector('main').scrollHeight")
            assert height <= TALLEST, (name, height)
        chromium.close()
    assert [url for url in left if not url.startswith(("file:", "data:", "blob:"))] == []
