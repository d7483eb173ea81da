"""The limits of principals on the store, and their scripts."""

from collections.abc import Callable
from typing import Final

from ...._valkey_address import Script
from .._rules import digest
from ..quotas import QuotaStore, Reservation
from ._keys import KeyNames
from ._session import Session

# The scripts that count the limits of principals; the keys are those of one principal.
#
# Both keys have a time to live. A store that evicts them loses nothing for long: each process
# repeats its reservations, and a lost bucket is a full one. Times that are too far ahead were
# written before the clock was set back: they must not refuse requests until the clock has reached
# them again.

# KEYS reservations, a string with a line for each owner: its name, its units of streams and of
# readers, and the time until which they are reserved. It is not a hash, because a hash would need
# another command for its time to live. ARGV owner, now, end of the lease, its milliseconds; then
# for streams and for readers: held, wanted, limit. The reply is what was granted of each.
RESERVE = Script("""
local now, others, lines = tonumber(ARGV[2]), {0, 0}, {}
local latest = now + 2 * (tonumber(ARGV[3]) - now)  -- twice: the clocks of processes differ a bit
local all = redis.call('GET', KEYS[1]) or ''
for owner, streams, readers, till in string.gmatch(all, '(%S+) (%d+) (%d+) (%S+)') do
  local ends = tonumber(till) or 0
  if owner ~= ARGV[1] and ends >= now and ends <= latest then
    others[1], others[2] = others[1] + tonumber(streams), others[2] + tonumber(readers)
    lines[#lines + 1] = table.concat({owner, streams, readers, till}, ' ')
  end
end
local held, granted = {}, {}
for kind = 1, 2 do
  local at = 2 + 3 * kind
  held[kind] = tonumber(ARGV[at])
  local free = tonumber(ARGV[at + 2]) - others[kind] - held[kind]
  granted[kind] = math.max(0, math.min(tonumber(ARGV[at + 1]), free))
end
local streams, readers = held[1] + granted[1], held[2] + granted[2]
if streams + readers > 0 then
  lines[#lines + 1] = string.format('%s %d %d %s', ARGV[1], streams, readers, ARGV[3])
end
redis.call('UNLINK', KEYS[1])  -- full store
if lines[1] then redis.call('SET', KEYS[1], table.concat(lines, '\\n'), 'PX', ARGV[4]) end
return granted
""")

# The bucket is the time at which it will be full, in microseconds, which a number of Lua holds
# exactly. ARGV now, the time in which one token is added, and the time in which all are. Without
# now, the clock of the store counts: estimates of it differ, and a process whose estimate is behind
# would not get the last token of a burst.
_BUCKET = """
local now, interval, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local full = math.min(tonumber(redis.call('GET', KEYS[1]) or '') or now, now + window)
redis.call('UNLINK', KEYS[1])  -- full store
local function store(full)
  if full > now then
    local ms = math.ceil((full - now) / 1000)
    redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', ms))
  end
end
"""

# The reply is 0, or the time until there is a token.
TAKE_TOKEN = Script(
    _BUCKET
    + """
local taken = math.max(full, now) + interval
if taken - now > window then
  store(full)
  return taken - now - window
end
store(taken)
return 0
"""
)

GIVE_TOKEN = Script(
    _BUCKET
    + """
store(full - interval)
return 0
"""
)


_LEASES: Final = 3  # of a stream, for which a reservation holds
_MINUTE: Final = 60_000_000  # microseconds
_NANOSECONDS: Final = 1_000  # in a microsecond


class ValkeyQuotas(QuotaStore):
    """Limits that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], keys: KeyNames, lease: float) -> None:
        self.lease = _LEASES * lease
        self._session = session
        self._keys = keys

    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        """Replace what an owner has reserved; return how many of the wanted units were granted."""
        session = self._session()
        now = session.now()
        granted: list[int] = await session.store.script(
            RESERVE,
            [self._keys.of_principal(digest(principal, b""), "reservations")],
            *(owner, repr(now), repr(now + self.lease), int(self.lease * 1000)),
            *streams,
            *readers,
        )
        return granted[0], granted[1]

    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""
        wait: int = await self._change_bucket(TAKE_TOKEN, principal, per_minute)
        return wait * _NANOSECONDS

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""
        await self._change_bucket(GIVE_TOKEN, principal, per_minute)

    async def _change_bucket(self, script: Script, principal: str, per_minute: int) -> int:
        session = self._session()
        interval = max(1, _MINUTE // per_minute)
        key = self._keys.of_principal(digest(principal, b""), "bucket")
        given = session.given_now()
        now = "" if given is None else int(given * 1e6)
        times = (now, interval, interval * per_minute)
        wait: int = await session.store.script(script, [key], *times)
        return wait
