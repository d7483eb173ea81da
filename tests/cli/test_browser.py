"""Opening a browser: only where there is a desktop, and without waiting for it."""

import threading

import pytest

from coreason_client.cli._listening import has_desktop, open_browser

PATIENCE = 10.0


@pytest.mark.parametrize(
    ("env", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_desktop_is_recognised(env: dict[str, str], platform: str, expected: bool) -> None:
    assert has_desktop(env, platform) is expected


def test_nothing_waits_for_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    called, closed = threading.Event(), threading.Event()

    def browser(url: str) -> None:
        opened.append(url)
        called.set()
        closed.wait(PATIENCE)

    monkeypatch.setattr("webbrowser.open", browser)
    monkeypatch.setenv("BROWSER", "any")
    open_browser("http://127.0.0.1:1/")
    assert called.wait(PATIENCE)
    closed.set()
    assert opened == ["http://127.0.0.1:1/"]


def test_without_a_desktop_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("coreason_client.cli._listening.has_desktop", lambda: False)
    monkeypatch.setattr(threading, "Thread", None)  # would fail if it were used
    open_browser("http://127.0.0.1:1/")
