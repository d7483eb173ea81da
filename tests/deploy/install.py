"""Unpacks promtool and nginx from Debian's packages, if they are missing.

Run it with `python -m tests.deploy.install`. They are put into a folder of the environment, so
nothing is installed in the system, and no service is started. What cannot be had is named in one
sentence, and is an error only in CI.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.installed import FOLDER
from tests.programs import exit_code, is_root, missing, run

__all__ = ["PACKAGES", "find", "program"]

PACKAGES: Final = {"promtool": "prometheus", "nginx": "nginx"}
_UNPACKED: Final = FOLDER / "debian"


def find(name: str) -> Path | None:
    """Return the path of a program."""
    folders = [_UNPACKED / "usr/bin", _UNPACKED / "usr/sbin", Path("/usr/sbin")]
    found = shutil.which(name)
    paths = [Path(found)] if found else [folder / name for folder in folders]
    return next((path for path in paths if path.exists()), None)


def program(name: str) -> str:
    """Return the path of a program; without it, the test is skipped, or fails in CI."""
    return str(find(name) or missing(name, "run `make deploy-tools`"))


def _unpack(package: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if not run("apt-get", "download", "-q", package, cwd=folder):
            return False
        [file] = Path(folder).glob("*.deb")
        _UNPACKED.mkdir(parents=True, exist_ok=True)
        return run("dpkg", "-x", str(file), str(_UNPACKED))


def main() -> int:
    """Unpack; return the exit code."""
    wanted = [name for name in PACKAGES if find(name) is None]
    if wanted and is_root():
        run("apt-get", "update", "-q")
    lacking = [name for name in wanted if not _unpack(PACKAGES[name]) or find(name) is None]
    return exit_code(lacking, "deployment")


if __name__ == "__main__":
    sys.exit(main())
