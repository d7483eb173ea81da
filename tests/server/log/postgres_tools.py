"""The programs that the tests of the Postgres log need: `install_postgres.py` installs them."""

import os
import pwd
import re
import shutil
from functools import cache
from pathlib import Path

from tests.programs import is_root, missing

_DEBIAN = Path("/usr/lib/postgresql")
_BOUNCERS = (Path("/usr/sbin/pgbouncer"), Path("/usr/local/sbin/pgbouncer"))
_HOW = "run `make postgres` as root on Debian, or install the packages postgresql and pgbouncer"


@cache
def find_postgres() -> Path | None:
    """Return the folder of the server programs, of Debian's newest version or of the path."""
    folders = sorted(_DEBIAN.glob("*/bin"), key=_version, reverse=True)
    if found := shutil.which("postgres"):
        folders.append(Path(found).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _version(folder: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", folder.parent.name)]


@cache
def find_pgbouncer() -> Path | None:
    if found := shutil.which("pgbouncer"):
        return Path(found)
    return next((path for path in _BOUNCERS if path.exists()), None)


def postgres() -> Path:
    """Return the folder of the server programs, or skip the test."""
    return find_postgres() or missing("Postgres", _HOW)


def pgbouncer() -> Path:
    """Return the program, or skip the test."""
    return find_pgbouncer() or missing("PgBouncer", _HOW)


@cache
def unprivileged() -> tuple[int, int] | None:
    """Return the user and the group that servers run as; None if they run as this process does.

    Both programs refuse to run as root.
    """
    if not is_root():
        return None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return user.pw_uid, user.pw_gid
    return 65_534, 65_534


def give_away(folder: Path) -> None:
    """Let the user that servers run as own a folder with all that is in it."""
    if (owner := unprivileged()) is None:
        return
    os.chown(folder, *owner)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent, name), *owner, follow_symlinks=False)
