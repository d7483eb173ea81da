"""The names of the keys: what belongs together shares a hash tag, and so a slot of a cluster."""

from hashlib import sha256
from uuid import UUID

from ....errors import ArgumentError
from ._errors import ForeignValue

__all__ = [
    "SHARDS",
    "KeyNames",
    "digest",
    "ended_member",
    "parse_name",
    "parse_stream_id",
    "shard",
    "split_member",
]

# An index over all streams would be one key on one node of a cluster; a few spread the load, and
# few enough that looking into all of them costs nothing.
SHARDS = 4
_DIGEST = 40  # hex digits of a SHA-256: no two requests share them


class KeyNames:
    """Names of keys under one prefix. A tag in braces is all that a cluster hashes of a key."""

    __slots__ = ("bodies", "conversations", "finals", "leases", "prefix")

    def __init__(self, prefix: str) -> None:
        if not prefix or not prefix.isascii() or not prefix.isprintable() or set(prefix) & {*"{} "}:
            raise ArgumentError("prefix", "must be visible ASCII characters without braces", prefix)
        self.prefix = prefix
        # Indexes by time; each only says where to look, and may lag behind the streams themselves.
        self.leases = self._shards("leases")  # running streams, by the end of their lease
        self.bodies = self._shards("bodies")  # ended streams with entries, by their end
        self.finals = self._shards("finals")  # ended streams without entries, by their end
        self.conversations = self._shards("conversations")  # by the moment of the last turn

    def meta(self, stream_id: UUID) -> str:
        """What is known of a stream: a hash."""
        return f"{self.prefix}:{{{stream_id.hex}}}:meta"

    def entries(self, stream_id: UUID) -> str:
        """The entries of a stream: a Redis stream with the ids 1-0, 2-0, …"""
        return f"{self.prefix}:{{{stream_id.hex}}}:entries"

    def question(self, stream_id: UUID) -> str:
        """What a running stream was opened with: a string."""
        return f"{self.prefix}:{{{stream_id.hex}}}:question"

    def channel(self, stream_id: UUID) -> str:
        """Where an append to a stream is announced."""
        return f"{self.prefix}:{{{stream_id.hex}}}:wake"

    def hello(self) -> str:
        """A channel on which nothing is ever said, so that a subscription is never empty."""
        return f"{self.prefix}:hello"

    def request(self, digest: str) -> str:
        """The stream of a request: a string."""
        return f"{self.prefix}:{{{digest}}}:request"

    def turns(self, digest: str) -> str:
        """The turns of a conversation by their streams, and when it was touched: a hash."""
        return f"{self.prefix}:{{{digest}}}:turns"

    def order(self, digest: str) -> str:
        """The streams of a conversation in the order of their turns: a list."""
        return f"{self.prefix}:{{{digest}}}:order"

    def lease_index(self, stream_id: UUID) -> str:
        """The shard of the index of leases that holds a stream: a sorted set."""
        return self.leases[shard(stream_id.hex)]

    def probes(self, probe: UUID) -> list[str]:
        """Return keys for a check of what the store allows; nothing else uses them."""
        return [f"{self.prefix}:{{{probe.hex}}}:check-{number}" for number in range(5)]

    def _shards(self, name: str) -> tuple[str, ...]:
        return tuple(f"{self.prefix}:{{{name}-{number}}}" for number in range(SHARDS))


def digest(principal: str, rest: bytes) -> str:
    """Name a request or a conversation, whatever characters and however many it is made of."""
    # A principal of unknown length comes last, so that no two pairs give the same bytes.
    owner = principal.encode("utf-8", "surrogatepass")
    return sha256(b"%d:%b%b" % (len(rest), rest, owner)).hexdigest()[:_DIGEST]


def shard(name: str) -> int:
    """Return the shard of an index that holds a stream or a conversation, by its hex name."""
    return int(name[-2:], 16) % SHARDS


def ended_member(stream_id: UUID, request: str) -> str:
    """Name an ended stream in an index, together with the request that it keeps taken."""
    return stream_id.hex + request


def split_member(member: bytes) -> tuple[UUID, str]:
    """Read what `ended_member` wrote.

    Raises:
        ForeignValue: it is something else.
    """
    return parse_stream_id(member[:32]), parse_name(member[32:])


def parse_stream_id(name: bytes) -> UUID:
    """Read the hex name of a stream.

    Raises:
        ForeignValue: it is something else.
    """
    try:
        return UUID(parse_name(name))
    except ValueError:
        raise ForeignValue from None


def parse_name(name: bytes) -> str:
    """Read the hex name of a request or a conversation.

    Raises:
        ForeignValue: it has other characters.
    """
    if not name.isalnum():
        raise ForeignValue
    return name.decode("ascii")
