"""Installs what the browser tests need and is not there: `python -m tests.browser.install`.

Chromium comes from Debian's package if this is root on Debian, otherwise from Playwright's own
download; axe-core from npm. What cannot be installed is named in one sentence, and is an error only
in CI.
"""

import shutil
import sys

from tests.programs import apt_install, exit_code, run

from .tools import AXE, NPM, find_browser

_AXE = "axe-core@4"


def _install_browser() -> bool:
    if apt_install("chromium"):
        find_browser.cache_clear()
        return find_browser() is not None
    return run(sys.executable, "-m", "playwright", "install", "chromium")


def _install_axe() -> bool:
    npm = shutil.which("npm")
    options = ("--prefix", str(NPM), "--no-audit", "--no-fund", "--silent")
    return npm is not None and run(npm, "install", *options, _AXE)


def main() -> int:
    """Install; return the exit code."""
    missing = []
    if find_browser() is None and not _install_browser():
        missing.append("Chromium")
    if not AXE.exists() and not _install_axe():
        missing.append("axe-core (npm)")
    return exit_code(missing, "browser")


if __name__ == "__main__":
    sys.exit(main())
