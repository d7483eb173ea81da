"""The retry rules, on a clock that only the tests advance. No I/O."""

import logging
from typing import Any

import pytest

from coreason_client._drive import Reply
from coreason_client._http._types import (
    FailureKind,
    TransportFailure,
)
from coreason_client.llm import (
    AsyncLLMClient,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMError,
    LLMNotFoundError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
)
from coreason_client.llm._attempts import Policy
from coreason_client.llm._limits import RateLimits
from tests.llm.play import (
    ANSWER,
    BASE,
    BROKEN,
    KEY,
    LOGGER,
    MESSAGES,
    REFUSED,
    TIMED_OUT,
    Play,
    refusal,
    reply,
    unsupported,
)

# How often, and how long in between.


@pytest.mark.proves("R27c", "AI-2-max-retries", "AI-6B-5xx")
@pytest.mark.parametrize("retries", [0, 1, 3, 7])
def test_there_is_one_attempt_more_than_retries(retries: int) -> None:
    play = Play(refusal(500), max_retries=retries)
    error = play.fails(LLMServerError)
    assert len(play.requests) == error.attempts == retries + 1
    assert len(play.waits) == retries


@pytest.mark.proves("R27a")
@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_retry_n_waits_two_to_the_n_and_up_to_a_quarter_more(jitter: float) -> None:
    play = Play(refusal(429), max_retries=5, jitter=lambda: jitter)
    play.fails(LLMRateLimitError)
    assert play.waits == [2**n * (1 + jitter / 4) for n in range(5)]


@pytest.mark.proves("R27a")
def test_the_jitter_of_a_client_is_drawn_anew_for_each_wait() -> None:
    jitter = Policy().jitter
    drawn = {round(jitter(), 6) for _ in range(50)}
    assert len(drawn) > 10
    assert all(0 <= share <= 1 for share in drawn)


@pytest.mark.proves("R27a")
def test_waits_stop_growing_at_a_minute() -> None:
    play = Play(refusal(503), max_retries=9, deadline=10_000.0)
    play.fails(LLMServerError)
    assert play.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.proves("R27b", "AI-6B-429")
@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.2"}, 1.0),  # shorter than ours
        ({"retry_after": "120"}, 120.0),
        ({"retry_after_ms": "2500"}, 2.5),
        ({"retry_after_ms": "2500", "retry_after": "9"}, 2.5),
        ({"retry_after_ms": "0", "retry_after": "3"}, 3.0),  # as Azure does
        ({"retry_after_ms": "0", "retry_after": "1"}, 1.0),
        ({"retry_after": "-5"}, 1.0),
        ({"retry_after": "soon"}, 1.0),
        (
            {
                "retry_after": "Sun, 15 Nov 2026 10:00:30 GMT",
                "date": "Sun, 15 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
    ],
)
def test_a_longer_delay_of_the_provider_is_used(headers: dict[str, str], waited: float) -> None:
    play = Play(refusal(429, **headers), reply(), deadline=1000.0)
    play.run()
    assert play.waits == [waited]


@pytest.mark.proves("R27b")
def test_a_delay_above_the_cap_ends_the_call_and_is_in_the_error() -> None:
    play = Play(refusal(429, retry_after="121"), deadline=10_000.0)
    error = play.fails(LLMRateLimitError)
    assert (error.attempts, error.retry_after, play.waits) == (1, 121.0, [])


@pytest.mark.proves("R27b")
def test_the_delay_in_a_body_of_gemini_is_used() -> None:
    body = {
        "error": {
            "code": 429,
            "message": "slow down",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"},
            ],
        }
    }
    done = reply(200, {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]})
    play = Play(reply(429, body), done, models=["gemini/gemini-2.5-flash"])
    assert play.run()["data"]["content"] == "Hi"
    assert play.waits == [48.0]


