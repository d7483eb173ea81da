"""The Lua scripts that run in the store. Each uses the keys of one stream, request or conversation.

`OPEN` is the exception, and is not used on a cluster.

A script is atomic, and the store persists and replicates its effects as a whole. Times are passed
as arguments, and numbers are stored as the text that was passed, so nothing is rounded.

A store that has reached its `maxmemory` rejects commands that may need memory. Inside a script it
does so only for the first write: no version of Redis or Valkey stops a script in the middle. So the
scripts that must work on a full store begin with a write that needs no memory, marked "full store";
for this purpose some of them delete a field or member that never exists. These are the scripts that
renew, claim, cancel, end and expire a stream. The scripts that add most of the data are rejected.
"""

from ...._valkey_address import Script

# KEYS meta, question. ARGV principal, request_id, fingerprint, now, end of the lease, digest of the
# request, question and, of a durable stream, the digest, the id and the version of its agent.
CREATE = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  if ARGV[7] ~= '' then redis.call('SET', KEYS[2], ARGV[7]) end
  redis.call('HSET', KEYS[1], 'epoch', '1', 'last', '0', 'principal', ARGV[1], 'request', ARGV[2],
    'print', ARGV[3], 'opened', ARGV[4], 'lease', ARGV[5], 'index', ARGV[6])
  if ARGV[8] then
    redis.call('HSET', KEYS[1], 'durable', ARGV[8], 'agent', ARGV[9], 'version', ARGV[10])
  end
end
return 'ok'
""")

# All steps of an opening in one script, for a store that is not a cluster. KEYS request, meta,
# question, index of leases. ARGV stream, unique name of this opening, prefix, and then those of
# CREATE. The reply is empty if the stream was created, otherwise the stream that the request names.
# With the unique name a repeated opening gets the same reply.
OPEN = Script("""
local holder = redis.call('GET', KEYS[1])
if holder then
  if holder == ARGV[1] and redis.call('HGET', KEYS[2], 'opening') == ARGV[2] then return '' end
  if #holder ~= 32 or string.find(holder, '%X') then return holder end
  if redis.call('EXISTS', ARGV[3] .. ':{' .. holder .. '}:meta') == 1 then return holder end
end
redis.call('ZADD', KEYS[4], 'GT', ARGV[8], ARGV[1])
if ARGV[10] ~= '' then redis.call('SET', KEYS[3], ARGV[10]) end
redis.call('HSET', KEYS[2], 'epoch', '1', 'last', '0', 'principal', ARGV[4], 'request', ARGV[5],
  'print', ARGV[6], 'opened', ARGV[7], 'lease', ARGV[8], 'index', ARGV[9], 'opening', ARGV[2])
if ARGV[11] then
  redis.call('HSET', KEYS[2], 'durable', ARGV[11], 'agent', ARGV[12], 'version', ARGV[13])
end
redis.call('SET', KEYS[1], ARGV[1])
return ''
""")

# KEYS request. ARGV new stream, the stream that the request named and that does not exist.
TAKE_REQUEST = Script("""
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return holder end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
""")

# KEYS request. ARGV the stream that was deleted.
FREE_REQUEST = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 'ok'
""")

# The append rule. ARGV epoch, first number and others; `start` is the index of the first entry.
# 'base' is the last number when the current epoch began.
_CHECK_APPEND = """
local m = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'cancel', 'ended', 'index', 'base',
  'durable', 'safe')
if not m[1] then return {ok = 'unknown'} end
local first, last = tonumber(ARGV[2]), tonumber(m[2])
local final = first + #ARGV - start
local held = first > tonumber(m[6] or '0') and first <= final and final <= last
if m[1] ~= ARGV[1] or (m[4] and not held) then return {ok = 'fenced'} end
if not held and first ~= last + 1 then return {ok = 'gap ' .. m[2]} end
-- A repeated append has no effect, but it writes: replicas that confirm it have the first one too.
local function write_again()
  redis.call('HDEL', KEYS[1], '')  -- full store
  redis.call('HSET', KEYS[1], 'last', redis.call('HGET', KEYS[1], 'last'))
end
"""

# Show new entries to the readers of all processes, up to the number `final`. If replicas must have
# them first, `safe` is the last number that they have: readers get entries up to it, and SHOW
# follows. The field exists only in streams of processes that wait for replicas.
_SHOW_ENTRIES = """
if safe ~= '' then
  redis.call('HSET', KEYS[1], 'safe', safe)
else
  if m[8] then redis.call('HSET', KEYS[1], 'safe', string.format('%d', final)) end
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'wake', '')
end
"""

