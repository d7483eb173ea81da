"""Programs that tests need beside Python: how they are installed, and what happens without them.

A plain test run installs nothing: `make test` does. Without a program its tests are skipped, except
in CI, where that is a failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

import pytest

__all__ = ["apt_install", "exit_code", "is_root", "missing", "run"]

_TIMEOUT = 600.0


def missing(what: str, how: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    reason = f"{what} is not installed: {how}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def run(*command: str, cwd: str | None = None) -> bool:
    """Run a program that installs something; print its last words and return False if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, cwd=cwd, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return False
    if done.returncode:
        print((done.stderr or done.stdout)[-1000:], file=sys.stderr)
    return done.returncode == 0


def apt_install(*packages: str) -> bool:
    """Install Debian packages; return False if this is not root on Debian, or if it fails."""
    if not is_root() or not shutil.which("apt-get"):
        return False
    run("apt-get", "update", "-q")
    return run("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)


def exit_code(missing: Sequence[str], tests: str) -> int:
    """Print in one sentence what could not be installed; return the exit code of the installer."""
    if missing:
        print(f"Could not install {' and '.join(missing)}: install it to run all {tests} tests.")
    return 1 if missing and os.environ.get("CI") else 0
