"""Authentication: keys, stored as digests and compared in constant time, and tickets for pages."""

import hmac
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Final

from ..._http._checks import VISIBLE
from ...errors import ArgumentError
from ._problems import Problem


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


# Tickets: credentials of some minutes for browsers. Pure; the caller may give a clock.
#
# A page must not have a key, because everybody who opens the page can read it. So the application
# that knows the user signs a ticket for the page, offline, with a secret that only it and this
# server have:
#
#     ticket1.<exp>.<sub>.<mac>
#
# * `exp` is when the ticket expires, in whole seconds since 1970, without leading zeros.
# * `sub` is the name of the user, UTF-8 in base64url without padding: 1 to 255 bytes, printable.
# * `mac` is the HMAC-SHA256 of everything before its dot, in base64url without padding.
#
# The rules:
#
# * A ticket is accepted if the MAC is that of any of the secrets. There may be several, so that
#   they
#   can be replaced one after the other.
# * A ticket is valid for at most 5 minutes. The clocks of the application and this server may
#   differ
#   by 30 s: a ticket is accepted until 30 s after `exp`, and `exp` may be 5 min 30 s from now.
# * It is checked when a request starts. A response that has started goes on.
# * The principal follows from `sub` alone, so a new ticket resumes the streams of an old one. It is
#   never that of a key, even if key and ticket have the same name: otherwise whoever may sign
#   tickets
#   could read the streams of every key.

TICKET_PREFIX: Final = "ticket1."
MAX_SECONDS: Final = 300
_CLOCK_DIFFERENCE: Final = 30
_MIN_SECRET_BYTES: Final = 32
_MAX_SUBJECT_BYTES: Final = 255
_TICKET = re.compile(
    r"(ticket1\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{2,340}))\.([A-Za-z0-9_-]{43})", re.ASCII
)


def create_ticket(
    secret: str | bytes,
    subject: str,
    seconds: int = MAX_SECONDS,
    *,
    clock: Callable[[], float] = time.time,
) -> str:
    """Return a ticket with which a browser may use the agent as `subject` for some seconds.

    Give tickets only to a user whom the application has authenticated: the ticket says who the user
    is.

    Args:
        secret: one of the `ticket_secrets` of the `AgentApp`.
        subject: the name of the user, who owns the streams.
        seconds: how long the ticket is valid, at most 300.
        clock: a function that returns the time in seconds since 1970, for tests.

    Raises:
        ArgumentError: the secret is too short, the subject is not printable text of 1 to 255 bytes,
            or the ticket would be valid for more than 300 seconds.
    """
    key = _secret(secret, "secret")
    if not _is_subject(subject):
        raise ArgumentError("subject", "must be printable text of 1 to 255 bytes")
    if type(seconds) is not int or not 1 <= seconds <= MAX_SECONDS:
        raise ArgumentError("seconds", f"must be a whole number from 1 to {MAX_SECONDS}", seconds)
    expires = int(clock()) + seconds
    signed = f"{TICKET_PREFIX}{expires}.{_base64(subject.encode())}"
    return f"{signed}.{_mac(key, signed)}"


class Tickets:
    """The secrets of a server."""

    __slots__ = ("_clock", "_secrets")

    def __init__(
        self, secrets: Iterable[str | bytes], clock: Callable[[], float] = time.time
    ) -> None:
        if isinstance(secrets, str | bytes):
            raise TypeError(
                f"ticket_secrets must be a list of secrets, got {type(secrets).__name__}"
            )
        self._secrets = [_secret(secret, "ticket_secrets") for secret in secrets]
        if not self._secrets:
            raise ArgumentError("ticket_secrets", "must not be empty: leave it out for no tickets")
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Tickets: {len(self._secrets)} secrets>"

    def subject(self, ticket: str) -> str:
        """Return the subject of a ticket.

        Raises:
            Problem: 401, the ticket is not valid or has expired.
        """
        match = _TICKET.fullmatch(ticket)
        signed, mac = (match[1], match[4]) if match else ("", "")
        known = False
        for secret in self._secrets:  # no early exit, so timing reveals nothing
            known |= hmac.compare_digest(_mac(secret, signed), mac)
        subject = _subject(match[3]) if match and known else None
        if match is None or subject is None:
            raise _invalid("The ticket is not valid.")
        left = int(match[2]) - self._clock()
        # Only who has a ticket that was signed is told more.
        if left <= -_CLOCK_DIFFERENCE:
            raise _expired()
        if left > MAX_SECONDS + _CLOCK_DIFFERENCE:
            raise _invalid(f"A ticket may be valid for at most {MAX_SECONDS} seconds.")
        return subject


def _secret(secret: object, argument: str) -> bytes:
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or len(key) < _MIN_SECRET_BYTES:
        raise ArgumentError(
            argument,
            f"must have at least {_MIN_SECRET_BYTES} bytes, such as those of secrets.token_hex(32)",
        )
    return key


def _mac(secret: bytes, signed: str) -> str:
    return _base64(hmac.new(secret, signed.encode(), sha256).digest())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _subject(text: str) -> str | None:
    """Decode a subject; None if the encoding is not the one that this module writes."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        subject = data.decode()
    except ValueError:  # base64 and UTF-8
        return None
    return subject if _base64(data) == text and _is_subject(subject) else None


def _is_subject(text: object) -> bool:
    if not isinstance(text, str) or not text.isprintable():
        return False
    # Surrogates are not printable, so the text can be encoded.
    return 0 < len(text.encode()) <= _MAX_SUBJECT_BYTES


def _invalid(detail: str) -> Problem:
    return _refusal("invalid-ticket", detail, detail)


def _expired() -> Problem:
    detail = "The ticket has expired: get a new one from the application that issued it."
    return _refusal("ticket-expired", detail, "The ticket has expired.")


def _refusal(slug: str, detail: str, description: str) -> Problem:
    # RFC 6750, section 3.1.
    header = f'Bearer realm="coreason", error="invalid_token", error_description="{description}"'
    return Problem(401, slug, detail, headers={"WWW-Authenticate": header})
