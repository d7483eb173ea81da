"""The models of OpenAI that reason, and so reject sampling parameters."""

import pytest

from coreason_client.llm.providers._openai import reasoning_mode, reasons


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        ("o3", "always"),
        ("o1-pro", "always"),
        ("gpt-5", "always"),
        ("gpt-5-chat-latest", "never"),
        ("gpt-5.1", "opt-in"),
        ("gpt-5.1-codex-max", "always"),
        ("gpt-5.3-codex", "always"),
        ("codex-mini-latest", "always"),
        ("other-codex-7b", "never"),
        ("gpt-5.5", "default"),
        ("gpt-5.5-pro", "always"),
        ("openai/gpt-5.1", "opt-in"),
        ("gpt-4o", "never"),
        ("my-o3", "never"),
    ],
)
def test_the_first_matching_prefix_counts(model: str, mode: str) -> None:
    assert reasoning_mode(model) == mode


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("o3", None, True),
        ("o3", "none", True),
        ("gpt-5.5", None, True),
        ("gpt-5.5", "none", False),
        ("gpt-5.1", None, False),
        ("gpt-5.1", "none", False),
        ("gpt-5.1", "low", True),
        ("gpt-4o", "low", False),
    ],
)
def test_the_effort_decides_where_the_model_leaves_it_open(
    model: str, effort: str | None, *, expected: bool
) -> None:
    assert reasons(model, effort) is expected
