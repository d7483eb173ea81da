"""How many processes may serve one log."""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence

from .log.base import StreamLog

__all__ = ["check_workers", "workers_around"]


def check_workers(log: StreamLog, workers: int) -> None:
    """Refuse more workers than the log can serve.

    Raises:
        ValueError: the log lives in one process.
    """
    if workers > 1 and not log.shared:
        raise ValueError(
            f"{workers} workers need a log that processes share, and {type(log).__name__} serves "
            "one process: a resume that reaches another worker would not find its stream"
        )


def workers_around(
    argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None
) -> int:
    """Tell how many workers a parent process has started, as well as it can be known.

    uvicorn starts its workers with the command line and the environment of the parent, and a
    process that nobody started as a worker is the only one.
    """
    if multiprocessing.parent_process() is None:
        return 1
    argv = sys.argv if argv is None else argv
    environ = os.environ if environ is None else environ
    return max(_number(_option(argv)), _number(environ.get("WEB_CONCURRENCY", "")), 1)


def _option(argv: Sequence[str]) -> str:
    for index, word in enumerate(argv):
        if word == "--workers":
            return argv[index + 1] if index + 1 < len(argv) else ""
        if word.startswith("--workers="):
            return word.partition("=")[2]
    return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
