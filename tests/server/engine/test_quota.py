"""The quota of a principal: in one process, and in several that share a limit."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coreason_client.server.engine._limits import Quota
from coreason_client.server.log.quotas import Reservation


def test_a_process_of_its_own_may_use_the_limit() -> None:
    quota = Quota(2, shared=False)
    assert [quota.take("ann") for _ in range(3)] == [True, True, False]
    assert quota.take("bob")
    assert quota.total == 3
    assert not quota.release("ann")  # there is no store to give it back to
    assert not quota.release("ann")
    assert quota.take("ann")


def test_a_shared_limit_is_used_as_far_as_it_is_reserved() -> None:
    quota = Quota(10, shared=True)
    assert not quota.take("ann")
    quota.wait("ann")
    assert quota.reservation("ann", asks=True) == Reservation(0, 1, 10)
    quota.grant("ann", 1)
    assert quota.take("ann")
    quota.stop_waiting("ann")
    assert not quota.take("ann")
    assert quota.reservation("ann", asks=False) == Reservation(1, 0, 10)
    assert quota.release("ann")  # a small limit has nothing to spare
    assert quota.reservation("ann", asks=False) == Reservation(0, 0, 10)
    assert list(quota.principals()) == []


def test_some_units_of_a_large_limit_are_kept_for_the_next_requests() -> None:
    quota = Quota(640, shared=True)
    quota.wait("ann")
    assert quota.reservation("ann", asks=True) == Reservation(0, 11, 640)
    quota.grant("ann", 11)
    quota.stop_waiting("ann")
    assert [quota.take("ann") for _ in range(12)] == [True] * 11 + [False]
    assert [quota.release("ann") for _ in range(11)] == [False] * 10 + [True]
    assert quota.reservation("ann", asks=False) == Reservation(10, 0, 640)


def test_what_was_not_used_for_a_while_is_given_back() -> None:
    quota = Quota(640, shared=True)
    quota.grant("ann", 5)
    quota.forget_idle()
    assert quota.take("ann")  # so it is not idle
    assert quota.reservation("ann", asks=False).held == 5
    quota.forget_idle()
    assert quota.reservation("ann", asks=False).held == 1
    quota.forget_idle()
    quota.wait("ann")
    assert quota.reservation("ann", asks=True) == Reservation(1, 11, 640)


def test_a_stream_that_must_run_is_reported_beyond_the_limit() -> None:
    quota = Quota(1, shared=True)
    quota.add("ann")
    quota.add("ann")
    assert quota.reservation("ann", asks=False) == Reservation(2, 0, 1)
    assert not quota.take("ann")


class Store:
    """A store that grants what is free."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: dict[int, int] = {}

    def reserve(self, owner: int, asked: Reservation) -> int:
        others = sum(held for name, held in self.held.items() if name != owner)
        granted = max(0, min(asked.wanted, asked.limit - others - asked.held))
        self.held[owner] = asked.held + granted
        return granted


@settings(max_examples=60, stateful_step_count=40)
class Fleet(RuleBasedStateMachine):
    """Processes that share the limit of one principal."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(1)
        self.quotas: list[Quota] = []
        self.used: list[int] = []

    @precondition(lambda self: not self.quotas)
    @rule(limit=st.sampled_from([1, 2, 5, 64, 200, 1000]), processes=st.integers(1, 4))
    def start(self, limit: int, processes: int) -> None:
        self.store = Store(limit)
        self.quotas = [Quota(limit, shared=True) for _ in range(processes)]
        self.used = [0] * processes

    def exchange(self, number: int, *, asks: bool) -> None:
        quota = self.quotas[number]
        quota.grant("ann", self.store.reserve(number, quota.reservation("ann", asks=asks)))

    @precondition(lambda self: self.quotas)
    @rule(number=st.integers(0, 3), times=st.sampled_from([1, 3, 100]))
    def take(self, number: int, times: int) -> None:
        number %= len(self.quotas)
        quota = self.quotas[number]
        for _ in range(times):
            taken = quota.take("ann")
            if not taken:
                quota.wait("ann")
                self.exchange(number, asks=True)
                taken = quota.take("ann")
                quota.stop_waiting("ann")
            self.used[number] += taken
            if not taken:  # only if the others have all, with what they may spare
                spare = self.store.limit // 64 * (len(self.quotas) - 1)
                assert sum(self.used) + spare >= self.store.limit
                break

    @precondition(lambda self: any(self.used))
    @rule(number=st.integers(0, 3), times=st.sampled_from([1, 3, 100]))
    def release(self, number: int, times: int) -> None:
        number %= len(self.quotas)
        for _ in range(min(times, self.used[number])):
            self.used[number] -= 1
            if self.quotas[number].release("ann"):
                self.exchange(number, asks=False)

    @precondition(lambda self: self.quotas)
    @rule(number=st.integers(0, 3))
    def renew(self, number: int) -> None:
        number %= len(self.quotas)
        self.exchange(number, asks=False)
        self.quotas[number].forget_idle()

    @invariant()
    def never_more_than_the_limit(self) -> None:
        assert sum(self.used) <= self.store.limit
        assert sum(self.store.held.values()) <= self.store.limit
        for number, quota in enumerate(self.quotas):
            assert quota.total == self.used[number] <= self.store.held.get(number, 0)

    def teardown(self) -> None:
        for number, quota in enumerate(self.quotas):
            for _ in range(self.used[number]):
                quota.release("ann")
            for _ in range(2):
                self.exchange(number, asks=False)
                quota.forget_idle()
            assert list(quota.principals()) == []
        assert sum(self.store.held.values()) == 0


TestFleet = Fleet.TestCase


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_the_uses_in_one_process_are_counted(steps: list[bool], limit: int) -> None:
    quota, used = Quota(limit, shared=False), 0
    for takes in steps:
        if takes:
            assert quota.take("ann") is (used < limit)
            used = min(used + 1, limit)
        elif used:
            quota.release("ann")
            used -= 1
        assert quota.total == used
