"""Mutants of the Responses API in the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/llm"
_ADAPTER = f"{_LLM}/providers/responses.py"
_ITEMS = f"{_LLM}/providers/_responses_items.py"
_READER = f"{_LLM}/providers/_responses_reader.py"
_STATE = f"{_LLM}/providers/_responses_items.py"
_CALLS = f"{_LLM}/providers/_responses_reader.py"
_CHOICE = f"{_LLM}/_route.py"
_TESTS = "tests/llm/providers/test_responses"

MUTANTS = (
    Mutant(
        "a background response is read only once",
        f"{_LLM}/_reply.py",
        'if value.get("status") in _RUNNING and',
        'if value.get("status") == "queued" and',
        ("tests/llm/test_background.py",),
    ),
    Mutant(
        "a background response is requested again instead of read",
        f"{_LLM}/_reply.py",
        "if not attempts.plan.free:",
        "if False:",
        ("tests/llm/test_background.py",),
    ),
    Mutant(
        "the provider stores conversations",
        _ADAPTER,
        '"store": False}',
        '"store": True}',
        ("tests/llm/test_wire.py",),
    ),
    Mutant(
        "tools are strict",
        _ADAPTER,
        'function.get("strict", False)',
        'function.get("strict", True)',
        ("tests/llm/test_wire.py",),
    ),
    Mutant(
        "items of one provider are sent to another",
        f"{_LLM}/_adapter.py",
        'message.get("provider_items", {}).get(provider, ())',
        'next(iter(message.get("provider_items", {}).values()), ())',
        (f"{_TESTS}_items.py",),
    ),
    Mutant(
        "reasoning that only the provider knows is sent back",
        _ITEMS,
        'bool(item.get("encrypted_content") or item.get("content"))',
        "True",
        (f"{_TESTS}_items.py",),
    ),
    Mutant(
        "repeated events are read again",
        _STATE,
        'return "repeated" if self._increasing else None',
        "return None",
        (f"{_TESTS}_state.py", f"{_TESTS}_reader.py"),
    ),
    Mutant(
        "equal numbers make events repeated",
        _STATE,
        "self._unusable, self.last = True, None",
        "return True",
        (f"{_TESTS}_state.py", f"{_TESTS}_reader.py"),
    ),
    Mutant(
        "a text that differs from its deltas is delivered again",
        _STATE,
        'if whole.startswith(received) else ""',
        "",
        (f"{_TESTS}_state.py",),
    ),
    Mutant(
        "an id may lead to another path",
        _READER,
        "if self.response_id is None and _ID.fullmatch(id_):",
        "if self.response_id is None:",
        (f"{_TESTS}_reader.py",),
    ),
    Mutant(
        "an answer that failed is an answer",
        _READER,
        "status in _FAILED:",
        "False:",
        (f"{_TESTS}_reader.py",),
    ),
    Mutant(
        "calls at the same index are one call",
        _CALLS,
        "number = None  # another call at the same index",
        "pass",
        (f"{_TESTS}_calls.py",),
    ),
    Mutant(
        "a provider without the API is asked in another format",
        _CHOICE,
        "if not has_responses and own:",
        "if False:",
        ("tests/llm/test_wire_choice.py",),
    ),
    Mutant(
        "wire=chat does not count for models that only have the API",
        _CHOICE,
        "if wire is None and only_there",
        "if only_there",
        ("tests/llm/test_wire_choice.py",),
    ),
)
