"""The rules of the state: cooldowns, limits and budgets, and its commands. Pure.

`_scripts.py` has the same rules in Lua; a test compares the two.

* Budgets. A reservation is made only if what is spent, what is reserved and the new amount together
  stay within the limit, in all accounts or in none. It is settled once: with the real amount, or
  when it expires with the reserved one. So at every moment the sum of an account is exact, and it
  exceeds the limit only by the amounts by which settled calls cost more than was reserved.
* Cooldown. The first failure of a deployment begins a cooldown of one second; it doubles with each
  failure in a row. A failure during a cooldown does not count: its request was sent before.
* Limits per minute. Requests and reserved tokens are counted by second. The current second and the
  60 before it stay within the limit, so every window of 60 seconds does. A request above the limit
  counts as the limit; otherwise it could never be sent.
* Learned limits. What remains by the provider's own headers is reduced by each request, and what is
  missing returns evenly until the limit is reset. After that it is unknown, and not limited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal, TypeAlias

# The commands and their replies are plain data, so that they can be sent to Valkey.
#
# Times are whole milliseconds and amounts are whole nanodollars, so sums are exact in Python and in
# the scripts of Valkey.

NANODOLLARS = 1_000_000_000  # in a dollar


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a budget in one period; `ends` is the end of the period in ms since 1970."""

    name: str
    limit: int
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment that may get the request, with the amount to reserve in each account."""

    deployment: str
    tokens: int = 0
    amounts: tuple[int, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Acquire:
    """Reserve money and capacity for one attempt, at the first candidate that has capacity.

    Repeating the command has no further effect. A reservation that is not settled within `ms`
    milliseconds counts as spent.
    """

    id: str
    candidates: Sequence[Candidate]
    accounts: Sequence[Account]
    ms: int


@dataclass(frozen=True, slots=True)
class Granted:
    """The attempt may be sent to the candidate at this index."""

    index: int


@dataclass(frozen=True, slots=True)
class Delayed:
    """No candidate has capacity; the first one has it after so many milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The account at this index does not have the amount; nothing was reserved."""

    account: int
    spent: int
    reserved: int


Acquired: TypeAlias = Granted | Delayed | Refused


@dataclass(frozen=True, slots=True)
class Learned:
    """A limit that a provider reported: so many requests or tokens remain.

    `missing` is the number that returns evenly until the limit is reset in `ms` milliseconds.
    """

    kind: Literal["requests", "tokens"]
    remaining: int
    missing: int
    ms: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle a reservation: replace the reserved amounts and tokens by the real ones.

    None means that the real ones are not known: the reserved ones count. `success` ends a series of
    failures. A failure begins a cooldown of `cooldown` milliseconds, or with None of a second that
    doubles with each failure in a row, up to `longest`. Repeating the command has no effect.
    """

    id: str
    candidate: Candidate
    accounts: Sequence[Account]
    amounts: tuple[int | None, ...] | None = None
    tokens: int | None = None
    outcome: Literal["success", "failure", "neutral"] = "neutral"
    cooldown: int | None = None
    longest: int = 0
    learned: Sequence[Learned] = ()


FIRST_COOLDOWN = 1000  # milliseconds
_WINDOW = 60  # seconds
_MAX_DOUBLINGS = 20
_ACCOUNT_MS = 86_400_000  # an account is kept so long after its period, for clocks that differ
_MAX_SETTLED = 256  # settled reservations that may wait for their expiry

_Bucket: TypeAlias = list[int]  # requests and tokens of one second


@dataclass(slots=True)
class _Balance:
    spent: int = 0
    reserved: int = 0
    open: dict[str, int] = field(default_factory=dict)  # the amount of each reservation

    def reserve(self, id_: str, amount: int) -> None:
        self.open[id_] = amount
        self.reserved += amount

    def settle(self, id_: str, amount: int | None) -> None:
        """Replace a reservation by an amount spent, None for the amount reserved."""
        if (reserved := self.open.pop(id_, None)) is not None:
            self.reserved -= reserved
            self.spent += reserved if amount is None else amount


