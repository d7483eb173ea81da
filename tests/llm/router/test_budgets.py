"""The arguments of a budget, and the accounts of its periods and keys."""

from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import Budget, LLMRequestError
from coreason_client.llm.router._rules import Account
from coreason_client.llm.router.budgets import check_budgets

DAY = 86_400.0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": float("nan")}, "limit"),
        ({"limit": 2e6}, "limit"),
        ({"period": 0}, "period"),
        ({"period": "day"}, "period"),
        ({"per": "call"}, "per"),
        ({"unpriced": "maybe"}, "unpriced"),
        ({"unpriced": -0.1}, "unpriced"),
        ({"unpriced": True}, "unpriced"),
        ({"name": 7}, "name"),
        ({"wait": 1}, "wait"),
    ],
)
def test_a_wrong_argument(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Budget(**{"limit": 1.0, **arguments})
    assert caught.value.argument == name


def test_a_period_begins_at_a_multiple_of_its_length() -> None:
    budget = Budget(5, DAY)
    first, last = budget.account(None, 10 * DAY), budget.account(None, 11 * DAY - 0.001)
    assert first == last == Account(":client:86400:10", 5_000_000_000, int(11 * DAY * 1000))
    assert budget.account(None, 11 * DAY) != first
    assert Budget(5).account(None, 0) == Budget(5).account(None, 1e9)


def test_the_limit_may_change_within_a_period() -> None:
    assert Budget(5, DAY).account(None, 0).name == Budget(6, DAY).account(None, 0).name


def test_each_key_has_an_account_that_does_not_reveal_it() -> None:
    budget = Budget(5, per="key")
    one, two = budget.account("customer-1", 0), budget.account("customer-2", 0)
    assert one.name != two.name
    assert "customer" not in one.name
    with pytest.raises(LLMRequestError, match="budget_key is required"):
        budget.account(None, 0)


def test_a_list_of_budgets() -> None:
    daily, monthly = Budget(5, DAY), Budget(50, 30 * DAY)
    assert check_budgets(None) == ()
    assert check_budgets(daily) == (daily,)
    assert check_budgets([daily, monthly]) == (daily, monthly)
    for wrong in (5.0, [5.0], [daily, Budget(6, DAY)]):
        with pytest.raises(ArgumentError) as caught:
            check_budgets(wrong)
        assert caught.value.argument == "budgets"
    assert len(check_budgets([daily, Budget(6, DAY, name="other")])) == 2
