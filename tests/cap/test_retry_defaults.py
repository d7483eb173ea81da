"""For how long a stream reconnects, by what the caller has passed."""

import pytest

from coreason_client.cap._protocol import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_RECONNECT_FOR,
    reconnect_seconds,
)


def test_the_defaults_are_three_retries_and_thirty_seconds() -> None:
    assert (DEFAULT_MAX_RETRIES, DEFAULT_RECONNECT_FOR) == (3, 30.0)


@pytest.mark.parametrize(
    ("max_retries", "reconnect_for", "expected"),
    [
        (DEFAULT_MAX_RETRIES, None, 30.0),
        (3, None, 0.0),  # the number of the caller counts, even if it equals the default
        (0, None, 0.0),
        (5, None, 0.0),
        (DEFAULT_MAX_RETRIES, 0.0, 0.0),
        (DEFAULT_MAX_RETRIES, 90.0, 90.0),
        (5, 90.0, 90.0),
    ],
)
def test_time_counts_unless_the_caller_passes_a_number_alone(
    max_retries: int, reconnect_for: float | None, expected: float
) -> None:
    assert reconnect_seconds(max_retries, reconnect_for) == expected
