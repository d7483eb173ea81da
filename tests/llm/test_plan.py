"""The encoded request of one model, and parameters that it must do without."""

import pytest

from tests.llm.play import (
    Play,
    reply,
    unsupported,
)


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [
        ("m", "max_tokens", "max_completion_tokens"),
        ("openai/m", "max_completion_tokens", "max_tokens"),
    ],
)
def test_the_length_is_renamed(model: str, old: str, new: str) -> None:
    play = Play(unsupported(old), reply(), models=[model])
    play.run()
    first, second = play.bodies
    assert first.pop(old) == second.pop(new) == 100
    assert first == second


def test_a_nested_parameter_is_dropped_with_what_holds_it() -> None:
    play = Play(unsupported("reasoning.effort"), reply(), extra={"reasoning": {"effort": "high"}})
    play.run()
    assert "reasoning" not in play.bodies[1]