def test_a_delay_in_a_success_is_ignored() -> None:
    """Anthropic sends the header with answers too."""
    inside = {"error": {"message": "busy", "code": "overloaded_error"}}
    play = Play(reply(200, inside, retry_after="100"), reply(200, b"", retry_after="90"), reply())
    play.run()
    assert play.waits == [1.0, 2.0]


# Deadlines.


@pytest.mark.proves("R27d", "AI-2-timeout")
def test_the_timeout_is_for_each_attempt() -> None:
    play = Play(TIMED_OUT, timeout=7.0, seconds=7.0, max_retries=2)
    play.fails(LLMTimeoutError)
    assert [request.timeouts and request.timeouts.read for request in play.requests] == [7.0] * 3


@pytest.mark.proves("R27e")
def test_the_deadline_is_for_all_attempts_together() -> None:
    play = Play(TIMED_OUT, timeout=60.0, seconds=60.0, max_retries=9, deadline=100.0)
    start = play.clock.now
    error = play.fails(LLMTimeoutError)
    assert play.clock.now - start <= 121  # the last attempt is cut short in reality, not here
    assert error.attempts == 2
    limits = [request.timeouts.read for request in play.requests if request.timeouts]
    assert limits == [60.0, pytest.approx(39.0)]


@pytest.mark.proves("R27e")
def test_no_wait_goes_beyond_the_deadline() -> None:
    play = Play(refusal(429, retry_after="50"), deadline=49.0)
    error = play.fails(LLMRateLimitError)
    assert (play.waits, error.attempts, error.retry_after) == ([], 1, 50.0)


@pytest.mark.proves("R27e")
def test_the_error_names_the_deadline_that_has_passed() -> None:
    play = Play(reply(), deadline=5.0)
    assert play.attempts.seconds_left() == 5.0  # it begins to run when it is first asked for
    play.clock.now += 5.0
    error = play.fails(LLMTimeoutError)
    assert isinstance(error, TimeoutError)
    assert "deadline of 5 s" in str(error)
    assert (error.attempts, error.provider, error.model) == (0, "openai-compatible", "m")


@pytest.mark.proves("R27e")
@pytest.mark.parametrize(
    ("options", "fallbacks", "seconds"),
    [({}, (), 300.0), ({"timeout": 10, "max_retries": 1}, ("n",), 100.0), ({"deadline": 5}, (), 5)],
)
def test_the_default_of_the_deadline(
    options: dict[str, Any], fallbacks: tuple[str, ...], seconds: float
) -> None:
    client = AsyncLLMClient(KEY, BASE, **options)
    attempts = client.stream(MESSAGES, "m", fallbacks=fallbacks)._machine._attempts
    assert attempts.seconds_left() == pytest.approx(seconds, abs=1)
    assert "a minute of waits" in (AsyncLLMClient.__doc__ or "")


@pytest.mark.proves("R28", "AI-6B-timeout")
def test_a_timeout_of_every_attempt_is_a_timeout_error() -> None:
    play = Play(TIMED_OUT, max_retries=2)
    error = play.fails(LLMTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.attempts == 3


# Retried or not.


@pytest.mark.proves("AI-6B-429", "AI-6B-5xx", "AI-6B-timeout", "AI-6B-200")
@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(outcome, id=name)
        for name, outcome in {
            **{str(status): refusal(status) for status in (408, 409, 425, 429)},
            **{str(status): refusal(status) for status in (500, 502, 503, 504, 520, 529, 599)},
            "rate limit by its code": refusal(429, "rate_limit_exceeded"),
            "overload inside a success": reply(200, {"error": {"code": "overloaded_error"}}),
            "a body that is no JSON": reply(503, b"upstream connect error"),
            "empty success": reply(200, b""),
            "blank success": reply(200, b" \n"),
            "a web page": reply(200, b"<!doctype html><title>Login</title>"),
            "half of an answer": reply(200, b'{"choices": [{"mess'),
            "a list": reply(200, []),
            "timeout": TIMED_OUT,
            "broken": BROKEN,
            "refused": REFUSED,
            "told to": refusal(500, x_should_retry="true"),
            "a 400, told to": refusal(400, x_should_retry="TRUE"),
        }.items()
    ],
)
def test_retried_outcomes(outcome: Reply | TransportFailure) -> None:
    play = Play(outcome, reply())
    response = play.run()
    assert response["data"]["content"] == "Hi"
    assert len(play.requests) == 2
    assert play.waits == [1.0]


