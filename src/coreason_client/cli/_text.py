"""Text of arguments and of lists: encodable, short, and with readable times. Pure."""

from datetime import datetime

__all__ = ["as_local_time", "encodable", "shortened"]

_MAX_WORDS = 200  # characters


def encodable(text: str) -> str:
    """Return an argument that JSON can encode, also if its bytes were not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def shortened(text: str) -> str:
    """Return the beginning of a text as one line."""
    found = " ".join(text[:10_000].split())
    return found if len(found) <= _MAX_WORDS else f"{found[: _MAX_WORDS - 1]}…"


def as_local_time(timestamp: str) -> str:
    """Return a timestamp in local time, to the second; unchanged if it cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return timestamp
