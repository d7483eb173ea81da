"""The delay that a provider asks for: which header counts, and what each form means."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.llm._answer import ProviderFault
from coreason_client.llm._server_delay import server_delay

NOW = 1_794_736_800.0  # 2026-11-15T10:00:00Z
IN_30_S = "2026-11-15T10:00:30Z"


def hint(status: int, fault: ProviderFault | None = None, /, **headers: str) -> float | None:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return server_delay(
        ResponseHead(status, Headers(pairs)), fault or ProviderFault(""), lambda: NOW
    )


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("7.66s", 7.66),
        ("1m", 60.0),
        ("1s500ms", 1.5),
        ("27", 27.0),  # Azure writes seconds
        (IN_30_S, 30.0),
        ("2026-11-15T11:00:30+01:00", 30.0),
        ("0s", None),
        ("2026-11-15T09:00:00Z", None),  # it has passed
        ("", None),
        ("soon", None),
        ("-5s", None),
        ("1e9s", None),
        ("2026-99-15T10:00:30Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("٣s", None),
    ],
)
def test_what_a_reset_means(value: str, seconds: float | None) -> None:
    assert hint(429, x_ratelimit_reset_tokens=value) == seconds


@pytest.mark.parametrize("limit", ["requests", "tokens", "input-tokens", "output-tokens"])
def test_the_limits_of_anthropic(limit: str) -> None:
    assert hint(429, **{f"anthropic-ratelimit-{limit}-reset": IN_30_S}) == 30.0


def test_a_moment_is_measured_from_the_clock_of_the_response() -> None:
    headers = {"anthropic_ratelimit_tokens_reset": IN_30_S}
    assert hint(429, date="Sun, 15 Nov 2026 10:00:10 GMT", **headers) == 20.0


def test_resets_are_the_last_resort() -> None:
    reset = {"x_ratelimit_reset_requests": "9s"}
    assert hint(429, **reset) == 9.0
    assert hint(429, retry_after="4", **reset) == 4.0
    assert hint(429, retry_after_ms="2500", **reset) == 2.5
    assert hint(429, ProviderFault("", retry_after=3.0), **reset) == 3.0
    assert hint(429, retry_after_ms="0", retry_after="0", **reset) == 9.0


@pytest.mark.parametrize("status", [200, 400, 500, 503, 529])
def test_resets_count_with_a_429_only(status: int) -> None:
    assert hint(status, x_ratelimit_reset_requests="9s") is None


def test_a_limit_with_something_left_is_not_the_cause() -> None:
    both = {"x_ratelimit_reset_requests": "9s", "x_ratelimit_reset_tokens": "3s"}
    assert hint(429, **both) == 9.0
    assert hint(429, x_ratelimit_remaining_requests="12", **both) == 3.0
    assert hint(429, x_ratelimit_remaining_requests="0", **both) == 9.0
    assert (
        hint(429, x_ratelimit_remaining_requests="12", x_ratelimit_remaining_tokens="1", **both)
        is None
    )


@given(st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40))
@example("9" * 400)
@example("9999-12-31T23:59:59-23:59")
def test_any_reset_is_a_positive_time_or_nothing(value: str) -> None:
    found = hint(429, x_ratelimit_reset_tokens=value)
    assert found is None or found > 0
