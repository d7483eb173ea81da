"""Who is asking: keys are kept as digests and compared in constant time."""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256

from ._problems import Problem

__all__ = ["ANYBODY", "Keys"]

ANYBODY = "anybody"
"""The principal of everyone when there are no keys."""


class Keys:
    """The keys that open this server, and to whom each belongs."""

    __slots__ = ("_known",)

    def __init__(self, keys: Iterable[str] | Mapping[str, str]) -> None:
        if isinstance(keys, str):
            raise TypeError("api_keys is a list of keys or a mapping from keys to principals")
        named = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
        if not named:
            raise ValueError("api_keys is empty, so nobody could ask: leave it out to let all in")
        # A key without a name is its own principal, under a name that does not give it away.
        self._known = [
            (_digest(_checked(key)), name or f"key-{_digest(key).hex()[:16]}")
            for key, name in named.items()
        ]

    def __repr__(self) -> str:
        return f"<Keys: {len(self._known)}>"

    def principal(self, authorization: str | None) -> str:
        """Return whose key it is.

        Raises:
            Problem: 401, for a missing and for a wrong key alike.
        """
        scheme, _, token = (authorization or "").partition(" ")
        digest = _digest(token.strip())
        found = None
        for known, principal in self._known:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, digest):
                found = principal
        if found is None or scheme.lower() != "bearer":
            raise Problem(
                401,
                "unauthorized",
                "Send a known key as `Authorization: Bearer <key>`.",
                headers={"WWW-Authenticate": 'Bearer realm="coreason"'},
            )
        return found


def _checked(key: str) -> str:
    if not key or key != key.strip() or not key.isprintable():
        raise ValueError("an API key is printable text without spaces around it")
    return key


def _digest(key: str) -> bytes:
    # Header values arrive as Latin-1 text; a key beyond it is compared as its UTF-8 bytes would.
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
