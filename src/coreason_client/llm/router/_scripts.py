"""The rules of `_rules.py` as Lua scripts, and the commands as their keys and arguments. No I/O.

A script is atomic: other processes see all of its changes or none. The clock is that of the store,
unless the first argument is a time, as in tests. Keys share a hash tag, the prefix.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..._valkey_address import Script
from ._rules import Account, Acquire, Acquired, Delayed, Granted, Refused, Settle

_RECORD_MS = 60_000  # a record is kept so much longer than its reservation
_DEPLOYMENT_MS = 3_600_000
_ACCOUNT_MS = 86_400_000


Invocation: TypeAlias = tuple[Script, Sequence[str], Sequence[str | int]]
"""A script with its keys and its arguments."""

_COMMON = """
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function whole(number) return string.format('%.0f', number) end
local function field(key, name) return tonumber(redis.call('HGET', key, name) or 0) end
local function add(key, name, amount) redis.call('HINCRBY', key, name, whole(amount)) end
local function expire(account, open)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', whole(now))) do
    local amount = tonumber(string.match(member, ':(%d+)$'))
    add(account, 'spent', amount)
    add(account, 'reserved', -amount)
    redis.call('ZREM', open, member)
  end
end
"""

# KEYS record, then the hash and the reservations of each account, then the hash of each candidate.
# ARGV time, number of accounts, id, ms, then limit and end of each account ('' for none), then for
# each candidate: tokens, requests per minute, tokens per minute ('' for none), and its amounts.
# The reply is {0, index}, {1, ms} or {2, account, spent, reserved}.
ACQUIRE = Script(
    _COMMON
    + """
local accounts, id, ms = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local known = redis.call('HMGET', KEYS[1], 'index', 'expiry')
if known[1] and tonumber(known[2]) > now then return {0, tonumber(known[1])} end

local totals = {}
for place = 1, accounts do
  local account, open = KEYS[2 * place], KEYS[2 * place + 1]
  expire(account, open)
  totals[place] = {field(account, 'spent'), field(account, 'reserved')}
end

local function learned_wait(state, kind, need)
  local reset = tonumber(state[kind .. '.reset'])
  if not reset or now >= reset then return 0 end
  local remaining, missing = tonumber(state[kind .. '.left']), tonumber(state[kind .. '.missing'])
  local start = tonumber(state[kind .. '.start'])
  if remaining + math.floor(missing * (now - start) / (reset - start)) >= need then return 0 end
  if missing <= 0 then return reset - now end
  local due = start + math.ceil((need - remaining) * (reset - start) / missing)
  return math.max(1, math.min(due, reset) - now)
end

