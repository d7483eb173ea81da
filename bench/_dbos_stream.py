"""Stream writes of a DBOS workflow on SQLite."""

import tempfile
import time

from dbos import DBOS, DBOSConfig

from ._wire import text

__all__ = ["writes_per_second"]


@DBOS.workflow()
def _write(count: int) -> float:
    words = text()
    start = time.monotonic()
    for _ in range(count):
        DBOS.write_stream("answer", words)
    return time.monotonic() - start


def writes_per_second(count: int) -> float:
    """Return the rate of a workflow that only writes to a stream; each write is stored."""
    with tempfile.TemporaryDirectory() as folder:
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
        DBOS(config=config)
        DBOS.launch()
        try:
            return count / _write(count)
        finally:
            DBOS.destroy()
