"""The names of the keys. Keys that belong together share a hash tag, and so a cluster slot."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal
from uuid import UUID

from ....errors import ArgumentError
from .._rules import begin_epoch
from ..base import AgentVersion, EpochStart, StreamMeta
from ._errors import ForeignValue

# The hash of a stream in the store: its fields, and parsing them.

FIELDS = (
    "principal",
    "request",
    "print",
    "epoch",
    "last",
    "opened",
    "outcome",
    "ended",
    "cancel",
    "gone",
    "agent",
    "version",
    "base",
    "starts",
    "epochs",
)


def parse_meta(stream_id: UUID, values: Sequence[bytes | None]) -> StreamMeta | None:
    """Parse the values of `FIELDS`; return None if there are none.

    Raises:
        ForeignValue: the log did not write them.
    """
    if not any(value is not None for value in values):
        return None
    try:
        return _meta(stream_id, values)
    except (ValueError, TypeError):
        raise ForeignValue from None


def _meta(stream_id: UUID, values: Sequence[bytes | None]) -> StreamMeta:
    principal, request, fingerprint, epoch, last, opened, outcome, ended, cancel, gone = values[:10]
    agent, version, base, starts, epochs = values[10:]
    if not (request and epoch and last and opened) or principal is None or fingerprint is None:
        raise ValueError("a field is missing")
    return StreamMeta(
        stream_id=stream_id,
        principal=_string(principal),
        request_id=UUID(request.decode("ascii")),
        fingerprint=_string(fingerprint),
        epoch=int(epoch),
        last_seq=int(last),
        opened_at=float(opened),
        outcome=None if outcome is None else _string(outcome),
        ended_at=None if ended is None else float(ended),
        cancel_requested=cancel is not None,
        body_gone=gone is not None,
        agent=None if agent is None else AgentVersion(_string(agent), _string(version or b"")),
        epochs=parse_epochs(int(epoch), base, starts, epochs),
    )


def parse_epochs(
    epoch: int, base: bytes | None, starts: bytes | None, epochs: bytes | None
) -> tuple[EpochStart, ...]:
    """Parse the later epochs of a stream, as `_EPOCHS` in `_scripts` does.

    An earlier release counted epochs: it adds to `starts` only, and for a plain stream to neither.
    """
    firsts, numbers = (list(map(int, (field or b"").split())) for field in (starts, epochs))
    found: tuple[EpochStart, ...] = ()
    for first, number in zip_longest(firsts, numbers[: len(firsts)], fillvalue=0):
        found = begin_epoch(found, first - 1, number)
    if epoch != (found[-1].epoch if found else 1):
        found = (*found, EpochStart(int(base or b"0") + 1, epoch))
    return found


def _string(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")


# One key for an index would put it on one node of a cluster. A few shards spread the load, and
# reading all of them is still cheap.
SHARDS = 4


class KeyNames:
    """The names of keys with one prefix. A cluster hashes only the tag in braces."""

    __slots__ = (
        "agents",
        "bodies",
        "conversations",
        "due_deliveries",
        "finals",
        "leases",
        "prefix",
        "serving",
        "tasks",
    )

    def __init__(self, prefix: str) -> None:
        if not prefix or not prefix.isascii() or not prefix.isprintable() or set(prefix) & {*"{} "}:
            raise ArgumentError("prefix", "must be visible ASCII characters without braces", prefix)
        self.prefix = prefix
        # Indexes by time. They may be out of date; the keys of a stream are authoritative.
        self.leases = self._shards("leases")  # running streams, by the end of their lease
        self.bodies = self._shards("bodies")  # ended streams with entries, by their end
        self.finals = self._shards("finals")  # ended streams without entries, by their end
        self.conversations = self._shards("conversations")  # by the time of their last turn
        self.tasks = self._shards("tasks")  # by the time of their last change
        self.due_deliveries = self._shards("deliveries")  # by the time at which they are due
        # The digests of agents that have durable streams, by the time of their last claim.
        self.agents = f"{prefix}:{{agents}}"
        self.serving = f"{prefix}:{{serving}}"  # the server that was seen last, and since when

    def meta(self, stream_id: UUID) -> str:
        """The description of a stream: a hash."""
        return f"{self.prefix}:{{{stream_id.hex}}}:meta"

    def entries(self, stream_id: UUID) -> str:
        """The entries of a stream: a Redis stream with the ids 1-0, 2-0, …"""
        return f"{self.prefix}:{{{stream_id.hex}}}:entries"

    def question(self, stream_id: UUID) -> str:
        """The question of a running stream: a string."""
        return f"{self.prefix}:{{{stream_id.hex}}}:question"

    def journal(self, stream_id: UUID) -> str:
        """The journal of a running durable stream: a list."""
        return f"{self.prefix}:{{{stream_id.hex}}}:journal"

    def channel(self, stream_id: UUID) -> str:
        """The channel on which the appends to a stream are announced."""
        return f"{self.prefix}:{{{stream_id.hex}}}:wake"

    def idle_channel(self) -> str:
        """A channel without messages, so that a subscription always has a channel."""
        return f"{self.prefix}:hello"

    def request(self, digest: str) -> str:
        """The stream id of a request: a string."""
        return f"{self.prefix}:{{{digest}}}:request"

    def turns(self, digest: str) -> str:
        """The turns of a conversation by stream, and the time of the last one: a hash."""
        return f"{self.prefix}:{{{digest}}}:turns"

    def order(self, digest: str) -> str:
        """The streams of a conversation in the order of their turns: a list."""
        return f"{self.prefix}:{{{digest}}}:order"

    def task(self, task_id: UUID) -> str:
        """A task: a hash."""
        return f"{self.prefix}:{{{task_id.hex}}}:task"

    def task_values(self, task_id: UUID) -> str:
        """The values beside a task, with their epochs: a hash."""
        return f"{self.prefix}:{{{task_id.hex}}}:values"

    def deliveries(self, task_id: UUID) -> str:
        """The deliveries of a task: a hash."""
        return f"{self.prefix}:{{{task_id.hex}}}:deliveries"

    def delivery_index(self, task_id: UUID) -> str:
        """The shard of the index of deliveries by time: a sorted set."""
        return self.due_deliveries[shard(task_id.hex)]

    def of_principal(self, principal: str, what: Literal["tasks", "reservations", "bucket"]) -> str:
        """A key of a principal, given by its digest.

        `tasks` is the index of its tasks: a hash. `reservations` is what each process has reserved
        of its limits: a string. `bucket` is the time at which it may again send all requests of a
        minute: a string.
        """
        return f"{self.prefix}:{{{principal}}}:{what}"

    def task_index(self, task_id: UUID) -> str:
        """The shard of the index of tasks by time: a sorted set."""
        return self.tasks[shard(task_id.hex)]

    def lease_index(self, stream_id: UUID, agent: str = "") -> str:
        """The shard of the index of leases for a stream: a sorted set.

        `agent` is the digest of the agent of a durable stream.
        """
        leases = self.durable_leases(agent) if agent else self.leases
        return leases[shard(stream_id.hex)]

    def durable_leases(self, agent: str) -> tuple[str, ...]:
        """The index of the running durable streams of an agent, which earlier releases ignore."""
        return self._shards(f"durable-{agent}")

    def probes(self, probe: UUID) -> list[str]:
        """The keys for a check of what the store allows; they have no other use."""
        return [f"{self.prefix}:{{{probe.hex}}}:check-{number}" for number in range(5)]

    def _shards(self, name: str) -> tuple[str, ...]:
        return tuple(f"{self.prefix}:{{{name}-{number}}}" for number in range(SHARDS))


def shard(name: str) -> int:
    """Return the number of the index shard for the hex name of a stream or conversation."""
    return int(name[-2:], 16) % SHARDS


def ended_member(stream_id: UUID, request: str) -> str:
    """Return the index member for an ended stream: its id and the digest of its request."""
    return stream_id.hex + request


def split_member(member: bytes) -> tuple[UUID, str]:
    """Parse the result of `ended_member`.

    Raises:
        ForeignValue: it is not valid.
    """
    return parse_stream_id(member[:32]), parse_name(member[32:])


def parse_stream_id(name: bytes) -> UUID:
    """Parse the hex name of a stream.

    Raises:
        ForeignValue: it is not valid.
    """
    try:
        return UUID(parse_name(name))
    except ValueError:
        raise ForeignValue from None


def parse_name(name: bytes) -> str:
    """Parse the hex name of a request or a conversation.

    Raises:
        ForeignValue: it has other characters.
    """
    if not name.isalnum():
        raise ForeignValue
    return name.decode("ascii")
