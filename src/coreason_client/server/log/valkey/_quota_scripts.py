"""The scripts that count the limits of principals; the keys are those of one principal.

Both keys have a time to live. A store that evicts them loses nothing for long: each process repeats
its reservations, and a lost bucket is a full one. Times that are too far ahead were written before
the clock was set back: they must not refuse requests until the clock has reached them again.
"""

from ._scripts import Script

__all__ = ["GIVE_TOKEN", "RESERVE", "TAKE_TOKEN"]

# KEYS reservations, a string with a line for each owner: its name, its units of streams and of
# readers, and the time until which they are reserved. It is no hash, because a hash would need
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
# exactly. ARGV now, the time in which one token is added, and the time in which all are.
_BUCKET = """
local now, interval, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
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
