"""Opens a page in the user's browser."""

import os
import sys
import threading
import webbrowser
from collections.abc import Mapping

__all__ = ["has_desktop", "open_browser"]

# Any of them is set where a browser can open a window, on systems without a desktop of their own.
_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def has_desktop(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Return True if a browser can open a window.

    Otherwise Python may start a browser for terminals, which would take over this one.
    """
    return platform in ("darwin", "win32") or any(env.get(name) for name in _DISPLAYS)


def open_browser(url: str) -> None:
    """Open a URL if there is a desktop; in a thread, because some browsers return at their end."""
    if has_desktop():
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
