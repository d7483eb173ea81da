"""The scripts in a real Valkey give the same replies as the rules in Python."""

from typing import Any

from hypothesis import example, given
from redis import Redis

from coreason_client.llm.router._rules import FIRST_COOLDOWN, Acquire, StateRules
from coreason_client.llm.router._scripts import (
    Invocation,
    acquire_call,
    acquired,
    settle_call,
    totals_call,
)
from tests.llm.router.commands import (
    ACCOUNTS,
    CANDIDATES,
    OPERATIONS,
    Finish,
    Operation,
    Pass,
    Reserve,
    play,
)
from tests.server.log.valkey_server import fresh_prefix, shared_server


def evaluate(client: Redis, invocation: Invocation) -> Any:
    script, keys, arguments = invocation
    return client.eval(script.source, len(keys), *keys, *arguments)


@given(OPERATIONS)
@example(
    [
        Reserve((0,)),
        Pass(61_000),
        Finish(0, None, None, "failure", 70_000),  # too late
        Reserve((0,)),
    ]
)
def test_the_scripts_follow_the_rules(operations: list[Operation]) -> None:
    rules, prefix = StateRules(), fresh_prefix()
    with Redis(port=shared_server().port, protocol=2) as client:
        for now, command in play(operations):
            if isinstance(command, Acquire):
                reply = evaluate(client, acquire_call(prefix, command, now))
                assert acquired(reply) == rules.acquire(command, now)
            else:
                evaluate(client, settle_call(prefix, command, FIRST_COOLDOWN, now))
                rules.settle(command, now)
            for account in ACCOUNTS:
                totals = evaluate(client, totals_call(prefix, account.name, now))
                assert tuple(map(int, totals)) == rules.totals(account.name, now)


def test_the_keys_of_one_prefix_share_a_hash_tag() -> None:
    command = Acquire("1", [], ACCOUNTS, 1)
    _, keys, _ = acquire_call("p", command)
    assert len(keys) == 5
    assert all(key.startswith("{p}:") for key in keys)


def test_without_a_time_the_clock_of_the_store_is_used() -> None:
    prefix = fresh_prefix()
    command = Acquire("1", [CANDIDATES[0]], ACCOUNTS, 60_000)
    with Redis(port=shared_server().port, protocol=2) as client:
        evaluate(client, acquire_call(prefix, command))
        seconds, _ = client.time()
        fields: Any = client.hgetall(f"{{{prefix}}}:deployment:a")
        [second] = [int(name[9:]) for name in fields if name.startswith(b"requests@")]
        assert abs(second - seconds) <= 1
        assert 0 < client.pttl(f"{{{prefix}}}:call:1") <= 120_000
        assert client.pttl(f"{{{prefix}}}:account:client") == -1
        assert client.pttl(f"{{{prefix}}}:account:key") > 0
