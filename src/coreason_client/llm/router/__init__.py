"""Several deployments behind one name, budgets, and a cache of answers.

`deployments.py`, `budgets.py`, `cache.py` and `state.py` have the public names. `_rules.py` has the
rules of the state: cooldowns, limits and budgets; `_scripts.py` has the same rules as Lua scripts
for Valkey. `_call_gate.py` applies them to one call.
"""
