"""The flow of `generate`, with any sequence of outcomes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import (
    LLMError,
)
from coreason_client.llm._limits import RateLimits
from tests.llm.play import (
    OUTCOMES,
    SETTINGS,
    Play,
    check,
)


@pytest.mark.proves("R27c", "R27e")
@given(outcomes=st.lists(OUTCOMES, min_size=1, max_size=20), **SETTINGS)
def test_every_call_ends_within_its_budget_and_its_deadline(
    outcomes: list[Any],
    models: int,
    retries: int,
    deadline: float,
    seconds: float,
    jitter: float,
    *,
    limited: bool,
) -> None:
    play = Play(
        *outcomes,
        models=[f"model-{number}" for number in range(models)],
        seconds=seconds,
        max_retries=retries,
        deadline=deadline,
        jitter=lambda: jitter,
        limits=RateLimits(10, 1000) if limited else None,
    )
    try:
        response = play.run()
    except LLMError as error:
        check(play, error, models, retries, deadline)
    else:
        check(play, None, models, retries, deadline)
        assert response["data"]["content"] == "Hi"
        asked = play.bodies[-1]["model"]
        assert response.get("model", "model-0") == asked