@pytest.mark.proves("R29a", "R29b", "R29c", "AI-6B-401", "AI-6B-429")
@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        pytest.param(outcome, kind, id=name)
        for name, outcome, kind in (
            ("401", refusal(401), LLMAuthenticationError),
            ("401 without a body", reply(401, b""), LLMAuthenticationError),
            ("401, told to", refusal(401, x_should_retry="true"), LLMAuthenticationError),
            ("403", refusal(403), LLMPermissionError),
            ("a bad key as 400", refusal(400, "invalid_api_key"), LLMAuthenticationError),
            ("quota", refusal(429, "insufficient_quota"), LLMQuotaError),
            (
                "quota, told to",
                refusal(429, "insufficient_quota", x_should_retry="true", retry_after="1"),
                LLMQuotaError,
            ),
            ("402", refusal(402), LLMQuotaError),
            ("400", refusal(400), LLMRequestError),
            ("404", refusal(404), LLMNotFoundError),
            ("413", refusal(413), LLMRequestError),
            ("422", refusal(422), LLMRequestError),
            ("418", refusal(418), LLMRequestError),
            ("500, told not to", refusal(500, x_should_retry="false"), LLMServerError),
            ("429, told not to", refusal(429, x_should_retry="false"), LLMRateLimitError),
            ("a redirect", reply(307, b"", location="http://127.0.0.1:1/"), LLMResponseError),
            ("no choices", reply(200, {"choices": []}), LLMResponseError),
            (
                "a certificate",
                TransportFailure(FailureKind.CERTIFICATE, "expired"),
                LLMConnectionError,
            ),
            ("closed", TransportFailure(FailureKind.CLOSED, "closed"), LLMConnectionError),
        )
    ],
)
def test_outcomes_that_are_not_retried(
    outcome: Reply | TransportFailure, kind: type[LLMError]
) -> None:
    play = Play(outcome)
    assert play.fails(kind).attempts == 1
    assert play.waits == []


@pytest.mark.proves("R29a", "R29b", "AI-6B-401")
@pytest.mark.parametrize("outcome", [refusal(401), refusal(403), refusal(400, "invalid_api_key")])
def test_a_bad_key_is_logged_as_an_error(outcome: Reply, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER), pytest.raises(LLMError) as caught:
        Play(outcome).run()
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == str(caught.value)


def test_transient_errors_are_logged_as_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        Play(refusal(429), reply()).run()
        Play(refusal(500), max_retries=0).fails(LLMServerError)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


# Unsupported parameters.


@pytest.mark.parametrize("code", ["unsupported_parameter", "unsupported_value"])
def test_an_unsupported_parameter_is_dropped_without_a_wait(code: str) -> None:
    play = Play(refusal(400, code, "temperature"), reply())
    play.run()
    first, second = play.bodies
    assert first.pop("temperature") == 0.7
    assert first == second
    assert play.waits == []


def test_only_one_parameter_is_dropped() -> None:
    play = Play(unsupported("temperature"), unsupported("max_tokens"))
    assert play.fails(LLMRequestError).attempts == 2
    assert "max_tokens" in play.bodies[1]


@pytest.mark.parametrize("name", ["model", "messages", "never_sent", ""])
def test_a_required_parameter_is_not_dropped(name: str) -> None:
    assert Play(unsupported(name)).fails(LLMRequestError).attempts == 1


def test_dropping_a_parameter_uses_no_retry() -> None:
    play = Play(unsupported("temperature"), refusal(500), max_retries=1)
    assert play.fails(LLMServerError).attempts == 3


# Fallbacks.


