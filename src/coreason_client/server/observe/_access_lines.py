"""The access log of uvicorn without the values of queries.

The server reads no credentials from a query, but clients put them there by mistake, under any name.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["redacted_access_lines", "without_query_values"]

_MASK = "***"
_PATH_AT = 2  # client, method, path with query, HTTP version, status


def without_query_values(target: str) -> str:
    """Return a path with only the names of its query's parameters."""
    path, mark, query = target.partition("?")
    if not query:
        return target
    names = (part.partition("=")[:2] for part in query.split("&"))
    return path + mark + "&".join(f"{name}={_MASK}" if equals else _MASK for name, equals in names)


class _WithoutQueryValues(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args
        if isinstance(arguments, tuple) and len(arguments) > _PATH_AT:
            target = without_query_values(str(arguments[_PATH_AT]))
            record.args = (*arguments[:_PATH_AT], target, *arguments[_PATH_AT + 1 :])
        return True


@contextmanager
def redacted_access_lines() -> Iterator[None]:
    """Redact the access log while the block runs."""
    logger, lines = logging.getLogger("uvicorn.access"), _WithoutQueryValues()
    logger.addFilter(lines)
    try:
        yield
    finally:
        logger.removeFilter(lines)
