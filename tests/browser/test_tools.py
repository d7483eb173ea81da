"""A missing program is a reason to skip, and in CI a failure."""

from collections.abc import Iterator

import pytest

from . import tools


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither a browser nor Node.js is installed."""
    monkeypatch.setattr(tools, "find_browser", lambda: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    tools._find_node.cache_clear()
    yield
    tools._find_node.cache_clear()


PROGRAMS = {
    "Chromium is not installed: run": tools.browser,
    "Node.js 20 is not installed: install": tools.node,
}


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("reason", PROGRAMS)
def test_what_is_missing_skips_the_test(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=reason):
        PROGRAMS[reason]()


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("reason", PROGRAMS)
def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match=reason):
        PROGRAMS[reason]()


def test_a_browser_is_found_on_the_path_or_among_downloads(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("browsers")
    chrome = folder / "chromium-1234" / "chrome-linux" / "chrome"
    chrome.parent.mkdir(parents=True)
    chrome.touch()
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(folder))
    tools.find_browser.cache_clear()
    assert tools.find_browser() == chrome
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(folder / "none"))
    tools.find_browser.cache_clear()
    assert tools.find_browser() in {None, tools._MAC}
    tools.find_browser.cache_clear()