@dataclass(slots=True)
class _Remaining:
    """A learned limit."""

    remaining: int
    missing: int
    start: int
    reset: int

    def wait(self, need: int, now: int) -> int:
        if now >= self.reset:
            return 0
        seconds = self.reset - self.start
        if self.remaining + self.missing * (now - self.start) // seconds >= need:
            return 0
        if self.missing <= 0:
            return self.reset - now
        due = self.start + -(-(need - self.remaining) * seconds // self.missing)
        return max(1, min(due, self.reset) - now)


@dataclass(slots=True)
class _Deployment:
    failures: int = 0
    cooldown_end: int = 0
    buckets: dict[int, _Bucket] = field(default_factory=dict)  # by second
    learned: dict[str, _Remaining] = field(default_factory=dict)

    def wait(self, candidate: Candidate, now: int) -> int:
        """Return the milliseconds until this deployment may get the request."""
        waits = [self.cooldown_end - now, 0]
        needs = {"requests": 1, "tokens": candidate.tokens}
        limits = (candidate.requests_per_minute, candidate.tokens_per_minute)
        for kind, limit in enumerate(limits):
            if limit is not None:
                waits.append(self._window_wait(kind, limit, (1, candidate.tokens)[kind], now))
        waits += (one.wait(needs[kind], now) for kind, one in self.learned.items())
        return max(waits)

    def add(self, candidate: Candidate, now: int) -> None:
        """Count a request that is sent now."""
        oldest = now // 1000 - _WINDOW
        for second in [second for second in self.buckets if second < oldest]:
            del self.buckets[second]
        bucket = self.buckets.setdefault(now // 1000, [0, 0])
        bucket[0] += 1
        bucket[1] += candidate.tokens
        for kind, amount in (("requests", 1), ("tokens", candidate.tokens)):
            if (one := self.learned.get(kind)) is not None:
                one.remaining -= amount

    def learn(self, learned: Learned, now: int) -> None:
        self.learned[learned.kind] = _Remaining(
            learned.remaining, learned.missing, now, now + learned.ms
        )

    def report(self, settle: Settle, now: int) -> None:
        """Apply the outcome of an attempt to the cooldown."""
        cooling, cooldown = now < self.cooldown_end, settle.cooldown
        if settle.outcome == "success" and not cooling:
            self.failures = 0
        elif settle.outcome == "failure":
            if not cooling:
                self.failures += 1
                if cooldown is None:
                    doubled = FIRST_COOLDOWN << min(self.failures - 1, _MAX_DOUBLINGS)
                    cooldown = min(doubled, settle.longest)
            self.cooldown_end = max(self.cooldown_end, now + (cooldown or 0))

    def _window_wait(self, kind: int, limit: int, need: int, now: int) -> int:
        oldest = now // 1000 - _WINDOW
        counts = sorted((s, bucket[kind]) for s, bucket in self.buckets.items() if s >= oldest)
        excess = sum(count for _, count in counts) + min(need, limit) - limit
        for second, count in counts:
            if excess <= 0:
                return 0
            excess -= count
            if excess <= 0:
                return (second + _WINDOW + 1) * 1000 - now
        return 0


@dataclass(slots=True)
class _Record:
    """A reservation: the index that was granted, and the second in which it was counted."""

    index: int
    second: int
    tokens: int
    accounts: tuple[str, ...]


class StateRules:
    """The state of deployments and budgets."""

    def __init__(self) -> None:
        self._deployments: dict[str, _Deployment] = {}
        self._balances: dict[str, _Balance] = {}
        self._records: dict[str, _Record] = {}
        self._expiries: list[tuple[int, str]] = []  # a heap; settled reservations are skipped
        self._ends: list[tuple[int, str]] = []  # a heap of the ends of accounts

    def acquire(self, command: Acquire, now: int) -> Acquired:
        """Reserve money and capacity for one attempt."""
        self._expire(now)
        if (record := self._records.get(command.id)) is not None:
            return Granted(record.index)
        balances = [self._balance(account) for account in command.accounts]
        refused: Refused | None = None
        delay: int | None = None
        for index, candidate in enumerate(command.candidates):
            if (refusal := _refusal(command, candidate, balances)) is not None:
                refused = refused or refusal
                continue
            deployment = self._deployments.setdefault(candidate.deployment, _Deployment())
            wait = deployment.wait(candidate, now)
            if wait <= 0:
                self._grant(command, index, balances, now)
                return Granted(index)
            delay = wait if delay is None else min(delay, wait)
        if delay is None and refused is not None:
            return refused
        return Delayed(delay or 0)

    def settle(self, command: Settle, now: int) -> None:
        """Settle a reservation, and apply the outcome to its deployment."""
        self._expire(now)
        record = self._records.pop(command.id, None)
        if record is None:
            return
        for place, name in enumerate(record.accounts):
            if (balance := self._balances.get(name)) is not None:
                balance.settle(
                    command.id, None if command.amounts is None else command.amounts[place]
                )
        deployment = self._deployments.setdefault(command.candidate.deployment, _Deployment())
        bucket = deployment.buckets.get(record.second)
        if bucket is not None and command.tokens is not None:
            bucket[1] += command.tokens - record.tokens
        deployment.report(command, now)
        for learned in command.learned:
            deployment.learn(learned, now)

    def totals(self, account: str, now: int) -> tuple[int, int]:
        """Return what is spent and what is reserved in an account."""
        self._expire(now)
        balance = self._balances.get(account)
        return (0, 0) if balance is None else (balance.spent, balance.reserved)

    def release_all(self) -> None:
        """Drop all reservations: after a fork they belong to the parent process."""
        self._records.clear()
        self._expiries.clear()
        for balance in self._balances.values():
            balance.open.clear()
            balance.reserved = 0

    def _balance(self, account: Account) -> _Balance:
        balance = self._balances.get(account.name)
        if balance is None:
            balance = self._balances[account.name] = _Balance()
            if account.ends is not None:
                heappush(self._ends, (account.ends + _ACCOUNT_MS, account.name))
        return balance

    def _grant(self, command: Acquire, index: int, balances: list[_Balance], now: int) -> None:
        candidate = command.candidates[index]
        for balance, amount in zip(balances, candidate.amounts, strict=True):
            balance.reserve(command.id, amount)
        self._deployments[candidate.deployment].add(candidate, now)
        names = tuple(account.name for account in command.accounts)
        self._records[command.id] = _Record(index, now // 1000, candidate.tokens, names)
        heappush(self._expiries, (now + command.ms, command.id))

    def _expire(self, now: int) -> None:
        """Count expired reservations as spent, and drop accounts whose period is over."""
        expiries = self._expiries
        while expiries and expiries[0][0] <= now:
            id_ = heappop(expiries)[1]
            if (record := self._records.pop(id_, None)) is not None:
                for name in record.accounts:
                    if (balance := self._balances.get(name)) is not None:
                        balance.settle(id_, None)
        if len(expiries) > 2 * len(self._records) + _MAX_SETTLED:
            self._expiries = [entry for entry in expiries if entry[1] in self._records]
            heapify(self._expiries)
        while self._ends and self._ends[0][0] <= now:
            self._balances.pop(heappop(self._ends)[1], None)


def _refusal(command: Acquire, candidate: Candidate, balances: list[_Balance]) -> Refused | None:
    """Return the refusal of the first account that does not have the amount."""
    for place, (account, balance) in enumerate(zip(command.accounts, balances, strict=True)):
        if balance.spent + balance.reserved + candidate.amounts[place] > account.limit:
            return Refused(place, balance.spent, balance.reserved)
    return None
