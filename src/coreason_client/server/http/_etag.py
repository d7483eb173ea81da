"""Entity tags: whether a client has a body already (RFC 9110, section 13.1.2). Pure."""

from hashlib import sha256

__all__ = ["etag_of", "is_known"]


def etag_of(body: bytes) -> str:
    """Return the entity tag of a body."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Return True if `If-None-Match` has this tag."""
    if if_none_match is None:
        return False
    names = {name.strip().removeprefix("W/") for name in if_none_match.split(",")}
    return bool(names & {etag, "*"})
