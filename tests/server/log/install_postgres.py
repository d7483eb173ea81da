"""Installs Postgres and PgBouncer if they are missing.

Run it with `python -m tests.server.log.install_postgres`. They come from Debian's packages, which
needs root. What cannot be installed is named in one sentence, and is an error only in CI.
"""

import sys
from pathlib import Path

from tests.programs import apt_install, exit_code

from .postgres_tools import find_pgbouncer, find_postgres

_CLUSTERS = Path("/etc/postgresql-common/createcluster.conf")


def _install_postgres() -> bool:
    """Install the server without the one that Debian creates and starts for it."""
    if not apt_install("postgresql-common"):
        return False
    before = _CLUSTERS.read_text() if _CLUSTERS.exists() else ""
    _CLUSTERS.write_text(f"{before}\ncreate_main_cluster = false\n")
    try:
        done = apt_install("postgresql")
    finally:
        _CLUSTERS.write_text(before)
    find_postgres.cache_clear()
    return done and find_postgres() is not None


def _install_pgbouncer() -> bool:
    done = apt_install("pgbouncer")
    find_pgbouncer.cache_clear()
    return done and find_pgbouncer() is not None


def main() -> int:
    """Install; return the exit code."""
    missing = []
    if find_postgres() is None and not _install_postgres():
        missing.append("Postgres")
    if find_pgbouncer() is None and not _install_pgbouncer():
        missing.append("PgBouncer")
    return exit_code(missing, "Postgres")


if __name__ == "__main__":
    sys.exit(main())
