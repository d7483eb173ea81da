"""The scripts of the tasks. Each works on the keys of one task, so on one slot of a cluster."""

from ._scripts import Script

__all__ = ["CREATE_TASK", "DROP_TASK", "PUT_VALUE", "TASKS", "UPDATE_TASK"]

# KEYS task. ARGV pairs of a field and its value. A repeated creation with the same values is one.
CREATE_TASK = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 then
  for i = 1, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return 0 end
  end
  return 1
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
""")

# KEYS task. ARGV the version before, the channel for those that wait for a change, pairs of a field
# and its value. An update that is repeated because its reply was lost finds its own values. The
# first write needs no memory, because a task must be able to end on a full store.
UPDATE_TASK = Script("""
local version = redis.call('HGET', KEYS[1], 'version')
if not version then return 0 end
if version ~= ARGV[1] then
  for i = 3, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return 0 end
  end
  return 1
end
redis.call('HDEL', KEYS[1], '')  -- full store
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('PUBLISH', ARGV[2], '')
return 1
""")

# KEYS index of a principal. The reply is a list of members and entries, in turn.
TASKS = Script("return redis.call('HGETALL', KEYS[1])")

# KEYS values. ARGV name, value, epoch.
PUT_VALUE = Script("""
local epoch = redis.call('HGET', KEYS[1], 'e:' .. ARGV[1])
if epoch and tonumber(epoch) > tonumber(ARGV[3]) then return 'late' end
redis.call('HSET', KEYS[1], 'v:' .. ARGV[1], ARGV[2], 'e:' .. ARGV[1], ARGV[3])
return 'ok'
""")

# KEYS task, values, deliveries. ARGV two times, for tasks that are not open and for all. The reply
# is the time of a task that stays, and otherwise the digest of its principal.
DROP_TASK = Script("""
local m = redis.call('HMGET', KEYS[1], 'changed', 'open', 'index')
if not m[1] then return {'gone', ''} end
local limit = tonumber(ARGV[2])
if m[2] ~= '1' then limit = math.max(limit, tonumber(ARGV[1])) end
if tonumber(m[1]) >= limit then return {'kept', m[1]} end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
return {'gone', m[3]}
""")
