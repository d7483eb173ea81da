"""The log on a Valkey or Redis server: many processes, one log.

Needs Redis 6.2 or later, or any Valkey, alone or as a cluster. Nothing has a time to live, so a
store that evicts by it loses nothing; one that evicts anything (`maxmemory-policy allkeys-…`) will
lose streams. Acknowledged entries survive what the store survives: with `appendonly yes` and
`appendfsync always` a crash of the store, with the default `everysec` all but its last second. A
failover to a replica that lags loses what had not reached it; the numbers tell, so that the next
append is refused and the stream ends with an error.

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

Ends. A stream ends in one script, and moves from the index of leases to that of ended streams
afterwards. Whoever dies between finds a follower: the lease runs out, a claim finds the stream
ended, and moves it. A stream is forgotten first and its request freed second, and only then does
it leave the index, so what is left of a forgetting that broke off is found again.

Time. Leases and ages are measured by the clocks of the replicas, not by that of the store. A clock
that is ahead sees leases run out early. With a lease of 10 s, renewed every 3 s, live streams are
safe while the clocks differ by less than 7 s; keep them within one. Beyond, a stream may be taken
from a producer that lives. It then ends with `producer_lost`, and the producer is fenced: the
epoch, not the clock, keeps two writers apart.

An address never shows its password: not in errors, not in logs, not in `repr`.
"""

from ....errors import MissingExtraError

try:
    import redis as _redis  # noqa: F401
except ImportError:
    raise MissingExtraError("the Valkey log", "valkey") from None

from ._log import ValkeyStreamLog

__all__ = ["ValkeyStreamLog"]
