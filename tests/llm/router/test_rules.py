"""The rules of the state: budgets are exact, limits hold, and failing deployments cool down."""

from typing import Any

import pytest
from hypothesis import given

from coreason_client.llm.router._rules import (
    Account,
    Acquire,
    Acquired,
    Candidate,
    Delayed,
    Granted,
    Learned,
    Refused,
    Settle,
    StateRules,
)
from tests.llm.router.commands import ACCOUNTS, OPERATIONS, START, Operation, play

ACCOUNT = Account("client", 100)
ONE = Candidate("a", amounts=(60,))


class State:
    """The rules, with a clock and an id for each command."""

    def __init__(self) -> None:
        self.rules = StateRules()
        self.now = START
        self.count = 0

    def acquire(
        self, *candidates: Candidate, accounts: tuple[Account, ...] = (), ms: int = 10_000
    ) -> Acquired:
        self.count += 1
        return self.rules.acquire(Acquire(str(self.count), candidates, accounts, ms), self.now)

    def settle(self, number: int, candidate: Candidate = ONE, **options: Any) -> None:
        accounts = options.pop("accounts", ())
        command = Settle(str(number), candidate, accounts, **options)
        self.rules.settle(command, self.now)

    def totals(self) -> tuple[int, int]:
        return self.rules.totals("client", self.now)


@pytest.fixture
def state() -> State:
    return State()


# Budgets.


def test_a_reservation_within_the_limit_is_made_and_one_above_it_refused(state: State) -> None:
    assert state.acquire(ONE, accounts=(ACCOUNT,)) == Granted(0)
    assert state.acquire(ONE, accounts=(ACCOUNT,)) == Refused(0, 0, 60)
    assert state.totals() == (0, 60)


def test_a_settled_reservation_frees_what_was_not_spent(state: State) -> None:
    state.acquire(ONE, accounts=(ACCOUNT,))
    state.settle(1, accounts=(ACCOUNT,), amounts=(5,))
    assert state.totals() == (5, 0)
    assert state.acquire(ONE, accounts=(ACCOUNT,)) == Granted(0)


def test_without_a_known_amount_the_reservation_is_spent(state: State) -> None:
    state.acquire(ONE, accounts=(ACCOUNT,))
    state.settle(1, accounts=(ACCOUNT,))
    assert state.totals() == (60, 0)


def test_an_expired_reservation_is_spent_and_cannot_be_settled(state: State) -> None:
    state.acquire(ONE, accounts=(ACCOUNT,))
    state.now += 10_000
    assert state.totals() == (60, 0)
    state.settle(1, accounts=(ACCOUNT,), amounts=(0,))
    assert state.totals() == (60, 0)


def test_a_short_reservation_expires_before_an_older_long_one(state: State) -> None:
    few = Candidate("a", amounts=(10,))
    state.acquire(few, accounts=(ACCOUNT,), ms=60_000)
    state.acquire(few, accounts=(ACCOUNT,), ms=1000)
    state.now += 1000
    assert state.totals() == (10, 10)


def test_an_account_below_the_amount_keeps_all_accounts_unchanged(state: State) -> None:
    accounts = (Account("client", 1000), Account("key", 10))
    both = Candidate("a", amounts=(60, 60))
    assert state.acquire(both, accounts=accounts) == Refused(1, 0, 0)
    assert state.totals() == (0, 0)


def test_a_cheaper_deployment_is_used_if_the_budget_is_not_enough_for_the_first(
    state: State,
) -> None:
    dear, cheap = Candidate("a", amounts=(101,)), Candidate("b", amounts=(9,))
    assert state.acquire(dear, cheap, accounts=(ACCOUNT,)) == Granted(1)


def test_an_account_is_forgotten_a_day_after_its_period(state: State) -> None:
    ending = Account("client", 100, START + 1000)
    state.acquire(ONE, accounts=(ending,))
    state.settle(1, accounts=(ending,), amounts=(60,))
    state.now += 1000
    assert state.totals() == (60, 0)
    state.now += 86_400_000
    assert state.totals() == (0, 0)


def test_reservations_are_dropped_after_a_fork_but_spending_is_not(state: State) -> None:
    state.acquire(Candidate("a", amounts=(20,)), accounts=(ACCOUNT,))
    state.settle(1, accounts=(ACCOUNT,), amounts=(20,))
    state.acquire(ONE, accounts=(ACCOUNT,))
    state.rules.release_all()
    assert state.totals() == (20, 0)


def test_settled_reservations_do_not_pile_up(state: State) -> None:
    for number in range(1, 2000):
        state.acquire(Candidate("a"), ms=10**9)
        state.settle(number)
    assert len(state.rules._expiries) < 600


def padded(amounts: tuple[int, ...]) -> tuple[int, ...]:
    return (*amounts, 0, 0)[:2]


