"""Prices: the same as those of `genai-prices` itself, for every model that it knows."""

import random
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot

from coreason_client.llm._cost import cost
from coreason_client.llm._terms import Tokens

MODELS = [
    (provider.id, model.id) for provider in get_snapshot().providers for model in provider.models
]


def reference(provider: str, model: str, tokens: Tokens) -> float | None:
    kinds = {
        "input_tokens": tokens.prompt,
        "output_tokens": tokens.completion,
        "cache_read_tokens": tokens.cached,
        "cache_write_tokens": tokens.cache_write,
    }
    if tokens.cache_write_1h:
        kinds["cache_write_1h_tokens"] = tokens.cache_write_1h
    try:
        price = calc_price(Usage(**kinds), model, provider_id=provider)
    except LookupError:
        return None
    return float(price.total_price)


def drawn(rng: random.Random, provider: str) -> Tokens:
    prompt = rng.choice([0, 10, 1000, 200_000, 200_001, 300_000])
    cached = rng.randint(0, prompt)
    written = rng.randint(0, prompt - cached)
    kept = rng.randint(0, written) if provider == "anthropic" else 0
    return Tokens(prompt, rng.randint(0, 5000), cached, written, kept)


@pytest.mark.proves("AI-6C-cost", "R31a")
def test_every_model_costs_what_the_table_says() -> None:
    rng = random.Random(7)
    sample = rng.sample(MODELS, 250)  # all of them take a minute, most of it in the library
    priced = 0
    for provider, model in sample:
        tokens = drawn(rng, provider)
        ours, theirs = cost(provider, model, tokens), reference(provider, model, tokens)
        if ours is not None:
            priced += 1
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-10), (provider, model, tokens)
    assert priced > 0.8 * len(sample)


def test_the_documented_default_has_its_price() -> None:
    assert cost("openai", "gpt-4-turbo", Tokens(150, 200)) == pytest.approx(0.0075)


@pytest.mark.proves("R31b")
@pytest.mark.parametrize("provider", [None, "openai", "nobody"])
def test_an_unknown_model_has_no_price(provider: str | None) -> None:
    assert cost(provider, "no-such-model-9", Tokens(1000, 1000)) is None


@pytest.mark.proves("R31c")
def test_a_model_at_an_unknown_host_is_priced_by_its_name() -> None:
    assert cost(None, "gpt-4o", Tokens(1_000_000, 0)) == 2.5
    assert cost(None, "claude-opus-4-5", Tokens(0, 1_000_000)) == 25.0


def test_a_known_host_does_not_take_the_price_of_another() -> None:
    assert cost("groq", "gpt-4o", Tokens(1000, 1000)) is None


def test_a_long_prompt_pays_the_higher_tier_for_all_of_it() -> None:
    assert cost("google", "gemini-2.5-pro", Tokens(200_000, 0)) == pytest.approx(0.25)
    assert cost("google", "gemini-2.5-pro", Tokens(200_001, 0)) == pytest.approx(0.5000025)


def test_more_cached_than_asked_costs_no_less_than_nothing() -> None:
    known = cost("anthropic", "claude-opus-4-5", Tokens(10, 0, cached=1000, cache_write=1000))
    assert known is not None
    assert known > 0


def test_a_price_of_the_day_is_looked_up_again() -> None:
    """A model whose price has a date costs what it did on that date."""
    dated = [
        (provider.id, model)
        for provider in get_snapshot().providers
        for model in provider.models
        if isinstance(model.prices, list) and len(model.prices) > 1
    ]
    assert dated
    before, after = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2026, 11, 1, 12, tzinfo=UTC)
    differing = 0
    for provider, model in dated[:20]:
        prices = [
            cost(provider, model.id, Tokens(1_000_000, 1_000_000), now=moment.timestamp)
            for moment in (before, after)
        ]
        for ours, moment in zip(prices, (before, after), strict=True):
            if ours is not None:
                theirs = model.get_prices(moment).calc_price(
                    Usage(input_tokens=1_000_000, output_tokens=1_000_000)
                )
                assert ours == pytest.approx(float(theirs["total_price"]))
        differing += prices[0] != prices[1]
    assert differing


def test_the_table_is_loaded_when_it_is_needed() -> None:
    code = (
        "import sys; from coreason_client.llm import LLMClient; "
        "LLMClient('k'); assert 'genai_prices' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
