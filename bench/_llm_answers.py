"""The question that all clients of the AI benchmark ask, and the check of its answers."""

from collections.abc import Callable
from typing import TypeAlias

from ._fake_llm import MODEL
from ._measure import Turn, timed

__all__ = ["BODY", "KEY", "MESSAGES", "Answer", "checked_turn"]

KEY = "sk-nobody"
MESSAGES = [
    {"role": "system", "content": "You are an analyst. Answer in one short paragraph."},
    {"role": "user", "content": "How was the year? Say where revenue grew, and by how much."},
]
BODY = {"model": MODEL, "messages": MESSAGES, "temperature": 0.7, "max_tokens": 2000}

Answer: TypeAlias = tuple[str, int]
"""The text, and the tokens that it took."""


def checked_turn(ask: Callable[[], list[Answer]], expected: list[Answer], units: int) -> Turn:
    """Make a turn whose answers are looked at when the time has been taken."""
    found: list[Answer] = []

    def work() -> int:
        found[:] = ask()
        return units

    measured = timed(work, units)

    def turn() -> float:
        spent = measured()
        if found != expected:
            raise AssertionError("the answers are not the ones that were sent")
        return spent

    return turn