def test_a_fallback_answers_after_the_retries_of_the_first() -> None:
    outcomes = [refusal(500)] * 3 + [refusal(404), reply()]
    play = Play(*outcomes, models=["one", "two", "three"], max_retries=2)
    response = play.run()
    assert [body["model"] for body in play.bodies] == ["one"] * 3 + ["two", "three"]
    assert response["model"] == "three"
    assert play.waits == [1.0, 2.0]


def test_each_model_has_its_own_retries() -> None:
    play = Play(refusal(500), models=["one", "two"], max_retries=2)
    assert play.fails(LLMServerError).attempts == 6
    assert play.waits == [1.0, 2.0, 1.0, 2.0]


def test_the_model_that_answered_is_named() -> None:
    assert Play(reply(), models=["one", "two"]).run()["model"] == "one"


def test_the_last_error_names_the_earlier_ones() -> None:
    outcomes = [refusal(500), refusal(429), refusal(404)]
    play = Play(*outcomes, models=["one", "two", "three"], max_retries=0)
    error = play.fails(LLMNotFoundError)
    assert (error.attempts, error.model) == (3, "three")
    assert [note.partition(" failed")[0] for note in error.__notes__] == [
        "model one was tried before and",
        "model two was tried before and",
    ]


def test_one_parameter_is_dropped_for_each_model() -> None:
    play = Play(
        *(unsupported("temperature"), refusal(404), unsupported("temperature"), reply()),
        models=["one", "two"],
    )
    assert play.run()["model"] == "two"
    assert ["temperature" in body for body in play.bodies] == [True, False, True, False]


def test_no_fallback_is_tried_after_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(refusal(404), models=["one", "two"], seconds=60, deadline=60)
    with caplog.at_level(logging.DEBUG, LOGGER):
        error = play.fails(LLMNotFoundError)  # not a timeout of the second model
    assert (error.attempts, error.model) == (1, "one")
    assert not hasattr(error, "__notes__")
    assert not caplog.records


@pytest.mark.proves("R29a")
def test_a_bad_key_is_logged_as_an_error_though_a_fallback_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        Play(refusal(401), reply(), models=["one", "two"]).run()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


# The client's own limits.


def test_requests_beyond_the_limit_wait() -> None:
    limits = RateLimits(2, None)
    plays = [Play(reply(), limits=limits) for _ in range(4)]
    for play in plays:
        play.run()
    assert [play.waits for play in plays] == [[], [], [60.0], [60.0]]


def test_each_attempt_counts_as_a_request() -> None:
    play = Play(refusal(500), reply(), limits=RateLimits(1, None))
    play.run()
    assert play.waits == [1.0, pytest.approx(59.0)]


def test_what_is_not_sent_is_not_counted() -> None:
    limits = RateLimits(1, None)
    Play(reply(), limits=limits).run()
    for _ in range(50):
        error = Play(reply(), limits=limits, deadline=10).fails(LLMTimeoutError)
        assert error.attempts == 0
        assert "requests_per_minute" in str(error)
    patient = Play(reply(), limits=limits)
    patient.run()
    assert patient.waits == [60.0]


def test_tokens_are_counted_as_they_were_used() -> None:
    limits = RateLimits(None, 400)
    for _ in range(20):  # each estimated at more than 100, and 5 in the end
        play = Play(reply(), limits=limits)
        play.run()
        assert play.waits == []


def test_tokens_beyond_the_limit_wait() -> None:
    body = {**ANSWER, "usage": {"prompt_tokens": 100, "completion_tokens": 100}}
    limits = RateLimits(None, 200)
    Play(reply(200, body), limits=limits).run()
    play = Play(reply(), limits=limits)
    play.run()
    assert play.waits == [60.0]


def test_failed_attempts_use_no_tokens() -> None:
    play = Play(*[refusal(500)] * 3, reply(), limits=RateLimits(None, 200))
    play.run()
    assert play.waits == [1.0, 2.0, 4.0]
