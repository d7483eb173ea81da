"""The logs of the command: where they are shown, and the formats of `coreason serve`."""

import json
import logging
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from .output import LogHandler

# Formatters; neither of them raises

_MAX_DEPTH = 5
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "color_message",
}
_ACCESS_FIELDS = ("client", "method", "path", "http_version", "status")


class TextFormatter(logging.Formatter):
    """Time with UTC offset, level, logger and message; exceptions on the following lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time in ISO 8601."""
        return _time(record)


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`, the fields of `extra`, and `exception` if there is one.

    The object is one line of ASCII characters.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as text."""
        first = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        extra = {
            name: _json_value(value, _MAX_DEPTH)
            for name, value in record.__dict__.items()
            if name not in _STANDARD_FIELDS
        }
        # They are the first fields, and an extra one does not replace them.
        fields = first | extra | _access_fields(record) | first
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text
        if record.stack_info:
            fields["stack"] = record.stack_info
        return json.dumps(fields, allow_nan=False)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - wrong arguments must not lose the line
        return _safe_str(record.msg)


def _access_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of uvicorn's access log, which passes them as arguments."""
    arguments = record.args
    if record.name != "uvicorn.access" or not isinstance(arguments, tuple):
        return {}
    if len(arguments) != len(_ACCESS_FIELDS):
        return {}
    return {
        name: _json_value(value, 1) for name, value in zip(_ACCESS_FIELDS, arguments, strict=True)
    }


def _json_value(value: object, depth: int) -> Any:
    """Return a value that JSON can encode, for any object."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth and isinstance(value, Mapping):
        return {_safe_str(key): _json_value(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_json_value(item, depth - 1) for item in value]
    return _safe_str(value)


def _safe_str(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - `__str__` may raise anything
        return f"<{type(value).__name__}>"


_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

LogFormat = Literal["text", "json"]


def show_logs(verbose: int = 0, default_level: int = logging.CRITICAL) -> None:
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
