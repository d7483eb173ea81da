"""The programs that the browser tests need, where they are, and what to install if they are not.

`install.py` installs them.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.programs import missing

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "coreason_client" / "server" / "page" / "static"
CLIENT = ROOT / "js" / "coreason.js"
NPM = ROOT / ".venv" / "npm"
AXE = NPM / "node_modules" / "axe-core" / "axe.min.js"
LEAST_NODE = 20

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


@cache
def find_browser() -> Path | None:
    """Return an installed Chromium or Chrome, or the one that Playwright has downloaded."""
    for name in _NAMES:
        if found := shutil.which(name):
            return Path(found)
    return _MAC if _MAC.exists() else _downloaded()


def _downloaded() -> Path | None:
    folder = Path(
        os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright"
    )
    found = sorted(folder.glob("chromium-*/chrome-linux*/chrome"))
    return found[-1] if found else None


def browser() -> Path:
    """Return the browser, or skip the test."""
    return find_browser() or missing("Chromium", "run `make browser`, or install Debian's chromium")


@cache
def _find_node() -> str | None:
    found = shutil.which("node")
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    major = int(version.stdout.lstrip("v").partition(".")[0])
    return found if major >= LEAST_NODE else None


def node() -> str:
    """Return Node.js, or skip the test."""
    return _find_node() or missing(f"Node.js {LEAST_NODE}", "install that version or a later one")


def axe() -> Path:
    """Return the script of axe-core, or skip the test."""
    return AXE if AXE.exists() else missing("axe-core", "run `make browser`, which needs npm")