# KEYS meta. ARGV epoch or nothing, number or nothing for the last one: replicas have the entries up
# to it.
SHOW = Script("""
local m = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'safe')
local number = ARGV[2] ~= '' and ARGV[2] or m[2]
if m[3] and (ARGV[1] == '' or ARGV[1] == m[1]) and tonumber(m[3]) < tonumber(number) then
  redis.call('HDEL', KEYS[1], '')  -- full store
  redis.call('HSET', KEYS[1], 'safe', number)
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'wake', '')
end
return 'ok'
""")

# KEYS meta, entries and, for an end, question and journal. ARGV epoch, first number, end, last
# number that replicas have or nothing, entries. The end is empty, or a time, a space and the
# outcome. The reply is one line of words, which is the cheapest to parse.
APPEND = Script(
    "local start, safe = 5, ARGV[4]"
    + _CHECK_APPEND
    + """
local ended = m[4]
if not held and first <= final then
  local space = string.find(ARGV[3], ' ', 1, true)
  if space then redis.call('UNLINK', KEYS[3], KEYS[4]) end  -- full store
  for i = start, #ARGV do
    redis.call('XADD', KEYS[2], string.format('%d-0', first + i - start), 'd', ARGV[i])
  end
  local now_last = string.format('%d', final)
  if space then
    ended = string.sub(ARGV[3], 1, space - 1)
    redis.call('HSET', KEYS[1], 'last', now_last, 'ended', ended,
      'outcome', string.sub(ARGV[3], space + 1))
  else
    redis.call('HSET', KEYS[1], 'last', now_last)
  end
"""
    + _SHOW_ENTRIES
    + """
elseif held then
  write_again()
end
return {ok = (held and 'held ' or 'ok ') .. (m[3] or '0') .. ' ' .. (ended or '') .. ' '
  .. (m[5] or '') .. ' ' .. (m[7] or '')}
"""
)

# Append entries and notes; without notes the store must have all before the next one. KEYS meta,
# entries, journal. ARGV epoch, first number, number of the first note, count of notes, last number
# that replicas have or nothing, notes, entries.
APPEND_NOTES = Script(
    "local start, safe = 6 + tonumber(ARGV[4]), ARGV[5]"
    + _CHECK_APPEND
    + """
local note, count = tonumber(ARGV[3]), tonumber(ARGV[4])
local n = redis.call('HMGET', KEYS[1], 'notes', 'note_base')
local notes, final_note = tonumber(n[1] or '0'), note + count - 1
local noted = note > tonumber(n[2] or '0') and final_note <= notes
if not noted then
  if note ~= notes + 1 then return {ok = 'gap ' .. m[2]} end
  for i = 6, 5 + count do redis.call('RPUSH', KEYS[3], ARGV[i]) end
  redis.call('HSET', KEYS[1], 'notes', string.format('%d', final_note))
end
if not held and first <= final then
  for i = start, #ARGV do
    redis.call('XADD', KEYS[2], string.format('%d-0', first + i - start), 'd', ARGV[i])
  end
  redis.call('HSET', KEYS[1], 'last', string.format('%d', final))
"""
    + _SHOW_ENTRIES
    + """
end
if noted and (held or first > final) then write_again() end
return {ok = (held and 'held ' or 'ok ') .. (m[3] or '0')}
"""
)

