"""Logs on stderr: those of `-v`, and those of a server."""

import logging
from typing import Literal

from ._log_format import JsonFormatter, TextFormatter
from .output import LogHandler

__all__ = ["LogFormat", "show_logs", "show_server_logs"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

LogFormat = Literal["text", "json"]


def show_logs(verbose: int, usual: int) -> None:
    """Send logs to stderr: from the usual level on, with -v all of ours, with -vv everything."""
    _send_to_stderr(logging.Formatter(_FORMAT, "%H:%M:%S"))
    logging.getLogger().setLevel(logging.DEBUG if verbose > 1 else usual)
    logging.getLogger("coreason_client").setLevel(logging.DEBUG if verbose else usual)
    logging.getLogger("coreason_client.server").setLevel(logging.NOTSET)


def show_server_logs(verbose: int, log_format: LogFormat) -> None:
    """Send the logs of a server to stderr, with date and time zone.

    Those of the server from INFO on, others from WARNING on; with -v all of ours and the access
    log, with -vv everything.
    """
    _send_to_stderr(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.DEBUG if verbose > 1 else logging.WARNING
    logging.getLogger().setLevel(root)
    logging.getLogger("coreason_client").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("coreason_client.server").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(root)
    logging.getLogger("uvicorn.access").setLevel(logging.INFO if verbose else logging.WARNING)


def _send_to_stderr(formatter: logging.Formatter) -> None:
    handler = LogHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], force=True)
