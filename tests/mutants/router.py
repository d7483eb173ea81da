"""Mutants of the router, the budgets and the cache of the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_ROUTER = "coreason_client/llm/router"
_RULES = f"{_ROUTER}/_rules.py"
_RULE_TESTS = ("tests/llm/router/test_rules.py",)
_SCRIPTS = f"{_ROUTER}/_scripts.py"
_SCRIPT_TESTS = ("tests/llm/router/test_scripts.py",)
_GATE = f"{_ROUTER}/_call_gate.py"
_GATE_TESTS = ("tests/llm/router/test_call_gate.py", "tests/llm/router/test_accounting.py")
_CACHE = f"{_ROUTER}/_cached_answer.py"
_CACHE_TESTS = ("tests/llm/router/test_cached_answer.py",)

MUTANTS = (
    Mutant(
        "a call that is cancelled while it is settled stays reserved",
        _GATE,
        "await asyncio.shield(settling)",
        "await settling",
        _GATE_TESTS,
    ),
    Mutant(
        "a call waits for a budget into which it cannot fit",
        _GATE,
        "fits = refused.reserved > 0 and refused.spent + amount <= account.limit",
        "fits = refused.reserved > 0",
        _GATE_TESTS,
    ),
    Mutant(
        "a call waits for a budget beyond its deadline",
        _GATE,
        "if budget.wait and fits and self._poll < seconds_left:",
        "if budget.wait and fits:",
        _GATE_TESTS,
    ),
    Mutant(
        "every budget waits",
        _GATE,
        "if budget.wait and fits and self._poll < seconds_left:",
        "if fits and self._poll < seconds_left:",
        _GATE_TESTS,
    ),
    Mutant(
        "reservations in flight do not count for a budget",
        _RULES,
        "if balance.spent + balance.reserved + candidate.amounts[place] > account.limit:",
        "if balance.spent + candidate.amounts[place] > account.limit:",
        _RULE_TESTS,
    ),
    Mutant(
        "an expired reservation is free",
        _RULES,
        "balance.settle(id_, None)",
        "balance.settle(id_, 0)",
        _RULE_TESTS,
    ),
    Mutant(
        "a repeated command reserves again",
        _RULES,
        "if (record := self._records.get(command.id)) is not None:",
        "if (record := None) is not None:",
        _RULE_TESTS,
    ),
    Mutant(
        "failures of requests that were sent before prolong a cooldown",
        _RULES,
        "cooling, cooldown = now < self.cooldown_end, settle.cooldown",
        "cooling, cooldown = False, settle.cooldown",
        _RULE_TESTS,
    ),
    Mutant(
        "the current second is not part of the window",
        _RULES,
        "return (second + _WINDOW + 1) * 1000 - now",
        "return (second + _WINDOW) * 1000 - now",
        _RULE_TESTS,
    ),
    Mutant(
        "in Valkey, reservations in flight do not count for a budget",
        _SCRIPTS,
        "if not refusal and spent + reserved + amount > limit then",
        "if not refusal and spent + amount > limit then",
        _SCRIPT_TESTS,
    ),
    Mutant(
        "in Valkey, an expired reservation can be settled",
        _SCRIPTS,
        "if not record[1] or tonumber(record[4]) <= now then return 0 end",
        "if not record[1] then return 0 end",
        _SCRIPT_TESTS,
    ),
    Mutant(
        "in Valkey, a settled amount replaces nothing",
        _SCRIPTS,
        "add(account, 'spent', tonumber(ARGV[8 + place]) or tonumber(reserved))",
        "add(account, 'spent', tonumber(reserved))",
        _SCRIPT_TESTS,
    ),
    Mutant(
        "an abandoned request is free",
        _GATE,
        "self._settle(self._attempt, None, nothing=not self._attempt.sent)",
        "self._settle(self._attempt, None, nothing=True)",
        _GATE_TESTS,
    ),
    Mutant(
        "a reservation whose reply was lost is kept",
        _GATE,
        "self._unsettled.append(Settle(self._acquire.id, candidate, accounts, nothing, 0))",
        "pass",
        _GATE_TESTS,
    ),
    Mutant(
        "a request that did not reach the provider costs its reservation",
        _GATE,
        "nothing = failure.unsent or (error.status is not None and error.status != 200)",
        "nothing = error.status is not None and error.status != 200",
        _GATE_TESTS,
    ),
    Mutant(
        "a budget without its state allows everything",
        _GATE,
        "if acquire.accounts:\n                return result",
        "if not acquire:\n                return result",
        _GATE_TESTS,
    ),
    Mutant(
        "a deployment is tried again before the others",
        _GATE,
        "return sorted(usable, key=lambda option: option.id in self.tried)",
        "return usable",
        _GATE_TESTS,
    ),
    Mutant(
        "a truncated answer is cached",
        _CACHE,
        'cut = data["finish_reason"] == "length" or data.get("truncated")',
        'cut = data.get("truncated")',
        _CACHE_TESTS,
    ),
    Mutant(
        "the answer of a fallback is cached",
        _CACHE,
        "self._key is None or self._attempts.previous_errors or not",
        "self._key is None or not",
        _CACHE_TESTS,
    ),
    Mutant(
        "the cache answers another budget key",
        _CACHE,
        '[b"credentials", own, *sorted(parts)]',
        '[b"credentials", *sorted(parts)]',
        _CACHE_TESTS,
    ),
    Mutant(
        "the cache looks only at the first deployment's credentials",
        _CACHE,
        "for route in self._routes:",
        "for route in [self._plan.route]:",
        _CACHE_TESTS,
    ),
    Mutant(
        "a call that is cancelled leaves those that wait for it alone",
        _CACHE,
        "value = ABANDONED\n            response",
        "value = None\n            response",
        _CACHE_TESTS,
    ),
    Mutant(
        "retries are not counted while another deployment was not tried",
        _ROUTER,
        "if first_failure and any(option.id not in stage.tried for option in candidates):",
        "if any(option.id not in stage.tried for option in candidates):",
        _GATE_TESTS,
    ),
    Mutant(
        "a budget may be exceeded by its last request",
        "coreason_client/llm/router",
        "candidate.amounts[place] > account.limit:",
        "candidate.amounts[place] > account.limit + 1:",
        ("tests/llm/router/test_rules.py", "tests/llm/router/test_state.py"),
    ),
    Mutant(
        "the reservations of a parent process count after a fork",
        "coreason_client/llm/router",
        "            balance.open.clear()\n            balance.reserved = 0\n",
        "            pass\n",
        ("tests/llm/router/test_rules.py", "tests/llm/router/test_state.py"),
    ),
    Mutant(
        "a deployment of the weight 0 is used like any other",
        "coreason_client/llm/router",
        "return deployment.weight == 0, draw",
        "return False, draw",
        ("tests/llm/router/test_selection.py",),
    ),
    Mutant(
        "a deployment needs one of the tags",
        "coreason_client/llm/router",
        "if set(tags) <= set(one.tags)]",
        "if set(tags) & set(one.tags)]",
        ("tests/llm/router/test_selection.py",),
    ),
    Mutant(
        "a model is a fallback of itself",
        "coreason_client/llm/router",
        "        self._tried = {first}\n",
        "        self._tried: set[str] = set()\n",
        ("tests/llm/router/test_selection.py", "tests/llm/router/test_call_gate.py"),
    ),
    Mutant(
        "a cooldown grows without a limit",
        "coreason_client/llm/router",
        "cooldown = min(doubled, settle.longest)",
        "cooldown = doubled",
        ("tests/llm/router/test_rules.py", "tests/llm/router/test_state.py"),
    ),
)
