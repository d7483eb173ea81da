"""The limits that providers report in headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._http._types import Headers
from coreason_client.llm.router._reservation import learned_limits
from coreason_client.llm.router._rules import Learned

NOW = 1_763_200_000.0  # Sat, 15 Nov 2025 09:46:40 GMT


def limits(**headers: str) -> tuple[Learned, ...]:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return learned_limits(Headers(named), lambda: NOW)


@pytest.mark.parametrize(
    ("headers", "learned"),
    [
        pytest.param(headers, learned, id=name)
        for name, headers, learned in (
            (
                "OpenAI",
                {
                    "x_ratelimit_limit_requests": "500",
                    "x_ratelimit_remaining_requests": "499",
                    "x_ratelimit_reset_requests": "120ms",
                    "x_ratelimit_limit_tokens": "30000",
                    "x_ratelimit_remaining_tokens": "0",
                    "x_ratelimit_reset_tokens": "6m0s",
                },
                (Learned("requests", 499, 1, 120), Learned("tokens", 0, 30_000, 360_000)),
            ),
            (
                "Groq",
                {
                    "x_ratelimit_limit_tokens": "18000",
                    "x_ratelimit_remaining_tokens": "17997",
                    "x_ratelimit_reset_tokens": "7.66s",
                },
                (Learned("tokens", 17_997, 3, 7660),),
            ),
            (
                "Azure",
                {
                    "x_ratelimit_limit_requests": "60",
                    "x_ratelimit_remaining_requests": "59",
                    "x_ratelimit_renewalperiod_requests": "60",
                },
                (Learned("requests", 59, 1, 60_000),),
            ),
            (
                "Mistral",
                {
                    "x_ratelimit_limit_req_minute": "30",
                    "x_ratelimit_remaining_req_minute": "3",
                    "x_ratelimit_limit_tokens_minute": "500000",
                    "x_ratelimit_remaining_tokens_minute": "499000",
                },
                (Learned("requests", 3, 27, 60_000), Learned("tokens", 499_000, 1000, 60_000)),
            ),
            (
                "Anthropic",
                {
                    "date": "Sat, 15 Nov 2025 09:46:40 GMT",
                    "anthropic_ratelimit_requests_limit": "50",
                    "anthropic_ratelimit_requests_remaining": "49",
                    "anthropic_ratelimit_requests_reset": "2025-11-15T09:46:41Z",
                    "anthropic_ratelimit_input_tokens_limit": "40000",
                    "anthropic_ratelimit_input_tokens_remaining": "39000",
                    "anthropic_ratelimit_input_tokens_reset": "2025-11-15T09:46:42Z",
                    "anthropic_ratelimit_output_tokens_limit": "8000",
                    "anthropic_ratelimit_output_tokens_remaining": "2000",
                    "anthropic_ratelimit_output_tokens_reset": "2025-11-15T09:47:25Z",
                },
                (Learned("requests", 49, 1, 1000), Learned("tokens", 2000, 6000, 45_000)),
            ),
            (
                "without a limit only the reset is known",
                {
                    "x_ratelimit_remaining_requests": "0",
                    "x_ratelimit_reset_requests": "2",
                },
                (Learned("requests", 0, 0, 2000),),
            ),
            ("without a reset", {"x_ratelimit_remaining_requests": "0"}, ()),
            ("without remaining", {"x_ratelimit_reset_requests": "1s"}, ()),
            (
                "reset already",
                {"x_ratelimit_remaining_tokens": "5", "x_ratelimit_reset_tokens": "0s"},
                (),
            ),
            (
                "longer than a day",
                {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "25h0m0s"},
                (),
            ),
            (
                "no number",
                {"x_ratelimit_remaining_tokens": "-1", "x_ratelimit_reset_tokens": "1s"},
                (),
            ),
            (
                "no time",
                {"x_ratelimit_remaining_tokens": "1", "x_ratelimit_reset_tokens": "soon"},
                (),
            ),
            ("nothing", {"content_type": "application/json"}, ()),
        )
    ],
)
def test_the_headers_of_each_provider(
    headers: dict[str, str], learned: tuple[Learned, ...]
) -> None:
    assert limits(**headers) == learned


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_any_value_is_read_or_ignored(limit: str, remaining: str, reset: str) -> None:
    found = limits(
        x_ratelimit_limit_requests=limit,
        x_ratelimit_remaining_requests=remaining,
        x_ratelimit_reset_requests=reset,
    )
    for learned in found:
        assert learned.remaining >= 0
        assert learned.missing >= 0
        assert 1 <= learned.ms <= 86_400_000
