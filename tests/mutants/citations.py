"""Mutants of citations and of the provider's own tools in the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/llm"
_WIRES = ("tests/llm/test_wire.py",)
_RUNS = ("tests/llm/tools/test_tools_wires.py",)

MUTANTS = (
    Mutant(
        "ranges of Gemini are taken as characters",
        f"{_LLM}/providers/gemini.py",
        '(len(encoded[:at].decode(errors="ignore")) for at in (start, end))',
        "(start, end)",
        ("tests/testing/test_official_libraries.py", *_WIRES),
    ),
    Mutant(
        "annotations count from the beginning of their part",
        f"{_LLM}/providers/_responses_items.py",
        "offset += len(",
        "offset += 0 * len(",
        _WIRES,
    ),
    Mutant(
        "a range outside of the answer is kept",
        f"{_LLM}/_reply.py",
        "return citation if inside else without_range(citation)",
        "return citation",
        _WIRES,
    ),
    Mutant(
        "citations that are sent again are delivered again",
        f"{_LLM}/_adapter.py",
        "if citation and citation not in self.citations",
        "if citation",
        _WIRES,
    ),
    Mutant(
        "blocks of server-side tools are not sent back",
        f"{_LLM}/providers/anthropic.py",
        'if not any(block["type"].endswith(_SERVER_TYPES) for block in typed):',
        "if typed:",
        _RUNS,
    ),
    Mutant(
        "a changed message is sent as it was received",
        f"{_LLM}/_adapter.py",
        'same = (content or "") == (message.get("content") or "") and len(calls) == len(known)',
        "same = len(calls) == len(known)",
        _RUNS,
    ),
    Mutant(
        "a run ends at a pause",
        f"{_LLM}/tools/_run_machine.py",
        'if not calls and not data.get("paused"):',
        "if not calls:",
        _RUNS,
    ),
    Mutant(
        "the result of a custom tool is sent as that of a function",
        f"{_LLM}/providers/responses.py",
        'if message["tool_call_id"] in custom else',
        "if False else",
        _WIRES,
    ),
)
