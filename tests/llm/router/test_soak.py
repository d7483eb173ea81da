"""Two processes on one Valkey, against a provider that fails, throttles, hangs and breaks off.

Nothing is counted twice or not at all: the sums in Valkey are those of the attempts that the
processes report, and the provider got no request that was not reserved. The budget is exceeded at
most by one error of the estimate for each call in flight. The variable ROUTER_SOAK_SEEDS sets the
number of seeds.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from coreason_client.llm import Budget, ValkeyState
from tests.llm.router.soak_child import BUDGET, CONCURRENCY, KEYS
from tests.llm.server import Received, Replied, ServerInThread
from tests.server.log.valkey_server import fresh_prefix, shared_server

CALLS = 50
SSE = {"content-type": "text/event-stream"}
PIECE = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
LONG_PROMPT = 2000  # far more than the estimate
LIMIT = 60.0  # seconds for everything


def usage(draw: random.Random, numbers: Iterator[int]) -> dict[str, int]:
    prompt = LONG_PROMPT if next(numbers) % 10 == 3 else 20
    return {"prompt_tokens": prompt, "completion_tokens": draw.randint(1, 50)}


def mixed(draw: random.Random, numbers: Iterator[int], received: Received) -> Replied:
    kind = draw.random()
    if kind < 0.1:
        return Replied(500)
    if kind < 0.2:
        return Replied(429, {"retry-after-ms": "20"})
    if kind < 0.25:
        return Replied(400)
    if kind < 0.28:
        return Replied(silent=True)
    if received.json.get("stream"):
        cut = kind < 0.4
        counted = json.dumps({"choices": [], "usage": usage(draw, numbers)}).encode()
        rest = [] if cut else [END, b"data: " + counted + b"\n\n", b"data: [DONE]\n\n"]
        return Replied(200, SSE, chunks=[PIECE, PIECE, *rest], cut=cut)
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
    return Replied(body=json.dumps({"choices": [choice], "usage": usage(draw, numbers)}).encode())


def start(url: str, prefix: str, seed: int, calls: int, path: str) -> subprocess.Popen[str]:
    arguments = [url, shared_server().url, prefix, str(seed), str(calls), path]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.llm.router.soak_child", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def settled(lines: Sequence[str]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return what was reserved and what was spent for each attempt of a process."""
    reserved: dict[str, list[int]] = {}
    spent: dict[str, list[int]] = {}
    for kind, name, amounts in map(json.loads, lines):
        if kind == "refuse":
            continue
        if kind == "grant":
            assert reserved.setdefault(name, amounts) == amounts
        elif name in reserved:
            final = amounts or [None] * len(reserved[name])
            whole = [
                was if amount is None else amount
                for was, amount in zip(reserved[name], final, strict=True)
            ]
            assert spent.setdefault(name, whole) == whole
    return reserved, spent


def totals(state: ValkeyState, budget: Budget, key: str | None = None) -> tuple[int, int]:
    return state.totals(budget.account(key, time.time()).name)


@pytest.mark.parametrize("seed", range(int(os.environ.get("ROUTER_SOAK_SEEDS", "1"))))
def test_two_processes_share_budgets(seed: int) -> None:
    draw, prefix = random.Random(seed), fresh_prefix()
    with ServerInThread() as server, ValkeyState(shared_server().url, prefix=prefix) as state:
        numbers = itertools.count()
        server.reply = lambda received: mixed(draw, numbers, received)
        children = [start(server.url, prefix, seed * 10 + n, CALLS, "mix") for n in range(2)]
        outputs = [child.communicate(timeout=LIMIT)[0].splitlines() for child in children]
        assert [child.returncode for child in children] == [0, 0]
        reserved: dict[str, list[int]] = {}
        spent: dict[str, list[int]] = {}
        for lines in outputs:
            some_reserved, some_spent = settled(lines)
            reserved.update(some_reserved)
            spent.update(some_spent)
        assert reserved.keys() == spent.keys()  # each attempt was settled
        assert any(line.startswith('["refuse"') for lines in outputs for line in lines)
        assert len(server.received) <= len(reserved)  # no request without a reservation
        total = sum(amounts[0] for amounts in spent.values())
        assert totals(state, BUDGET) == (total, 0)
        keys = [totals(state, KEYS, f"key-{number}") for number in range(3)]
        assert [held for _, held in keys] == [0, 0, 0]
        assert sum(amount for amount, _ in keys) == sum(one[1] for one in spent.values())
        errors = [spent[name][0] - amounts[0] for name, amounts in reserved.items()]
        worst = max(0, *errors)
        assert worst > 0  # the estimate was too low at least once
        in_flight = 2 * CONCURRENCY
        assert total <= BUDGET.limit * 1e9 + in_flight * worst
        for amount, _ in keys:
            assert amount <= KEYS.limit * 1e9 + in_flight * worst


def test_the_reservations_of_a_process_that_dies_expire_as_spent() -> None:
    prefix = fresh_prefix()
    with (
        ServerInThread(Replied(silent=True)) as server,
        ValkeyState(shared_server().url, prefix=prefix) as state,
        start(server.url, prefix, 1, 1, "hang") as child,
    ):
        assert child.stdout is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait(LIMIT)
        reserved, _ = settled([line])
        [amounts] = reserved.values()
        assert totals(state, BUDGET) == (0, amounts[0])
        deadline = time.monotonic() + LIMIT
        while (found := totals(state, BUDGET))[1] > 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert found == (amounts[0], 0)
        assert totals(state, KEYS, "key-0") == (amounts[1], 0)
