"""Authentication by keys, which are stored as digests and compared in constant time."""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256

from ..._http._checks import VISIBLE
from ...errors import ArgumentError
from ._problems import Problem
from ._tickets import TICKET_PREFIX

__all__ = [
    "ANONYMOUS",
    "Keys",
    "bearer_token",
    "full_principal",
    "ticket_principal",
    "unauthorized",
]

ANONYMOUS = "anybody"
"""The principal of every request if the server has no keys. Logs store this value."""


class Keys:
    """The keys of a server and the principal of each, together with those of `also`."""

    __slots__ = ("_known",)

    def __init__(
        self,
        keys: Iterable[str] | Mapping[str, str],
        argument: str = "api_keys",
        *,
        also: "Keys | None" = None,
    ) -> None:
        if isinstance(keys, str):
            raise TypeError(
                "api_keys must be a list of keys or a mapping from keys to principals, got str"
            )
        named = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
        if not named:
            raise ArgumentError(
                argument, "must not be empty: leave it out to accept requests without a key"
            )
        # A key without a name gets a name from its digest, which does not reveal the key.
        known: dict[bytes, str] = {} if also is None else dict(also._known)
        known |= {
            _digest(_checked(key, argument)): name or f"key-{_digest(key).hex()[:16]}"
            for key, name in named.items()
        }
        self._known: tuple[tuple[bytes, str], ...] = tuple(known.items())

    def __repr__(self) -> str:
        return f"<Keys: {len(self._known)}>"

    def __len__(self) -> int:
        return len(self._known)

    def replace(self, keys: "Keys") -> None:
        """Accept other keys from now on; in one step, so a request sees the old or the new ones."""
        self._known = keys._known

    def principal(self, authorization: str | None) -> str:
        """Return the principal of an `Authorization` header.

        Raises:
            Problem: 401, both for a missing and for a wrong key.
        """
        token = bearer_token(authorization)
        digest = _digest(token or "")
        found = None
        for known, principal in self._known:  # no early exit, so timing reveals nothing
            if hmac.compare_digest(known, digest):
                found = principal
        if found is None or token is None:
            raise unauthorized("key")
        return found


def bearer_token(authorization: str | None) -> str | None:
    """Return the token of an `Authorization` header, None if it has another scheme."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def unauthorized(credential: str) -> Problem:
    """Return the refusal of a request without a known credential."""
    return Problem(
        401,
        "unauthorized",
        f"Send a known {credential} as `Authorization: Bearer <{credential}>`.",
        headers={"WWW-Authenticate": 'Bearer realm="coreason"'},
    )


def full_principal(agent_id: str, name: str) -> str:
    """Return the owner of streams and conversations: a principal of one agent.

    Agents that share a log do not share streams or conversations. Both parts are encoded, so two
    pairs never give the same owner: agent `a/b` with principal `c` differs from agent `a` with
    principal `b/c`. Parts without `/` and `%` do not change.
    """
    return f"{_encoded(agent_id)}/{_encoded(name)}"


def ticket_principal(agent_id: str, subject: str) -> str:
    """Return the owner of what the holder of a ticket begins.

    It has one part more than that of a key, so the two never collide: whoever may issue tickets
    cannot name the principal of a key.
    """
    return f"{_encoded(agent_id)}/tickets/{_encoded(subject)}"


def _encoded(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _checked(key: object, argument: str) -> str:
    if not isinstance(key, str) or not VISIBLE.fullmatch(key):
        raise ArgumentError(
            argument,
            "must be visible ASCII characters without spaces: clients cannot send any other key",
        )
    if key.startswith(TICKET_PREFIX):
        raise ArgumentError(argument, f"must not begin with {TICKET_PREFIX}, as tickets do")
    return key


def _digest(key: str) -> bytes:
    # A client may send any bytes as a token; they are only compared.
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
