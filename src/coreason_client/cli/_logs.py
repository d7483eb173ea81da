"""Logging to stderr, for `-v` and for the server."""

import logging
from typing import Literal

from ._log_format import JsonFormatter, TextFormatter
from .output import LogHandler

__all__ = ["LogFormat", "show_logs", "show_server_logs"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

LogFormat = Literal["text", "json"]


def show_logs(verbose: int, default_level: int) -> None:
    """Log to stderr: by default from a level on, with -v all of this package, with -vv all."""
    _send_to_stderr(logging.Formatter(_FORMAT, "%H:%M:%S"))
    logging.getLogger().setLevel(logging.DEBUG if verbose > 1 else default_level)
    logging.getLogger("coreason_client").setLevel(logging.DEBUG if verbose else default_level)
    logging.getLogger("coreason_client.server").setLevel(logging.NOTSET)


def show_server_logs(verbose: int, log_format: LogFormat) -> None:
    """Log to stderr for a server, with date and UTC offset.

    The default is INFO for the server and WARNING for the rest; -v adds all logs of this package
    and the access log, -vv all logs.
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
