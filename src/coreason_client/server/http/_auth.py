"""Who is asking: keys are kept as digests and compared in constant time."""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256

from ...errors import ArgumentError
from ._problems import Problem

__all__ = ["ANYBODY", "Keys", "full_principal"]

ANYBODY = "anybody"
"""The principal of everyone when there are no keys."""


class Keys:
    """The keys that open this server, and to whom each belongs."""

    __slots__ = ("_known",)

    def __init__(self, keys: Iterable[str] | Mapping[str, str], argument: str = "api_keys") -> None:
        if isinstance(keys, str):
            raise TypeError("api_keys is a list of keys or a mapping from keys to principals")
        named = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
        if not named:
            raise ArgumentError(
                argument, "must not be empty, or nobody could ask: leave it out to let all in"
            )
        # A key without a name is its own principal, under a name that does not give it away.
        self._known = [
            (_digest(_checked(key, argument)), name or f"key-{_digest(key).hex()[:16]}")
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


def full_principal(agent_id: str, name: str) -> str:
    """Return the owner of streams and conversations: a principal of one agent.

    Agents that share a log do not share streams or conversations. Both parts are encoded, so that
    no two pairs give the same owner: agent `a/b` with principal `c` and agent `a` with principal
    `b/c` are two. Parts without `/` and `%` stay as they are.
    """
    return f"{_encoded(agent_id)}/{_encoded(name)}"


def _encoded(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _checked(key: str, argument: str) -> str:
    if not key or key != key.strip() or not (key.isascii() and key.isprintable()):
        raise ArgumentError(
            argument,
            "must be printable ASCII characters without spaces around them: others cannot be sent "
            "in a header",
        )
    return key


def _digest(key: str) -> bytes:
    # A token that a client sent may hold anything; it is only compared.
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
