"""The log lines of `coreason serve`: as text, or each as a JSON object. Neither ever fails."""

import json
import logging
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["JsonFormatter", "TextFormatter"]

_DEEPEST = 5
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}
_ACCESS = ("client", "method", "path", "http_version", "status")


class TextFormatter(logging.Formatter):
    """Time with the offset of its zone, level, logger and message; exceptions on further lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time as in ISO 8601."""
        return _time(record)


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`, the fields of `extra`, and `exception` if there is one.

    The object is one line of ASCII characters.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as text."""
        found = {
            name: _plain(value, _DEEPEST)
            for name, value in record.__dict__.items()
            if name not in _STANDARD
        }
        found |= _access_fields(record)
        found |= {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            found["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            found["exception"] = record.exc_text
        if record.stack_info:
            found["stack"] = record.stack_info
        first = ("time", "level", "logger", "message")
        ordered = {name: found[name] for name in first} | found
        return json.dumps(ordered, allow_nan=False)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a line that was written wrongly must not be lost
        return _text(record.msg)


def _access_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what uvicorn's access log has as arguments only."""
    arguments = record.args
    if record.name != "uvicorn.access" or not isinstance(arguments, tuple):
        return {}
    if len(arguments) != len(_ACCESS):
        return {}
    return {name: _plain(value, 1) for name, value in zip(_ACCESS, arguments, strict=True)}


def _plain(value: object, depth: int) -> Any:
    """Return something that JSON has, for any object."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth and isinstance(value, Mapping):
        return {_text(key): _plain(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth - 1) for item in value]
    return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - somebody else's object
        return f"<{type(value).__name__}>"
