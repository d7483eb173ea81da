"""The log on a Valkey or Redis server, shared by many processes.

It is tested with Valkey 9, standalone and as a cluster. Its commands exist since Redis 6.2, but no
other version has been tested. No key of a stream has a time to live, so a store that evicts only
keys with one loses no stream; one that evicts any key (`maxmemory-policy allkeys-…`) will lose
streams. Acknowledged entries are as durable as the store: with `appendonly yes` and `appendfsync
always` they survive a crash of the store, with the default `everysec` all but those of its last
second. A failover to a replica that lags loses the entries that it had not received. The next
append reveals that, because it does not follow the last entry: the producer sends again what it
still has, or the stream goes on in a new epoch. With `replicas=N`, an entry is acknowledged and
shown when N replicas have it: each batch of commands ends with WAIT (`_primary.Confirmation`), and
the field `safe` of a stream is the last number that readers of other processes may see.

Failover. Each connection checks at its login that it talks to a primary, and to which one
(`_primary.Primary`). When another server answers, all connections are opened again, and nobody
claims streams for one lease. An address of Sentinel is resolved for each connection.

Keys. The keys of one stream share a hash tag, and so do the keys of a request and those of a
conversation. No command or script uses two tags, so a cluster may place each anywhere. The keys of
a stream are authoritative, and only scripts change them. The indexes (leases, ended streams,
conversations) are sorted by time and only say where to look. They may be out of date, and each use
corrects them.

Opening. The request (a key with the id of its stream) and the stream are in different slots, so
opening a stream takes several steps:

1. Get the stream id of the request. If that stream exists, return it.
2. Add the new stream to the index of leases, and create it.
3. Set the stream id of the request to the new one, if the request has none, or still the one that
   does not exist. Otherwise another process was first: return its stream and delete the new one.

Why this is correct. A request only ever names streams that were created before. So if it names a
stream that does not exist, that stream has expired, and the request is free; no other process can
be between two steps, and there is nothing to wait for. Step 3 is one script on one key, so of two
concurrent openers exactly one wins, and the other one finds the complete stream of the winner. Each
step can be repeated: an opener that lost a reply finds its own id, and has won. If a process dies
before step 3, it leaves a stream that no request names; its lease runs out, and it ends and expires
like any other. If it dies after step 3, it leaves a stream without a producer, which ends as lost.
A command that reaches the store late does no harm: the request is taken, the epoch is over, or the
numbers are used.

On a store that is not a cluster, one script does all steps, in one round trip.

Ends. One script ends a stream; afterwards it moves from the index of leases to that of ended
streams. If a process dies in between, another one finishes the job: the lease runs out, a claim
finds that the stream has ended, and moves it. Expiry first deletes the stream, then frees its
request, and then removes it from the index, so an interrupted expiry is continued later.

Start. A log starts only if the store allows everything that it needs: each of its commands,
scripts, and a message that it publishes and receives. Otherwise `start` raises an error that names
what is not allowed.

Time. Leases and ages use the clock of the store. Each process measures the difference to its own
clock at the start and with each renewal, claim and expiry; the error is at most one round trip. A
difference of more than a second at the start is logged as a warning. So the clock of a replica does
not matter, even if it is changed. In a cluster it is the clock of one node, and the clocks of the
nodes should agree within a second. If a lease is nevertheless judged wrongly, a stream may be taken
from a running producer. It then ends with `producer_lost`, and the producer is fenced: the epoch,
not the clock, prevents two writers.

Patience. An operation times out only if the store was silent for `patience` seconds, or answered
for so long with transient errors, such as during a failover. Two times do not count: the time in
which this process did not run (it was suspended, or its event loop was blocked), and the time in
its own queue while the store answers other commands. A connection without activity for 0.4 of the
patience is closed, and its commands are sent again on a new one: each of them can be repeated.

A full store. A store that has reached its `maxmemory` rejects new streams, entries and turns.
Renewing, claiming, cancelling, ending and expiring streams still work, so streams keep their
producers, readers learn of the end, and expiry frees memory.

The password of an address never appears in errors, logs or `repr`.
"""

from ....errors import MissingExtraError

try:
    import redis as _redis  # noqa: F401
except ImportError:
    raise MissingExtraError("the Valkey log", "valkey") from None

from ._log import ValkeyStreamLog

__all__ = ["ValkeyStreamLog"]
