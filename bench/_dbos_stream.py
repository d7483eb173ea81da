"""Stream writes of a DBOS workflow.

As a program: a workflow of `KILLED` that writes numbers, on a database. If it was killed, the next
one continues it. Argument: the URL of the database.
"""

import sys
import time

from dbos import DBOS, DBOSConfig, SetWorkflowID

from ._child import answer
from ._wire import text

__all__ = ["KILLED", "writes_per_second"]

KILLED = 600
"""The numbers of the workflow that is killed."""


@DBOS.workflow()
def _write(count: int) -> float:
    words = text()
    start = time.monotonic()
    for _ in range(count):
        DBOS.write_stream("answer", words)
    return time.monotonic() - start


@DBOS.workflow()
def _write_numbers() -> None:
    for number in range(KILLED):
        DBOS.write_stream("answer", f"number {number}")


def _launch(url: str) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)
    DBOS.launch()


def writes_per_second(url: str, count: int) -> float:
    """Return the rate of a workflow that only writes to a stream; each write is stored."""
    _launch(url)
    try:
        return count / _write(count)
    finally:
        DBOS.destroy()


def _main(url: str) -> None:
    _launch(url)  # continues what was killed
    with SetWorkflowID("killed"):
        DBOS.start_workflow(_write_numbers)
    answer(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
