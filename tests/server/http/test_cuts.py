"""The connections that are cut, and the moment: without sockets."""

from contextlib import ExitStack
from uuid import UUID

from coreason_client.server.http import _cuts
from coreason_client.server.http._cuts import CutPlan, Cuts, CuttableConnection

ONE, TWO = UUID(int=1), UUID(int=2)


def test_a_cut_closes_the_connections_of_one_stream() -> None:
    cuts, closed = Cuts(), []
    with ExitStack() as stack:
        for name, stream_id in (("a", ONE), ("b", ONE), ("c", TWO)):
            stack.enter_context(cuts.reading(stream_id, lambda name=name: closed.append(name)))  # type: ignore[misc]
        with cuts.reading(ONE, lambda: closed.append("gone")):
            pass
        cuts.cut(ONE)
        assert sorted(closed) == ["a", "b"]
    cuts.cut(ONE)
    assert len(closed) == 2
    assert cuts._connections == {}


def test_a_seed_limits_the_connections_that_follow() -> None:
    cuts, plan, closed = Cuts(), CutPlan(7), []
    with cuts.reading(ONE, lambda: closed.append("first")):
        cuts.cut(ONE, 7)
        assert closed == ["first"]
    for _ in range(3):
        with cuts.reading(ONE, lambda: None) as next_one:
            assert next_one.left == plan.next()
    with cuts.reading(TWO, lambda: None) as other:
        assert other.left is None
    cuts.cut(ONE, 7)  # begins the plan again
    with cuts.reading(ONE, lambda: None) as again:
        assert again.left == CutPlan(7).next()
    cuts.cut(ONE)  # ends it
    with cuts.reading(ONE, lambda: None) as whole:
        assert whole.left is None


def test_a_connection_counts_its_packets() -> None:
    connection = CuttableConnection(lambda: None, 5)
    connection.sent(3)
    assert connection.left == 2
    connection.sent(2)
    assert connection.left == 0
    free = CuttableConnection(lambda: None, None)
    free.sent(1)
    assert free.left is None


def test_the_number_of_plans_is_limited() -> None:
    cuts = Cuts()
    for number in range(_cuts._MAX_PLANS + 5):
        cuts.cut(UUID(int=number), 1)
    assert len(cuts._plans) == _cuts._MAX_PLANS
    assert UUID(int=4) not in cuts._plans
    assert UUID(int=5) in cuts._plans