@given(OPERATIONS)
def test_the_sum_of_an_account_is_exact_in_every_order(operations: list[Operation]) -> None:
    """A second bookkeeping: each reservation counts once, settled, expired or open."""
    rules = StateRules()
    limits = [account.limit for account in ACCOUNTS]
    open_: dict[str, tuple[int, tuple[int, ...]]] = {}
    spent, overshoot = [0, 0], [0, 0]
    for now, command in play(operations):
        for id_, (expiry, amounts) in list(open_.items()):
            if expiry <= now:
                del open_[id_]
                spent = [
                    total + amount for total, amount in zip(spent, padded(amounts), strict=True)
                ]
        if isinstance(command, Acquire):
            known = command.id in open_
            result = rules.acquire(command, now)
            if isinstance(result, Granted) and not known:
                candidate = command.candidates[result.index]
                open_[command.id] = now + command.ms, candidate.amounts
        else:
            rules.settle(command, now)
            if command.id in open_:
                _, reserved = open_.pop(command.id)
                real = (None,) * len(reserved) if command.amounts is None else command.amounts
                for place, (was, amount) in enumerate(zip(reserved, real, strict=True)):
                    spent[place] += was if amount is None else amount
                    overshoot[place] += 0 if amount is None else max(0, amount - was)
        for place, account in enumerate(ACCOUNTS):
            held = sum(padded(amounts)[place] for _, amounts in open_.values())
            assert rules.totals(account.name, now) == (spent[place], held)
            assert spent[place] + held <= limits[place] + overshoot[place]


# Cooldown.


def fails(state: State, number: int, **options: Any) -> None:
    state.settle(number, outcome="failure", longest=5000, **options)


def test_a_cooldown_doubles_with_each_failure_in_a_row_up_to_the_longest(state: State) -> None:
    one = Candidate("a")
    waits = []
    for number in range(1, 6):
        assert state.acquire(one) == Granted(0)
        fails(state, number)
        delayed = StateRules.acquire(state.rules, Acquire("x", [one], (), 1), state.now)
        assert isinstance(delayed, Delayed)
        waits.append(delayed.ms)
        state.now += delayed.ms
    assert waits == [1000, 2000, 4000, 5000, 5000]


def test_a_success_ends_a_series_of_failures(state: State) -> None:
    one = Candidate("a")
    for number, outcome in enumerate(["failure", "failure", "success", "failure"], 1):
        assert state.acquire(one) == Granted(0)
        state.settle(number, outcome=outcome, longest=30_000)
        if outcome == "failure" and number < 4:
            state.now += 10_000
    assert state.acquire(one) == Delayed(1000)


def test_requests_sent_before_a_cooldown_do_not_prolong_it(state: State) -> None:
    one = Candidate("a")
    for _ in range(5):
        state.acquire(one)
    for number in range(1, 6):
        fails(state, number)
    assert state.acquire(one) == Delayed(1000)


def test_a_delay_of_the_provider_prolongs_a_cooldown(state: State) -> None:
    one = Candidate("a")
    state.acquire(one)
    state.acquire(one)
    fails(state, 1)
    fails(state, 2, cooldown=7000)
    assert state.acquire(one) == Delayed(7000)


def test_a_cooling_deployment_is_passed_over(state: State) -> None:
    one, two = Candidate("a"), Candidate("b")
    state.acquire(one)
    fails(state, 1)
    assert state.acquire(one, two) == Granted(1)


# Limits per minute.


def test_requests_per_minute_hold_in_every_window(state: State) -> None:
    limited = Candidate("a", requests_per_minute=3)
    sent: list[int] = []
    while len(sent) < 12:
        result = state.acquire(limited)
        if isinstance(result, Delayed):
            state.now += result.ms
        else:
            sent.append(state.now)
            state.now += 700
    for first, fourth in zip(sent, sent[3:], strict=False):
        assert 60_000 <= fourth - first <= 62_000


def test_settled_tokens_free_capacity_in_the_second_of_their_request(state: State) -> None:
    limited = Candidate("a", tokens=80, tokens_per_minute=100)
    assert state.acquire(limited) == Granted(0)
    state.now += 5000
    assert isinstance(state.acquire(limited), Delayed)
    state.settle(1, limited, tokens=10)
    assert state.acquire(limited) == Granted(0)


def test_a_request_above_the_limit_waits_for_an_empty_window(state: State) -> None:
    huge = Candidate("a", tokens=500, tokens_per_minute=100)
    assert state.acquire(huge) == Granted(0)
    assert state.acquire(huge) == Delayed(61_000)


# Learned limits.


@pytest.mark.parametrize(
    ("learned", "tokens", "after", "wait"),
    [
        (Learned("requests", 0, 60, 60_000), 1, 0, 1000),  # one returns each second
        (Learned("requests", 0, 60, 60_000), 1, 1000, 0),
        (Learned("requests", 0, 0, 60_000), 1, 0, 60_000),  # only the reset is known
        (Learned("requests", 0, 0, 60_000), 1, 60_000, 0),
        (Learned("requests", 1, 0, 60_000), 1, 0, 0),
        (Learned("tokens", 100, 0, 60_000), 101, 0, 60_000),
        (Learned("tokens", 100, 0, 60_000), 100, 0, 0),
        (Learned("tokens", 100, 900, 9000), 200, 0, 1000),
        (Learned("tokens", 0, 10, 1000), 5000, 0, 1000),  # more than there ever is: the reset
    ],
)
def test_a_learned_limit_delays_a_request(
    state: State, learned: Learned, tokens: int, after: int, wait: int
) -> None:
    state.acquire(Candidate("a"))
    state.settle(1, Candidate("a"), learned=(learned,))
    state.now += after
    result = state.acquire(Candidate("a", tokens=tokens))
    assert result == (Delayed(wait) if wait else Granted(0))


def test_each_request_reduces_what_remains(state: State) -> None:
    state.acquire(Candidate("a"))
    state.settle(1, Candidate("a"), learned=(Learned("requests", 2, 0, 60_000),))
    results = [state.acquire(Candidate("a")) for _ in range(3)]
    assert results == [Granted(0), Granted(0), Delayed(60_000)]