local function window_wait(state, kind, limit, need)
  local oldest, seconds, excess = math.floor(now / 1000) - 60, {}, math.min(need, limit) - limit
  for name, count in pairs(state) do
    local second = tonumber(string.match(name, '^' .. kind .. '@(%d+)$'))
    if second and second >= oldest then
      seconds[#seconds + 1] = {second, tonumber(count)}
      excess = excess + tonumber(count)
    end
  end
  if excess <= 0 then return 0 end
  table.sort(seconds, function(a, b) return a[1] < b[1] end)
  for _, entry in ipairs(seconds) do
    excess = excess - entry[2]
    if excess <= 0 then return (entry[1] + 61) * 1000 - now end
  end
  return 0
end

local size = 3 + accounts
local first = 4 + 2 * accounts
local refused, delay
for index = 1, #KEYS - 1 - 2 * accounts do
  local base = first + (index - 1) * size
  local refusal
  for place = 1, accounts do
    local spent, reserved = totals[place][1], totals[place][2]
    local limit, amount = tonumber(ARGV[3 + 2 * place]), tonumber(ARGV[base + 3 + place])
    if not refusal and spent + reserved + amount > limit then
      refusal = {2, place - 1, whole(spent), whole(reserved)}
    end
  end
  if refusal then
    refused = refused or refusal
  else
    local key, state = KEYS[1 + 2 * accounts + index], {}
    local values = redis.call('HGETALL', key)
    for place = 1, #values, 2 do state[values[place]] = values[place + 1] end
    local tokens = tonumber(ARGV[base + 1])
    local rpm, tpm = tonumber(ARGV[base + 2]), tonumber(ARGV[base + 3])
    local wait = math.max(tonumber(state.cooldown_end or 0) - now, 0)
    if rpm then wait = math.max(wait, window_wait(state, 'requests', rpm, 1)) end
    if tpm then wait = math.max(wait, window_wait(state, 'tokens', tpm, tokens)) end
    wait = math.max(wait, learned_wait(state, 'requests', 1))
    wait = math.max(wait, learned_wait(state, 'tokens', tokens))
    if wait <= 0 then
      local second = math.floor(now / 1000)
      for name in pairs(state) do
        local old = tonumber(string.match(name, '@(%d+)$'))
        if old and old < second - 60 then redis.call('HDEL', key, name) end
      end
      add(key, 'requests@' .. second, 1)
      add(key, 'tokens@' .. second, tokens)
      if state['requests.left'] then add(key, 'requests.left', -1) end
      if state['tokens.left'] then add(key, 'tokens.left', -tokens) end
      redis.call('PEXPIRE', key, DEPLOYMENT_MS)
      for place = 1, accounts do
        local account, open = KEYS[2 * place], KEYS[2 * place + 1]
        local amount, ends = tonumber(ARGV[base + 3 + place]), tonumber(ARGV[4 + 2 * place])
        add(account, 'reserved', amount)
        redis.call('ZADD', open, whole(now + ms), id .. ':' .. whole(amount))
        if ends then
          redis.call('PEXPIREAT', account, whole(ends + ACCOUNT_MS))
          redis.call('PEXPIREAT', open, whole(ends + ACCOUNT_MS))
        end
      end
      redis.call('HSET', KEYS[1], 'index', index - 1, 'second', second, 'tokens', whole(tokens),
        'amounts', table.concat(ARGV, ',', base + 4, base + 3 + accounts),
        'expiry', whole(now + ms))
      redis.call('PEXPIRE', KEYS[1], whole(ms + RECORD_MS))
      return {0, index - 1}
    end
    delay = delay and math.min(delay, wait) or wait
  end
end
if refused and not delay then return refused end
return {1, delay or 0}
""".replace("DEPLOYMENT_MS", str(_DEPLOYMENT_MS))
    .replace("ACCOUNT_MS", str(_ACCOUNT_MS))
    .replace("RECORD_MS", str(_RECORD_MS))
)

# KEYS record, deployment, then the hash and the reservations of each account. ARGV time, id,
# tokens ('' for those reserved), outcome, cooldown ('' for doubling), longest, first cooldown,
# number of accounts, their amounts ('' for those reserved), then each learned limit: kind,
# remaining, missing, ms.
SETTLE = Script(
    _COMMON
    + """
local id, tokens, outcome, cooldown = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local longest, first, accounts = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local record = redis.call('HMGET', KEYS[1], 'second', 'tokens', 'amounts', 'expiry')
redis.call('DEL', KEYS[1])
if not record[1] or tonumber(record[4]) <= now then return 0 end
local place = 0
for reserved in string.gmatch(record[3], '%d+') do
  place = place + 1
  local account, open = KEYS[1 + 2 * place], KEYS[2 + 2 * place]
  expire(account, open)
  if redis.call('ZREM', open, id .. ':' .. reserved) == 1 then
    add(account, 'reserved', -tonumber(reserved))
    add(account, 'spent', tonumber(ARGV[8 + place]) or tonumber(reserved))
  end
end

local key = KEYS[2]
local name = 'tokens@' .. record[1]
if tokens and redis.call('HEXISTS', key, name) == 1 then
  add(key, name, tokens - tonumber(record[2]))
end
local cooldown_end = field(key, 'cooldown_end')
local cooling = now < cooldown_end
if outcome == 'success' and not cooling then
  redis.call('HDEL', key, 'failures')
elseif outcome == 'failure' then
  if not cooling then
    add(key, 'failures', 1)
    if not cooldown then
      cooldown = math.min(first * 2 ^ math.min(field(key, 'failures') - 1, 20), longest)
    end
  end
  redis.call('HSET', key, 'cooldown_end', whole(math.max(cooldown_end, now + (cooldown or 0))))
end
for at = 9 + accounts, #ARGV, 4 do
  local kind = ARGV[at]
  redis.call('HSET', key, kind .. '.left', ARGV[at + 1], kind .. '.missing', ARGV[at + 2],
    kind .. '.start', whole(now), kind .. '.reset', whole(now + tonumber(ARGV[at + 3])))
end
local longest_ms = math.max(DEPLOYMENT_MS, field(key, 'cooldown_end') - now)
redis.call('PEXPIRE', key, whole(longest_ms))
return 1
""".replace("DEPLOYMENT_MS", str(_DEPLOYMENT_MS))
)

# KEYS hash and reservations of an account. ARGV time. The reply is what is spent and reserved.
TOTALS = Script(
    _COMMON
    + """
expire(KEYS[1], KEYS[2])
return {whole(field(KEYS[1], 'spent')), whole(field(KEYS[1], 'reserved'))}
"""
)


def account_keys(prefix: str, account: str) -> tuple[str, str]:
    """Return the keys of an account: its totals, and its reservations."""
    return f"{{{prefix}}}:account:{account}", f"{{{prefix}}}:reserved:{account}"


def acquire_call(prefix: str, command: Acquire, now: int | None = None) -> Invocation:
    """Return the script call of a command."""
    arguments: list[str | int] = [_optional(now), len(command.accounts), command.id, command.ms]
    for account in command.accounts:
        arguments += account.limit, _optional(account.ends)
    for one in command.candidates:
        arguments += one.tokens, _optional(one.requests_per_minute)
        arguments += _optional(one.tokens_per_minute), *one.amounts
    keys = [_record_key(prefix, command.id), *_keys_of(prefix, command.accounts)]
    keys += [_deployment_key(prefix, one.deployment) for one in command.candidates]
    return ACQUIRE, keys, arguments


def acquired(reply: Any) -> Acquired:
    """Return the reply of `ACQUIRE` as a value."""
    kind, *numbers = map(int, reply)
    if kind == 0:
        return Granted(numbers[0])
    return Delayed(numbers[0]) if kind == 1 else Refused(*numbers)


def settle_call(prefix: str, command: Settle, first: int, now: int | None = None) -> Invocation:
    """Return the script call of a command; `first` is the first cooldown."""
    arguments: list[str | int] = [_optional(now), command.id, _optional(command.tokens)]
    arguments += command.outcome, _optional(command.cooldown), command.longest, first
    arguments.append(len(command.accounts))
    amounts = command.amounts or [None] * len(command.accounts)
    arguments += map(_optional, amounts)
    for one in command.learned:
        arguments += one.kind, one.remaining, one.missing, one.ms
    record = _record_key(prefix, command.id)
    deployment = _deployment_key(prefix, command.candidate.deployment)
    return SETTLE, [record, deployment, *_keys_of(prefix, command.accounts)], arguments


def totals_call(prefix: str, account: str, now: int | None = None) -> Invocation:
    """Return the script call that reads an account."""
    return TOTALS, account_keys(prefix, account), [_optional(now)]


def _keys_of(prefix: str, accounts: Sequence[Account]) -> list[str]:
    return [key for account in accounts for key in account_keys(prefix, account.name)]


def _record_key(prefix: str, id_: str) -> str:
    return f"{{{prefix}}}:call:{id_}"


def _deployment_key(prefix: str, deployment: str) -> str:
    return f"{{{prefix}}}:deployment:{deployment}"


def _optional(number: int | None) -> str | int:
    return "" if number is None else number
