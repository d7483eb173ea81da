"""What `-v` shows."""

import logging
import sys

from ._clean import clean

__all__ = ["show_logs"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to whatever stderr is now: while an answer is being drawn, that is the display."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))  # it may quote a server


def show_logs(verbose: int, usual: int) -> None:
    """Send logs to stderr: from the usual level on, with -v all of ours, with -vv everything."""
    handler = _StderrHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, "%H:%M:%S"))
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger().setLevel(logging.DEBUG if verbose > 1 else usual)
    logging.getLogger("coreason_client").setLevel(logging.DEBUG if verbose else usual)