# KEYS meta, journal. ARGV number of the last known note, maximum bytes. The first item of the reply
# is the state; the notes follow, at least one if there are more.
JOURNAL = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return {'unknown'} end
local at, size, page = tonumber(ARGV[1]), 0, {'ok'}
while size <= tonumber(ARGV[2]) do
  local part = redis.call('LRANGE', KEYS[2], at, at + 31)
  if not part[1] then break end
  for _, note in ipairs(part) do
    if size > tonumber(ARGV[2]) then break end
    page[#page + 1] = note
    at, size = at + 1, size + #note
  end
end
return page
""")

# The later epochs of a stream: the numbers of their first entries, and their own numbers. An
# earlier release counted epochs: it adds to `starts` only, and for a plain stream to neither
# field. The numbers that it has counted follow from the others.
_EPOCHS = """
local function epochs_of(epoch, base, starts, epochs)
  local firsts, numbers = {}, {}
  for word in string.gmatch(starts or '', '%d+') do firsts[#firsts + 1] = word end
  for word in string.gmatch(epochs or '', '%d+') do numbers[#numbers + 1] = word end
  for i = #numbers + 1, #firsts do
    numbers[i] = string.format('%d', tonumber(numbers[i - 1] or '1') + 1)
  end
  if (numbers[#numbers] or '1') ~= epoch then
    firsts[#firsts + 1] = string.format('%d', tonumber(base or '0') + 1)
    numbers[#numbers + 1] = epoch
  end
  return firsts, numbers
end
"""

# KEYS meta, entries. ARGV position, its epoch, maximum number of entries, maximum bytes. The first
# item of the reply is the state of the stream, the second one the epoch of the last entry; the
# entries follow. The first chunk is small, in case the entries are large: reading many large ones
# would take much memory of the store.
READ = Script(
    _EPOCHS
    + """
local m = redis.call('HMGET', KEYS[1], 'last', 'ended', 'gone', 'epoch', 'base', 'starts', 'epochs',
  'safe')
if not m[1] then return {'unknown'} end
local firsts, numbers = {}, {}
if m[4] ~= '1' then firsts, numbers = epochs_of(m[4], m[5], m[6], m[7]) end
local function epoch_of(number)
  for i = #firsts, 1, -1 do
    if tonumber(firsts[i]) <= number then return numbers[i] end
  end
  return '1'
end
local at, last = tonumber(ARGV[1]), tonumber(m[1])
if at > 0 and (epoch_of(at) ~= ARGV[2] or (m[2] and at > last)) then return {'replaced'} end
if m[2] and at == last then return {'end', ARGV[2]} end
local shown = math.min(last, tonumber(m[8] or m[1]))
if at >= shown then return {'more', ARGV[2]} end
if m[3] then return {'gone'} end
local limit, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local page, got, size, chunk = {'more', ''}, 0, 0, 8
while got < limit and size <= most and at < shown do
  local part = redis.call('XRANGE', KEYS[2], string.format('%d-0', at + 1), '+',
    'COUNT', math.min(chunk, limit - got, shown - at))
  if not part[1] or part[1][1] ~= string.format('%d-0', at + 1) then return {'damaged'} end
  for _, entry in ipairs(part) do
    local data = entry[2][2]
    at, got, size = at + 1, got + 1, size + #data
    page[got + 2] = data
    if size > most then break end
  end
  chunk = size * 8 < most and 128 or 8
end
if m[2] and at >= last then page[1] = 'end' end
page[2] = epoch_of(at)
return page
"""
)

# KEYS meta.
CANCEL = Script("""
local m = redis.call('HMGET', KEYS[1], 'epoch', 'ended')
if not m[1] then return 'unknown' end
if not m[2] then
  redis.call('HDEL', KEYS[1], '')  -- full store
  redis.call('HSET', KEYS[1], 'cancel', '1')
end
return 'ok'
""")

# KEYS the meta of each stream, only one on a cluster. ARGV end of the leases, then the epoch of
# each stream. The reply has the state of each stream and, if it is durable, the digest of its
# agent.
RENEW = Script("""
local states = {}
for i = 1, #KEYS do
  local m = redis.call('HMGET', KEYS[i], 'epoch', 'lease', 'cancel', 'ended', 'durable')
  if m[1] ~= ARGV[i + 1] or m[4] then
    states[i] = 'lost'
  else
    if tonumber(m[2]) < tonumber(ARGV[1]) then
      redis.call('HDEL', KEYS[i], '')  -- full store
      redis.call('HSET', KEYS[i], 'lease', ARGV[1])
    end
    states[i] = (m[3] and 'cancel' or 'held') .. ' ' .. (m[5] or '')
  end
end
return states
""")

# Begin the next epoch of a stream: its number is the one that the caller made, but greater than
# that of the current epoch.
_BEGIN_EPOCH = (
    _EPOCHS
    + """
local function begin_epoch(number, lease)
  redis.call('HDEL', KEYS[1], '')  -- full store
  local m = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'notes', 'base', 'starts', 'epochs')
  local firsts, numbers = epochs_of(m[1], m[4], m[5], m[6])
  local epoch = string.format('%d', math.max(tonumber(m[1]) + 1, tonumber(number)))
  firsts[#firsts + 1] = string.format('%d', tonumber(m[2]) + 1)
  numbers[#numbers + 1] = epoch
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'base', m[2], 'note_base', m[3] or '0',
    'lease', lease, 'starts', table.concat(firsts, ' '), 'epochs', table.concat(numbers, ' '))
  return epoch
end
"""
)

# KEYS meta, question. ARGV now, end of the lease, unique name of this claim, number for its epoch,
# version of the agent, seconds that another version waits, seconds that everybody else waits for a
# durable stream, epoch of the holder. The version is empty in a claim of everybody, and the last
# one in each claim but that of the holder, who need not wait. With the unique name a repeated claim
# gets the same reply; it writes all the same, so that the reply can be confirmed by replicas.
CLAIM = Script(
    _BEGIN_EPOCH
    + """
local m = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'lease', 'claim', 'ended', 'index',
  'durable', 'version')
if not m[1] then return {'gone'} end
if m[5] then return {'ended', m[5], m[6] or ''} end
local question = redis.call('GET', KEYS[2]) or ''
if m[4] == ARGV[3] then
  redis.call('HDEL', KEYS[1], '')  -- full store
  redis.call('HSET', KEYS[1], 'claim', ARGV[3])
  return {'won', m[1], m[2], m[3], question}
end
if ARGV[8] ~= '' then
  if m[1] ~= ARGV[8] then return {'fenced'} end
else
  local wait = 0
  if m[7] and ARGV[5] == '' then wait = tonumber(ARGV[7])
  elseif m[7] and m[8] ~= ARGV[5] then wait = tonumber(ARGV[6]) end
  if tonumber(m[3]) + wait > tonumber(ARGV[1]) then return {'held', m[3]} end
end
local epoch = begin_epoch(ARGV[4], ARGV[2])
redis.call('HSET', KEYS[1], 'claim', ARGV[3])
redis.call('HDEL', KEYS[1], 'released')
return {'won', epoch, m[2], ARGV[2], question}
"""
)

# KEYS the server that was seen last. ARGV the server that is seen now, and the time. The reply is
# the time since when it is this one, -inf for the first one.
SERVING = Script("""
local known = redis.call('HMGET', KEYS[1], 'server', 'since')
if known[1] == ARGV[1] then return known[2] end
local since = known[1] and ARGV[2] or '-inf'
redis.call('HDEL', KEYS[1], '')  -- full store
redis.call('HSET', KEYS[1], 'server', ARGV[1], 'since', since)
return since
""")

# KEYS meta. ARGV epoch, now, number for the next epoch. The reply is the state and the digest of
# the agent. A repeated release gets the same reply until the stream is claimed; it writes, too.
RELEASE = Script(
    _BEGIN_EPOCH
    + """
local m = redis.call('HMGET', KEYS[1], 'epoch', 'ended', 'durable', 'released')
if not m[1] then return {'unknown'} end
if m[2] or not m[3] then return {'fenced'} end
if m[4] ~= ARGV[1] then
  if m[1] ~= ARGV[1] then return {'fenced'} end
  begin_epoch(ARGV[3], ARGV[2])
end
redis.call('HDEL', KEYS[1], '')  -- full store
redis.call('HSET', KEYS[1], 'released', ARGV[1])
return {'ok', m[3]}
"""
)

# KEYS meta, entries, question, journal. ARGV two times: entries of streams that ended up to the
# first one, and whole streams that ended up to the second one, are deleted.
DROP = Script("""
local m = redis.call('HMGET', KEYS[1], 'epoch', 'ended', 'gone')
if not m[1] then return {'gone'} end
if not m[2] then return {'running'} end
local ended = tonumber(m[2])
if ended <= tonumber(ARGV[2]) then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  return {'gone'}
end
if ended > tonumber(ARGV[1]) and not m[3] then return {'kept', m[2]} end
if not m[3] then
  redis.call('UNLINK', KEYS[2])  -- full store
  redis.call('HSET', KEYS[1], 'gone', '1')
end
return {'bare', m[2]}
""")

# KEYS turns, order. ARGV stream, turn, now, maximum turns, maximum bytes, epoch. A turn of a later
# epoch replaces one of the same stream; the field `e:<stream>` is the epoch, 1 if it is missing.
# The oldest turns that exceed the limits are dropped, never the new one. The field `bytes` is the
# total size; a conversation of an earlier release does not have it, so it is computed once.
ADD_TURN = Script("""
local field = 'e:' .. ARGV[1]
local known = redis.call('HSTRLEN', KEYS[1], ARGV[1])
local replaces = known > 0
  and tonumber(ARGV[6]) > tonumber(redis.call('HGET', KEYS[1], field) or '1')
if replaces then
  redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[2] - known)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], field, ARGV[6], 'touched', ARGV[3])
elseif known == 0 and redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then
  if ARGV[6] ~= '1' then redis.call('HSET', KEYS[1], field, ARGV[6]) end
  local count = redis.call('RPUSH', KEYS[2], ARGV[1])
  local size = tonumber(redis.call('HGET', KEYS[1], 'bytes') or '')
  if size then
    size = size + #ARGV[2]
  else
    size = 0
    for _, stream in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
      size = size + redis.call('HSTRLEN', KEYS[1], stream)
    end
  end
  while count > 1 and (count > tonumber(ARGV[4]) or size > tonumber(ARGV[5])) do
    local oldest = redis.call('LPOP', KEYS[2])
    size = size - redis.call('HSTRLEN', KEYS[1], oldest)
    redis.call('HDEL', KEYS[1], oldest, 'e:' .. oldest)
    count = count - 1
  end
  redis.call('HSET', KEYS[1], 'touched', ARGV[3], 'bytes', string.format('%d', size))
end
return 'ok'
""")

# KEYS turns, order. ARGV maximum turns, maximum bytes. The newest turn is always returned.
TURNS = Script("""
local streams = redis.call('LRANGE', KEYS[2], -tonumber(ARGV[1]), -1)
if not streams[1] then return {} end
local first, size = #streams, redis.call('HSTRLEN', KEYS[1], streams[#streams])
while first > 1 do
  size = size + redis.call('HSTRLEN', KEYS[1], streams[first - 1])
  if size > tonumber(ARGV[2]) then break end
  first = first - 1
end
return redis.call('HMGET', KEYS[1], unpack(streams, first))
""")

# KEYS turns, order. ARGV a time: the conversation is deleted if its last turn is not later.
FORGET_TURNS = Script("""
local touched = redis.call('HGET', KEYS[1], 'touched')
if touched and tonumber(touched) > tonumber(ARGV[1]) then return touched end
redis.call('UNLINK', KEYS[1], KEYS[2])
return ''
""")

# KEYS index. ARGV 'GT' if a time may only become later, then pairs of a time and a member.
INDEX = Script("""
redis.call('ZREM', KEYS[1], '')  -- full store
for i = 2, #ARGV, 2 do
  if ARGV[1] == 'GT' then
    redis.call('ZADD', KEYS[1], 'GT', ARGV[i], ARGV[i + 1])
  else
    redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 'ok'
""")

# The clock of the store. KEYS any key: it selects the node of a cluster.
NOW = Script("""
local _ = KEYS[1]
return redis.call('TIME')
""")

# Runs every command that the log uses, in scripts or outside. KEYS five unused keys. ARGV channel.
# The reply is the first command that is not allowed, and why; an error of the store as a whole is
# returned unchanged.
NEEDED = Script("""
local hash, stream, text, list, set = unpack(KEYS)
local steps = {
  {'DEL', hash}, {'UNLINK', hash, stream, text, list, set}, {'EXISTS', hash}, {'TIME'},
  {'HSET', hash, 'a', '1'}, {'HSETNX', hash, 'b', '1'}, {'HINCRBY', hash, 'a', '1'},
  {'HGET', hash, 'a'}, {'HMGET', hash, 'a', 'b'}, {'HSTRLEN', hash, 'a'}, {'HGETALL', hash},
  {'HDEL', hash, 'b'},
  {'XADD', stream, '1-0', 'd', ''}, {'XRANGE', stream, '-', '+', 'COUNT', '1'},
  {'SET', text, ''}, {'GET', text},
  {'RPUSH', list, 'a'}, {'LRANGE', list, '0', '-1'}, {'LPOP', list},
  {'ZADD', set, 'GT', '0', 'a'}, {'ZRANGEBYSCORE', set, '-inf', '0', 'LIMIT', '0', '1'},
  {'ZREM', set, 'a'}, {'PUBLISH', ARGV[1], ''},
}
local refused
for _, step in ipairs(steps) do
  local reply = redis.pcall(unpack(step))
  if type(reply) == 'table' and reply.err then
    refused = {step[1], reply.err}
    break
  end
end
redis.pcall('UNLINK', hash, stream, text, list, set)
if not refused then return {} end
for _, word in ipairs({'READONLY', 'MASTERDOWN', 'NOREPLICAS', 'CLUSTERDOWN', 'MISCONF'}) do
  if string.find(refused[2], '^-?' .. word) then return {err = refused[2]} end
end
return refused
""")
