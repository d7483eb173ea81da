"""Back-off arithmetic and what a server asks for."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._retry import Backoff, parse_seconds, retry_after
from tests.fuzz.strategies import examples

LEAST_JITTER, MOST_JITTER = 0.0, 1.0
jitters = st.floats(LEAST_JITTER, MOST_JITTER)
failure_counts = st.integers(1, 100) | st.integers(1, 10**9)
server_delays = st.floats(0, 1000)
backoffs = st.builds(
    Backoff,
    first=st.floats(0.01, 10),
    longest=st.floats(0.01, 100),
    max_server_delay=st.floats(0, 200),
)


def wait(
    backoff: Backoff, failures: int, jitter: float, server_delay: float | None = None
) -> float | None:
    return backoff.retry_delay(failures, server_delay, lambda: jitter)


def must_wait(
    backoff: Backoff, failures: int, jitter: float, server_delay: float | None = None
) -> float:
    delay = wait(backoff, failures, jitter, server_delay)
    assert delay is not None
    return delay


# Back-off


@pytest.mark.proves("RFC004-3.2-first-delay", "R07e")
def test_the_first_delay_is_half_a_second_before_jitter() -> None:
    assert wait(Backoff(), 1, LEAST_JITTER) == 0.5


@pytest.mark.proves("RFC004-3.2-backoff", "R07e")
def test_the_delay_doubles_up_to_30_seconds() -> None:
    delays = [wait(Backoff(), failures, LEAST_JITTER) for failures in range(1, 11)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]


def test_jitter_can_be_added() -> None:
    backoff = Backoff(first=1.0, spread=0.25)
    assert [wait(backoff, 3, jitter) for jitter in (0.0, 0.5, 1.0)] == [4, 4.5, 5]


@pytest.mark.proves("R07e")
def test_jitter_takes_away_up_to_half() -> None:
    assert [wait(Backoff(), 3, jitter) for jitter in (0.0, 0.5, 1.0)] == [2, 1.5, 1]


@given(backoffs, failure_counts, jitters)
@settings(deadline=None)
@pytest.mark.proves("R07e", "RFC004-3.2-backoff")
def test_a_delay_lies_between_half_of_the_full_one_and_the_full_one(
    backoff: Backoff, failures: int, jitter: float
) -> None:
    full = min(backoff.first * 2.0 ** min(failures - 1, 100), backoff.longest)
    assert full / 2 <= must_wait(backoff, failures, jitter) <= full <= backoff.longest


@given(backoffs, failure_counts, jitters)
@settings(deadline=None)
@pytest.mark.proves("RFC004-3.2-backoff")
def test_for_the_same_jitter_a_delay_never_shrinks(
    backoff: Backoff, failures: int, jitter: float
) -> None:
    for same in (LEAST_JITTER, jitter, MOST_JITTER):
        assert must_wait(backoff, failures, same) <= must_wait(backoff, failures + 1, same)


@given(st.integers(1, 5), jitters, jitters)
@settings(deadline=None)
@pytest.mark.proves("RFC004-3.2-backoff")
def test_while_delays_double_they_never_shrink_whatever_the_jitter(
    failures: int, one: float, other: float
) -> None:
    assert must_wait(Backoff(), failures, one) <= must_wait(Backoff(), failures + 1, other)


@pytest.mark.parametrize("failures", [64, 65, 66, 1024, 1025, 10**6, 10**100])
@pytest.mark.proves("RFC004-3.2-backoff")
def test_any_number_of_failures_has_a_delay(failures: int) -> None:
    assert wait(Backoff(), failures, LEAST_JITTER) == 30
    assert wait(Backoff(), failures, MOST_JITTER) == 15


@given(backoffs, failure_counts, jitters, server_delays)
@settings(deadline=None)
@pytest.mark.proves("R07f")
def test_a_server_delay_is_a_lower_bound_and_beyond_the_cap_the_end(
    backoff: Backoff, failures: int, jitter: float, server_delay: float
) -> None:
    delay = wait(backoff, failures, jitter, server_delay)
    if server_delay > backoff.max_server_delay:
        assert delay is None
    else:
        assert delay == max(server_delay, must_wait(backoff, failures, jitter))


@pytest.mark.parametrize(
    ("server_delay", "delay"),
    [
        (None, 0.5),
        (0.0, 0.5),
        (0.4, 0.5),
        (0.6, 0.6),
        (30.5, 30.5),  # longer than our longest delay
        (60.0, 60.0),
        (math.nextafter(60, 61), None),
        (61.0, None),
        (1e12, None),
        (math.inf, None),
    ],
)
@pytest.mark.proves("R07f")
def test_a_server_delay_up_to_60_seconds_is_granted(
    server_delay: float | None, delay: float | None
) -> None:
    assert wait(Backoff(), 1, LEAST_JITTER, server_delay) == delay


@given(backoffs, failure_counts, jitters)
@settings(deadline=None)
def test_without_a_server_delay_a_retry_waits_for_the_plain_delay(
    backoff: Backoff, failures: int, jitter: float
) -> None:
    assert wait(backoff, failures, jitter) == backoff.delay(failures, lambda: jitter)


@pytest.mark.parametrize("server_delay", [1.0, 16.0, 60.0])
def test_jitter_never_goes_below_a_server_delay(server_delay: float) -> None:
    assert wait(Backoff(), 1, MOST_JITTER, server_delay) == server_delay


@pytest.mark.proves("R07f")
def test_the_cap_can_be_set() -> None:
    assert wait(Backoff(max_server_delay=5), 1, LEAST_JITTER, 5) == 5
    assert wait(Backoff(max_server_delay=5), 1, LEAST_JITTER, 5.1) is None
    assert wait(Backoff(max_server_delay=500), 1, LEAST_JITTER, 500) == 500


def test_a_backoff_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Backoff().first = 1.0  # type: ignore[misc]


# Numbers on the wire


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("007", 7.0),
        ("1.5", 1.5),
        ("0.001", 0.001),
        (" 7\t", 7.0),
        ("999999999999", 999999999999.0),
        (0, 0.0),
        (7, 7.0),
        (1.5, 1.5),
        (999_999_999_999, 999999999999.0),
    ],
)
def test_a_number_of_seconds(value: object, expected: float) -> None:
    found = parse_seconds(value)
    assert found == expected
    assert type(found) is float


NONSENSE = [
    *(
        "",
        " ",
        "1_000",
        "+7",
        "-1",
        "-0",
        "nan",
        "inf",
        "Infinity",
        "1e3",
        "0x10",
        "1,5",
        "1.",
        ".5",
    ),
    *("1 2", "7s", "7\n", "\u00a07", "1.2.3", "\u0661\u0662", "\uff17", "\u00b2", "seven", "None"),
    *("9" * 13, "9" * 400, "0." + "3" * 13),
]


@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_is_no_number_of_seconds(value: str) -> None:
    assert parse_seconds(value) is None
    assert retry_after({"retry-after": value}, lambda: 0.0) is None
    assert retry_after({"retry-after-ms": value}, lambda: 0.0) is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, -1, -0.5, math.nan, math.inf, -math.inf, 10**12, 1e12, 10**400),
        *([], [7], {}, b"7", 7j),
    ],
)
def test_what_is_no_number_from_0_on_is_no_number_of_seconds(value: object) -> None:
    assert parse_seconds(value) is None


@given(st.text(max_size=8) | st.text("0123456789.+-_eE \u0663", max_size=8))
@examples(300)
def test_any_text_gives_a_finite_number_from_0_on_or_nothing(value: str) -> None:
    found = parse_seconds(value)
    assert found is None or 0 <= found < 10**12


# What a response asks for

NOW = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": "0"}, 0.0, id="at once"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="decimals"),
        pytest.param({"retry-after-ms": "1500"}, 1.5, id="milliseconds"),
        pytest.param({"retry-after-ms": "0.5"}, 0.0005, id="part of a millisecond"),
        pytest.param({"retry-after-ms": "20", "retry-after": "7"}, 0.02, id="milliseconds win"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "7"}, 7.0, id="bad milliseconds"),
        pytest.param({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 10.0, id="a date"),
        pytest.param({"retry-after": "Sunday, 06-Nov-94 08:49:47 GMT"}, 10.0, id="a date, RFC 850"),
        pytest.param({"retry-after": "Sun, 06 Nov 1994 09:49:47 +0100"}, 10.0, id="a date, zone"),
        pytest.param({"retry-after": DATE}, 0.0, id="a date, now"),
        pytest.param({"retry-after": "Sun, 06 Nov 1994 08:49:36 GMT"}, None, id="a date, past"),
        pytest.param(
            {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 252618189022.0, id="the end"
        ),
        pytest.param({"retry-after": "Sun, 32 Nov 1994 08:49:47 GMT"}, None, id="no such day"),
        pytest.param({"retry-after": "Sun, 06 Nov 1994"}, None, id="half a date"),
        pytest.param({"retry-after": "tomorrow"}, None, id="words"),
        pytest.param({"retry-after": "7, 8"}, None, id="two answers"),
        pytest.param(
            {
                "retry-after": "Tue, 01 Feb 2050 00:00:05 GMT",
                "date": "Tue, 01 Feb 2050 00:00:00 GMT",
            },
            5.0,
            id="measured from the clock of the server",
        ),
        pytest.param(
            {"retry-after": DATE, "date": "Sun, 06 Nov 1994 08:49:38 GMT"}, None, id="past there"
        ),
        pytest.param(
            {"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT", "date": "today"},
            10.0,
            id="a bad clock of the server",
        ),
        pytest.param({"retry-after": "7", "date": "today"}, 7.0, id="seconds need no clock"),
    ],
)
def test_what_a_response_asks_for(headers: Mapping[str, str], expected: float | None) -> None:
    assert retry_after(headers, lambda: NOW) == expected
    titled = {name.title(): value for name, value in headers.items()}
    assert retry_after(httpx2.Headers(titled), lambda: NOW) == expected


def test_a_date_in_the_form_of_asctime_is_in_gmt() -> None:
    """The third form of an HTTP date that a recipient must read (RFC 9110, 5.6.7)."""
    assert retry_after({"retry-after": "Sun Nov  6 08:49:47 1994"}, lambda: NOW) == 10.0


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date"]),
        st.text(max_size=12)
        | st.lists(
            st.sampled_from(
                [*DATE.replace(",", " ,").split(), "+9999", "-0000", "99", "é", ":", "("]
            ),
            max_size=8,
        ).map(" ".join),
    )
)
@examples(300)
def test_any_headers_give_a_finite_number_from_0_on_or_nothing(headers: dict[str, Any]) -> None:
    found = retry_after(headers, lambda: NOW)
    assert found is None or 0 <= found < math.inf
