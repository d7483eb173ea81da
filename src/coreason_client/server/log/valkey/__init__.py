"""The log on a Valkey or Redis server: many processes, one log.

Run on Valkey 9, alone and as a cluster. The commands that it uses exist since Redis 6.2, but no
other version has been run. Nothing has a time to live, so a store that evicts by it loses nothing;
one that evicts anything (`maxmemory-policy allkeys-…`) will lose streams. Acknowledged entries
survive what the store survives: with `appendonly yes` and `appendfsync always` a crash of the
store, with the default `everysec` all but its last second. A failover to a replica that lags loses
what had not reached it; the numbers show it, so that the next append is refused and the stream ends
with an error.

Keys. What belongs to one stream shares a hash tag, and so do the keys of a request and those of a
conversation. No command and no script touches two tags, so a cluster can hold each where it likes.
The truth about a stream is in its own keys, and is changed only by scripts. The indexes (leases,
ended streams, conversations) are sorted by time and say only where to look; they may lag behind
the truth, and every look puts them right.

Opening. The request (a key with the id of its stream) and the stream are in different slots, so
an opening takes steps:

1. Ask the request for its stream. If it names one that exists, that is the answer.
2. Put the new stream into the index of leases, and make it.
3. Let the request name it, if the request names nothing, or still what was found not to exist.
   Otherwise somebody else was first: their stream is the answer, and the new one is taken back.

Why that is right. A request names only streams that were made before. So one that it names and
that does not exist has been forgotten after its time, and its request is free: nobody is between
two steps there, and nobody need be waited for. Step 3 is one script on one key, so of two openers
at once exactly one is told that it won, and a loser finds the winner's stream complete. Each step
can be repeated: an opener that lost an answer finds its own id, and has won. Whoever dies before
step 3 leaves a stream that no request names and nobody can know; its lease runs out, and it ends
and expires like any other. Whoever dies after it leaves a stream without a producer, which ends as
lost. Whatever a replica still had on its way to the store is harmless when it arrives late: it
finds the request taken, the epoch over or the numbers used.

On a store that is no cluster all steps are one script, and one round trip.

Ends. A stream ends in one script, and moves from the index of leases to that of ended streams
afterwards. If a process dies in between, another one finishes the job: the lease runs out, a claim
finds the stream ended, and moves it. A stream is forgotten first and its request freed second, and
only then does it leave the index, so what is left of a forgetting that broke off is found again.

Start. A log starts only on a store that lets it do what it will need: every command that it uses,
scripts, and a message that it publishes and receives. Otherwise `start` says in one sentence what
is not allowed.

Time. Leases and ages follow the clock of the store. Each process measures how far its own clock is
from it, at the start and again with every renewal, claim and expiry, and is right within one round
trip; a difference of more than a second at the start is one warning. So it does not matter what
time it is on a replica, or whether somebody sets its clock. In a cluster it is the clock of one
node, and the clocks of the nodes should agree within a second. If a lease is judged wrongly all the
same, a stream may be taken from a producer that lives. It then ends with `producer_lost`, and the
producer is fenced: the epoch, not the clock, keeps two writers apart.

Patience. An operation fails for lack of time only when the store was silent for `patience` seconds,
or refused for so long with errors that pass, such as a failover. Time in which this process did not
run (it was frozen, or something blocked its event loop) and time in its own queue behind others,
while the store answers, are not counted. A connection on which nothing moves for 0.4 of the
patience is given up, and its commands are sent again on a new one: each can be repeated.

A full store. One that has reached its `maxmemory` refuses new streams, entries and turns. What
keeps a lease, takes over, cancels, ends and forgets a stream works on, so that streams keep their
producers, readers learn of the end, and expiry makes room again.

An address never shows its password: not in errors, not in logs, not in `repr`.
"""

from ....errors import MissingExtraError

try:
    import redis as _redis  # noqa: F401
except ImportError:
    raise MissingExtraError("the Valkey log", "valkey") from None

from ._log import ValkeyStreamLog

__all__ = ["ValkeyStreamLog"]
