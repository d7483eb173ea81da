"""Installs what the browser tests need and is not there: `python -m tests.browser.install`.

Chromium comes from Debian's package if this is root on Debian, otherwise from Playwright's own
download; axe-core from npm. What cannot be installed is named in one sentence, and is an error only
in CI.
"""

import os
import shutil
import subprocess
import sys

from .tools import AXE, NPM, find_browser

_TIMEOUT = 600.0
_AXE = "axe-core@4"


def _run(*command: str) -> bool:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return False
    if done.returncode:
        print((done.stderr or done.stdout)[-1000:], file=sys.stderr)
    return done.returncode == 0


def _install_browser() -> bool:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and shutil.which("apt-get"):
        _run("apt-get", "update", "-q")
        if _run("apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"):
            find_browser.cache_clear()
            return find_browser() is not None
    return _run(sys.executable, "-m", "playwright", "install", "chromium")


def _install_axe() -> bool:
    npm = shutil.which("npm")
    options = ("--prefix", str(NPM), "--no-audit", "--no-fund", "--silent")
    return npm is not None and _run(npm, "install", *options, _AXE)


def main() -> int:
    """Install; return the exit code."""
    missing = []
    if find_browser() is None and not _install_browser():
        missing.append("Chromium")
    if not AXE.exists() and not _install_axe():
        missing.append("axe-core (npm)")
    if missing:
        print(f"Could not install {' and '.join(missing)}: install it to run all browser tests.")
    return 1 if missing and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
