"""The scripts of the tasks. Each works on the keys of one task, so on one slot of a cluster.

`BEGIN` is the exception, and is not used on a cluster. Scripts of streams are used as functions: a
stream and its task change in one step if both are in one slot, as those of a first turn are.
"""

from ...._valkey_address import Script
from ._scripts import APPEND, CREATE, OPEN


def _function(name: str, script: Script) -> str:
    """Return a script as a function of its keys and arguments."""
    return f"local function {name}(KEYS, ARGV)\n{script.source}\nend\n"


# Split the arguments: the first is the number of those that follow for the task.
_SPLIT = """
local mine, rest = {}, {}
for i = 2, #ARGV do
  if i <= tonumber(ARGV[1]) + 1 then mine[#mine + 1] = ARGV[i] else rest[#rest + 1] = ARGV[i] end
end
"""

# Store what belongs to a new stream of a task. `mine` has the id of the task, the count of what is
# stored in its record, fields and values in turn, and the rest for its values.
_STORE = """
local function store(meta, task, values)
  redis.call('HSET', meta, 'task', mine[1])
  local count = tonumber(mine[2])
  if count == 0 or redis.call('EXISTS', task) == 1 then return end
  redis.call('HSET', task, unpack(mine, 3, 2 + count))
  if #mine > 2 + count then redis.call('HSET', values, unpack(mine, 3 + count)) end
end
"""

# Open a stream of a task, on a store that is not a cluster. KEYS those of OPEN, task, values. ARGV
# the count of those for the task, the stream that is replaced, those of `store`, those of OPEN.
BEGIN = Script(
    _function("open", OPEN)
    + _SPLIT
    + """
local replaced = table.remove(mine, 1)
"""
    + _STORE
    + """
if replaced ~= '' and redis.call('GET', KEYS[1]) == replaced then redis.call('DEL', KEYS[1]) end
local reply = open({KEYS[1], KEYS[2], KEYS[3], KEYS[4]}, rest)
if reply == '' then store(KEYS[2], KEYS[5], KEYS[6]) end
return reply
"""
)

# Create a stream of a task. KEYS those of CREATE, task, values. ARGV the count of those for the
# task, those of `store`, those of CREATE.
BEGIN_IN_SLOT = Script(
    _function("create", CREATE)
    + _SPLIT
    + _STORE
    + """
create({KEYS[1], KEYS[2]}, rest)
store(KEYS[1], KEYS[3], KEYS[4])
return 'ok'
"""
)

# KEYS meta, question. ARGV epoch, question.
START = Script("""
local m = redis.call('HMGET', KEYS[1], 'epoch', 'ended')
if not m[1] then return 'unknown' end
if m[1] ~= ARGV[1] or m[2] then return 'fenced' end
redis.call('SET', KEYS[2], ARGV[2])
return 'ok'
""")

# Change a task. `mine` has the revision and the version before, the new revision, the size of the
# list of revisions, the channel for those that wait for a change, the count of what is stored in
# its record, fields and values in turn, and the rest for its values. A change that is repeated,
# because its reply was lost, finds its own revision.
_CHANGE = """
local function state_of(task)
  local m = redis.call('HMGET', task, 'version', 'revisions')
  if not m[1] then return 'late' end
  local known = m[2] or ''
  if string.find(' ' .. known .. ' ', ' ' .. mine[3] .. ' ', 1, true) then return 'applied' end
  local current = string.match(known, '^%S+') or ''
  if m[1] ~= mine[2] or current ~= mine[1] then return 'late' end
  return 'fits', string.sub(mine[3] .. ' ' .. known, 1, tonumber(mine[4]))
end
local function change(task, values)
  local state, revisions = state_of(task)
  if state ~= 'fits' then return state end
  redis.call('HDEL', task, '')  -- full store
  local count = tonumber(mine[6])
  redis.call('HSET', task, 'revisions', revisions, unpack(mine, 7, 6 + count))
  if #mine > 6 + count then redis.call('HSET', values, unpack(mine, 7 + count)) end
  redis.call('PUBLISH', mine[5], '')
  return state
end
"""

# KEYS task, values. ARGV the count of those of `change`, and them.
UPDATE_TASK = Script(
    _SPLIT
    + _CHANGE
    + """
return change(KEYS[1], KEYS[2])
"""
)

# End a stream, and change its task. KEYS those of APPEND, task, values. ARGV the count of those of
# `change`, and them, and those of APPEND.
END = Script(
    _function("append", APPEND)
    + _SPLIT
    + _CHANGE
    + """
if state_of(KEYS[5]) == 'late' then return 'late' end
local reply = append({KEYS[1], KEYS[2], KEYS[3], KEYS[4]}, rest)
local word = string.match(reply.ok, '^%a+')
if word == 'ok' or word == 'held' then change(KEYS[5], KEYS[6]) end
return reply
"""
)

# KEYS index of a principal. The reply is a list of members and entries, in turn.
TASKS = Script("return redis.call('HGETALL', KEYS[1])")

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
