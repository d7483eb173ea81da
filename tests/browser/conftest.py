"""One browser for the tests of this folder, and for each test a context that is watched.

The browser's fixture ends with the folder, because Playwright keeps an event loop in the thread in
which other tests want their own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

from . import tools
from .site import Script, Site, serving

# Not with `route`, for which Chromium holds each request until this process has answered.
NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
TIMEOUT = 20_000.0  # ms; a busy machine is slow

Serve = Callable[..., Site]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    path = tools.browser()
    with sync_playwright() as playwright:
        # Root and containers need the first two.
        options = ["--no-sandbox", "--disable-dev-shm-usage", NO_OTHER_HOST]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


class Tabs:
    """Opens pages in one context, and records what went wrong and what left the origin."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.problems: list[str] = []
        self.left: list[str] = []  # requests to other origins; another host gets none
        self._origins: set[str] = set()
        context.set_default_timeout(TIMEOUT)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.problems.append(str(error.error)))
        context.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.netloc not in self._origins and address.scheme not in {"data", "blob"}:
            self.left.append(request.url)

    def open(self, url: str, status: str | None = "idle") -> Page:
        """Open the page, and wait for a status."""
        self._origins.add(urlsplit(url).netloc)
        page = self.context.new_page()
        page.goto(url)
        if status is not None:
            page.locator(f"body[data-status={status}]").wait_for()
        return page


@pytest.fixture
def new_tabs(browser: Browser) -> Iterator[Callable[..., Tabs]]:
    """Return a function that makes a context with the options of Playwright."""
    with ExitStack() as stack:

        def make(**options: Any) -> Tabs:
            context = browser.new_context(**options)
            stack.callback(context.close)
            return Tabs(context)

        yield make


@pytest.fixture
def tabs(new_tabs: Callable[..., Tabs]) -> Iterator[Tabs]:
    """A context in which nothing may go wrong and no request may leave the origin."""
    made = new_tabs()
    yield made
    assert made.problems == []
    assert made.left == []


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that serves scripts until the test ends."""
    with ExitStack() as stack:

        def start(scripts: dict[str, Script], **options: Any) -> Site:
            return stack.enter_context(serving(scripts, **options))

        yield start


def ask(page: Page, question: str) -> None:
    """Type a question and send it with Enter."""
    page.get_by_test_id("question-input").fill(question)
    page.get_by_test_id("question-input").press("Enter")


def wait_for(page: Page, status: str) -> None:
    """Wait until the page has a status."""
    page.locator(f"body[data-status={status}]").wait_for()
