"""What can be sent, and what can be shown, of addresses and headers. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

__all__ = ["SHORTEST_SECRET", "VISIBLE", "check_headers", "shown"]

SHORTEST_SECRET = 6
"""A key shorter than this is a word like any other, as those of local services are: to hide it
would hide half of what is said, and protect nothing."""

VISIBLE = re.compile(r"[!-~]+", re.ASCII)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Refuse headers that cannot be sent; values may be secrets, so they are not repeated.

    Raises:
        ValueError: a name or a value is not valid.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is not a header name")
        if not isinstance(value, str):
            raise ValueError(f"the value of header {name} must be text, not {type(value).__name__}")
        if any(c in value for c in "\r\n\0") or value != value.strip():
            raise ValueError(
                f"the value of header {name} must be text in one line, without blanks around it"
            )


def shown(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
