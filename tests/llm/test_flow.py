"""The rules of trying again, on a clock that only the tests move; nothing here does I/O."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import Flow, Reply, Wait
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client.llm import (
    Delta,
    Finish,
    LLMAuthenticationError,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMNotFoundError,
    LLMOverloadedError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
    Response,
    TextDelta,
    UsageDelta,
    _frames,
)
from coreason_client.llm._call import check_call
from coreason_client.llm._flow import AnswerMachine, Plan, Policy, Trying, generate_flow
from coreason_client.llm._limits import Limits
from coreason_client.llm._lines import LineDecoder, LineTooLong
from coreason_client.llm._route import Target

KEY = "sk-of-the-flow"
BASE = "http://127.0.0.1:9"
LOGGER = "coreason_client.llm"
MESSAGES = [{"role": "user", "content": "Hello"}]
TIMED_OUT = TransportFailure(FailureKind.TIMEOUT, "the time was up")
BROKEN = TransportFailure(FailureKind.BROKEN, "the server closed the connection")
REFUSED = TransportFailure(FailureKind.CONNECT, "cannot connect")
ANSWER = {
    "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Play:
    """A call with a provider whose outcomes are a list, the last one for ever.

    Each request takes `seconds`, and a wait takes as long as it says.
    """

    def __init__(
        self,
        *outcomes: Reply | TransportFailure,
        models: Sequence[str] = ("m",),
        seconds: float = 0.0,
        extra: Mapping[str, Any] | None = None,
        stream: bool = False,
        **policy: Any,
    ) -> None:
        self.clock = Clock()
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.requests: list[Request] = []
        self.waits: list[float] = []
        policy = {"jitter": lambda: 0.0, "clock": self.clock, **policy}
        target = Target(BASE, KEY)
        plans = []
        for model in models:
            route = target.route(model)
            call = check_call(MESSAGES, route.model, None, 0.7, 100, extra=extra, stream=stream)
            plans.append(Plan(call, route, call.model))
        self.trying = Trying(plans, Policy(**policy))

    def next_outcome(self, step: Request) -> Reply | TransportFailure:
        self.requests.append(step)
        self.clock.now += self.seconds
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def wait(self, step: Wait) -> None:
        self.waits.append(step.seconds)
        self.clock.now += step.seconds

    def run(self) -> Response:
        flow: Flow[Response] = generate_flow(self.trying)
        sent: Reply | TransportFailure | None = None
        try:
            while True:
                step = flow.send(sent)
                sent = None
                if isinstance(step, Wait):
                    self.wait(step)
                else:
                    sent = self.next_outcome(step)
        except StopIteration as done:
            response: Response = done.value
            return response

    def fails(self, kind: type[LLMError]) -> LLMError:
        with pytest.raises(LLMError) as caught:
            self.run()
        assert type(caught.value) is kind, caught.value
        return caught.value

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def reply(status: int = 200, body: Any = ANSWER, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if content.startswith(b"<") else "application/json"
    return Reply(ResponseHead(status, Headers([("content-type", kind), *named.items()])), content)


def refusal(
    status: int, code: str | None = None, param: str | None = None, **headers: str
) -> Reply:
    error = {"message": "no", "type": "some_error", "code": code, "param": param}
    return reply(status, {"error": error}, **headers)


def unsupported(parameter: str) -> Reply:
    return refusal(400, "unsupported_parameter", parameter)


# How often, and how long in between.


@pytest.mark.proves("R27c", "AI-2-max-retries", "AI-6B-5xx")
@pytest.mark.parametrize("retries", [0, 1, 3, 7])
def test_so_many_retries_make_one_attempt_more(retries: int) -> None:
    play = Play(refusal(500), max_retries=retries)
    error = play.fails(LLMServerError)
    assert len(play.requests) == error.attempts == retries + 1
    assert len(play.waits) == retries


@pytest.mark.proves("R27a")
@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_retry_n_waits_two_to_the_n_with_jitter(jitter: float) -> None:
    play = Play(refusal(429), max_retries=5, jitter=lambda: jitter)
    play.fails(LLMRateLimitError)
    assert play.waits == [2**n * (1 - jitter / 2) for n in range(5)]


@pytest.mark.proves("R27a")
def test_the_jitter_of_a_client_stays_between_half_and_all_of_the_wait() -> None:
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
def test_a_longer_wish_of_the_provider_is_honoured(headers: dict[str, str], waited: float) -> None:
    play = Play(refusal(429, **headers), reply(), deadline=1000.0)
    play.run()
    assert play.waits == [waited]


@pytest.mark.proves("R27b")
def test_a_wish_beyond_the_cap_ends_the_call_and_is_told() -> None:
    play = Play(refusal(429, retry_after="121"), deadline=10_000.0)
    error = play.fails(LLMRateLimitError)
    assert (error.attempts, error.retry_after, play.waits) == (1, 121.0, [])


@pytest.mark.proves("R27b")
def test_geminis_wish_stands_in_the_body() -> None:
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


def test_a_wish_on_a_success_is_no_wish() -> None:
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
def test_a_deadline_that_has_passed_is_told() -> None:
    play = Play(reply(), deadline=5.0)
    assert play.trying.left() == 5.0  # it begins to run when it is first asked for
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
    client = LLMClient(KEY, BASE, **options)
    trying = client.stream(MESSAGES, "m", fallbacks=fallbacks)._machine._trying
    assert trying.left() == pytest.approx(seconds, abs=1)
    assert "a minute of waits" in (LLMClient.__doc__ or "")


@pytest.mark.proves("R28", "AI-6B-timeout")
def test_a_timeout_outlasts_the_retries() -> None:
    play = Play(TIMED_OUT, max_retries=2)
    error = play.fails(LLMTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.attempts == 3


# What is tried again.


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
def test_what_is_tried_again(outcome: Reply | TransportFailure) -> None:
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
def test_what_is_not_tried_again(outcome: Reply | TransportFailure, kind: type[LLMError]) -> None:
    play = Play(outcome)
    assert play.fails(kind).attempts == 1
    assert play.waits == []


@pytest.mark.proves("R29b", "R29c")
@pytest.mark.parametrize(
    ("model", "outcome", "kind"),
    [
        pytest.param(
            "gemini/gemini-2.5-flash",
            reply(
                400,
                {
                    "error": {
                        "code": 400,
                        "message": "API key not valid.",
                        "status": "INVALID_ARGUMENT",
                        "details": [
                            {
                                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                                "reason": "API_KEY_INVALID",
                            }
                        ],
                    }
                },
            ),
            LLMAuthenticationError,
            id="gemini",
        ),
        pytest.param(
            "xai/grok-4",
            reply(403, {"code": "unauthenticated:bad-credentials", "error": "No such token"}),
            LLMAuthenticationError,
            id="xai",
        ),
        pytest.param(
            "xai/grok-4",
            reply(
                400,
                {
                    "code": "Client specified an invalid argument",
                    "error": "Incorrect API key provided: ba***na.",
                },
            ),
            LLMRequestError,
            id="xai, with its general code",
        ),
        pytest.param(
            "anthropic/claude-sonnet-4-5",
            reply(
                429,
                {
                    "type": "error",
                    "error": {
                        "type": "rate_limit_error",
                        "message": "limit",
                        "details": {"error_code": "enforced_spend_limit_reached"},
                    },
                },
            ),
            LLMQuotaError,
            id="spend limit",
        ),
    ],
)
def test_disguises_are_seen_through(model: str, outcome: Reply, kind: type[LLMError]) -> None:
    play = Play(outcome, models=[model])
    assert play.fails(kind).attempts == 1


@pytest.mark.proves("R29a", "R29b", "AI-6B-401")
@pytest.mark.parametrize("outcome", [refusal(401), refusal(403), refusal(400, "invalid_api_key")])
def test_a_bad_key_is_logged_as_an_error(outcome: Reply, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER), pytest.raises(LLMError) as caught:
        Play(outcome).run()
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == str(caught.value)


def test_what_passes_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        Play(refusal(429), reply()).run()
        Play(refusal(500), max_retries=0).fails(LLMServerError)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_an_overload_has_its_own_class() -> None:
    error = Play(refusal(529), max_retries=0).fails(LLMOverloadedError)
    assert isinstance(error, LLMServerError)


# Parameters that a model does not take.


@pytest.mark.parametrize("code", ["unsupported_parameter", "unsupported_value"])
def test_an_unsupported_parameter_is_dropped_without_a_wait(code: str) -> None:
    play = Play(refusal(400, code, "temperature"), reply())
    play.run()
    first, second = play.bodies
    assert first.pop("temperature") == 0.7
    assert first == second
    assert play.waits == []


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


def test_only_one_parameter_is_mended() -> None:
    play = Play(unsupported("temperature"), unsupported("max_tokens"))
    assert play.fails(LLMRequestError).attempts == 2
    assert "max_tokens" in play.bodies[1]


@pytest.mark.parametrize("name", ["model", "messages", "never_sent", ""])
def test_what_cannot_be_mended_is_not_sent_again(name: str) -> None:
    assert Play(unsupported(name)).fails(LLMRequestError).attempts == 1


def test_mending_costs_no_retry() -> None:
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


def test_without_a_fallback_no_model_is_named() -> None:
    assert "model" not in Play(reply(), models=["one", "two"]).run()


def test_the_error_of_the_last_one_tells_of_the_earlier() -> None:
    outcomes = [refusal(500), refusal(429), refusal(404)]
    play = Play(*outcomes, models=["one", "two", "three"], max_retries=0)
    error = play.fails(LLMNotFoundError)
    assert (error.attempts, error.model) == (3, "three")
    assert [note.partition(" failed")[0] for note in error.__notes__] == [
        "before it, model one",
        "before it, model two",
    ]


def test_each_model_is_mended_once() -> None:
    play = Play(
        *(unsupported("temperature"), refusal(404), unsupported("temperature"), reply()),
        models=["one", "two"],
    )
    assert play.run()["model"] == "two"
    assert ["temperature" in body for body in play.bodies] == [True, False, True, False]


def test_no_fallback_is_asked_after_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
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
    limits = Limits(2, None)
    plays = [Play(reply(), limits=limits) for _ in range(4)]
    for play in plays:
        play.run()
    assert [play.waits for play in plays] == [[], [], [60.0], [60.0]]


def test_each_attempt_counts_as_a_request() -> None:
    play = Play(refusal(500), reply(), limits=Limits(1, None))
    play.run()
    assert play.waits == [1.0, pytest.approx(59.0)]


def test_what_is_not_sent_is_not_counted() -> None:
    limits = Limits(1, None)
    Play(reply(), limits=limits).run()
    for _ in range(50):
        error = Play(reply(), limits=limits, deadline=10).fails(LLMTimeoutError)
        assert error.attempts == 0
        assert "requests_per_minute" in str(error)
    patient = Play(reply(), limits=limits)
    patient.run()
    assert patient.waits == [60.0]


def test_tokens_are_counted_as_they_were_used() -> None:
    limits = Limits(None, 400)
    for _ in range(20):  # each estimated at more than 100, and 5 in the end
        play = Play(reply(), limits=limits)
        play.run()
        assert play.waits == []


def test_tokens_beyond_the_limit_wait() -> None:
    body = {**ANSWER, "usage": {"prompt_tokens": 100, "completion_tokens": 100}}
    limits = Limits(None, 200)
    Play(reply(200, body), limits=limits).run()
    play = Play(reply(), limits=limits)
    play.run()
    assert play.waits == [60.0]


def test_failed_attempts_use_no_tokens() -> None:
    play = Play(*[refusal(500)] * 3, reply(), limits=Limits(None, 200))
    play.run()
    assert play.waits == [1.0, 2.0, 4.0]


# Streams.


HEAD = ResponseHead(200, Headers([("content-type", "text/event-stream")]))


def event(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


HI = event(delta={"content": "Hi"})
END = event(delta={}, finish_reason="stop") + b"data: [DONE]\n\n"


class Streaming(Play):
    """A call of a stream; an outcome may also be the chunks of one, with a failure at its end."""

    def __init__(self, *outcomes: Any, **options: Any) -> None:
        super().__init__(*outcomes, **options)
        self.machine = AnswerMachine(self.trying)

    def deltas(self) -> Iterator[Delta]:
        machine = self.machine
        while (step := machine.next_step()) is not None:
            if isinstance(step, Wait):
                self.wait(step)
                continue
            outcome: Any = self.next_outcome(step)
            if isinstance(outcome, Reply):
                if machine.accepts(outcome.head):
                    yield from machine.receive(outcome.body)
                    yield from machine.lost(None)
                else:
                    machine.refused(outcome.head, outcome.body)
                continue
            yield from self.streamed(outcome)

    def streamed(self, outcome: Any) -> Iterator[Delta]:
        machine, failure = self.machine, None
        if isinstance(outcome, TransportFailure):
            failure, outcome = outcome, []
        else:
            assert machine.accepts(HEAD)
        for chunk in outcome:
            if isinstance(chunk, TransportFailure):
                failure = chunk
                break
            yield from machine.receive(chunk)
            self.clock.now += self.seconds
            if not machine.reading:
                break
        yield from machine.lost(failure)


def test_a_stream_is_tried_again_before_its_first_piece() -> None:
    play = Streaming(
        refusal(429),
        reply(200, b"<html>"),
        [],
        [BROKEN],
        [b": waiting\n\n", TIMED_OUT],
        [event(delta={"role": "assistant"}), BROKEN],
        [HI, END],
        max_retries=9,
        stream=True,
    )
    deltas = list(play.deltas())
    assert deltas[0] == TextDelta("Hi")
    assert play.machine.response is not None
    assert play.machine.response["data"]["content"] == "Hi"
    assert len(play.requests) == 7
    assert play.waits == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("end", [[], [BROKEN], [TIMED_OUT]], ids=["clean", "broken", "silent"])
def test_nothing_is_tried_again_after_the_first_piece(end: list[TransportFailure]) -> None:
    play = Streaming([HI, *end], stream=True, models=["one", "two"])
    with pytest.raises((LLMConnectionError, LLMTimeoutError)) as caught:
        list(play.deltas())
    error = caught.value
    assert isinstance(error, LLMTimeoutError) == (end == [TIMED_OUT])
    assert (error.attempts, play.waits) == (1, [])
    assert error.partial is not None
    assert error.partial["data"]["content"] == "Hi"


def test_an_error_in_the_stream_is_tried_again_or_carries_what_had_come() -> None:
    fault = b'data: {"error": {"message": "busy", "code": "rate_limit_exceeded"}}\n\n'
    play = Streaming([fault], [HI, END], stream=True)
    list(play.deltas())
    assert len(play.requests) == 2
    play = Streaming([HI, fault], stream=True)
    with pytest.raises(LLMRateLimitError) as caught:
        list(play.deltas())
    assert caught.value.partial is not None


def test_the_deadline_ends_a_stream_that_is_only_kept_alive() -> None:
    play = Streaming([b": still here\n\n"] * 1000, seconds=1.0, deadline=20.0, stream=True)
    with pytest.raises(LLMTimeoutError, match="deadline of 20 s"):
        list(play.deltas())
    assert play.clock.now - 1000 <= 21


def test_the_deadline_does_not_end_a_stream_that_has_begun() -> None:
    play = Streaming([*[HI] * 100, END], seconds=1.0, deadline=20.0, stream=True)
    list(play.deltas())
    assert play.machine.response is not None


def test_a_whole_answer_where_a_stream_was_wanted() -> None:
    play = Streaming(reply(), stream=True)
    deltas = list(play.deltas())
    assert deltas[0] == TextDelta("Hi")
    assert [type(delta) for delta in deltas[1:]] == [UsageDelta, Finish]
    assert play.machine.response == Play(reply()).run()


@pytest.mark.parametrize("body", [b"", b"null", b'"text"', b'{"choices": [', b'{"object": 1}'])
def test_json_that_is_no_answer_where_a_stream_was_wanted(body: bytes) -> None:
    play = Streaming(reply(200, body), reply(), stream=True)
    if body == b'{"object": 1}':  # complete, and another attempt would bring the same
        with pytest.raises(LLMResponseError, match="no choices"):
            list(play.deltas())
    else:
        list(play.deltas())
        assert len(play.requests) == 2


def test_a_whole_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frames, "_MAX_WHOLE_BYTES", 1000)
    play = Streaming([b"{" + b" " * 600, b" " * 600], stream=True)
    with pytest.raises(LLMResponseError, match="the answer is larger than 1000 bytes") as caught:
        list(play.deltas())
    assert caught.value.attempts == 1


@pytest.mark.parametrize(
    "first",
    [
        [b"data: [DONE]\n\n"],
        [event(delta={"role": "assistant"}), b"data: [DONE]\n\n"],
        [b'data: {"error": {"message": "oops", "type": "server_error", "code": null}}\n\n'],
        reply(200, {"error": {"message": "oops", "type": "server_error", "code": None}}),
    ],
    ids=["[DONE]", "a role and [DONE]", "server_error first", "server_error whole"],
)
def test_a_stream_without_an_answer_is_tried_again(first: Any) -> None:
    play = Streaming(first, [HI, END], stream=True)
    assert TextDelta("Hi") in list(play.deltas())
    assert (len(play.requests), play.waits) == (2, [1])


def test_a_server_error_inside_a_success_is_tried_again() -> None:
    inside = reply(200, {"error": {"message": "oops", "type": "server_error", "code": None}})
    play = Play(inside, reply())
    play.run()
    assert play.waits == [1]


TOO_LARGE = b"x" * 10_000_001


@pytest.mark.parametrize("model", ["m", "ollama/m"])
def test_what_was_complete_before_a_too_large_event_is_handed_out(model: str) -> None:
    if model == "m":
        first, large = HI, b"data: " + TOO_LARGE + b"\n\n"
    else:
        first, large = b'{"message": {"content": "Hi"}}\n', TOO_LARGE + b"\n"
    for chunks in ([first + large], [first + first[:5], first[5:] + large], [first, large[:-1]]):
        play = Streaming(chunks, models=[model], stream=True)
        deltas = []
        with pytest.raises(LLMResponseError, match="an event is larger than") as caught:
            for delta in play.deltas():
                deltas.append(delta)  # noqa: PERF402 - those before the error count
        assert deltas
        assert set(map(repr, deltas)) == {repr(TextDelta("Hi"))}
        assert caught.value.partial is not None
        assert caught.value.partial["data"]["content"] == "Hi" * len(deltas)


def test_an_answer_that_was_complete_before_a_too_large_event_is_an_answer() -> None:
    play = Streaming([HI + END + b"data: " + TOO_LARGE + b"\n\n"], stream=True)
    list(play.deltas())
    assert play.machine.response is not None
    assert play.machine.response["data"]["content"] == "Hi"


CONTROLS = "a\nERROR forged\x1b[2J\x9b\u2028\u202eb"


def test_control_characters_of_a_provider_do_not_reach_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every log line, whatever it quotes, is one line without control characters."""
    told = {"message": CONTROLS, "code": CONTROLS}
    parameter = {"error": {"message": "?", "code": "unsupported_parameter", "param": "temperature"}}
    outcomes: list[Reply | TransportFailure] = [
        reply(400, parameter),
        reply(503, {"error": told}),
        reply(503, CONTROLS.encode()),
        TransportFailure(FailureKind.BROKEN, CONTROLS),
        reply(401, {"error": told}),
    ]
    with caplog.at_level(logging.DEBUG, LOGGER):
        error = Play(*outcomes, models=["one", "two"], max_retries=9).fails(LLMAuthenticationError)
    assert len(caplog.records) >= 5
    for line in [str(error), *(record.getMessage() for record in caplog.records)]:
        assert line.isprintable(), line


def test_an_event_without_an_end_is_bounded() -> None:
    play = Streaming([b"data: " + b"x" * 6_000_000, b"x" * 6_000_000], stream=True, max_retries=0)
    with pytest.raises(LLMResponseError, match="larger than"):
        list(play.deltas())


def test_a_fallback_streams() -> None:
    play = Streaming(refusal(404), [HI, END], models=["one", "two"], stream=True)
    list(play.deltas())
    assert play.machine.response is not None
    assert play.machine.response["model"] == "two"


# Whatever happens.

OUTCOMES = st.sampled_from(
    [
        *(reply(), refusal(429), refusal(429, retry_after="3"), refusal(429, retry_after="500")),
        *(refusal(500), refusal(529), refusal(401), refusal(429, "insufficient_quota")),
        *(unsupported("temperature"), unsupported("max_tokens"), unsupported("model")),
        *(reply(200, b""), reply(200, b"<html>"), reply(200, {"choices": []}), reply(302, b"")),
        *(refusal(500, x_should_retry="false"), refusal(400, x_should_retry="true")),
        *(TIMED_OUT, BROKEN, REFUSED, TransportFailure(FailureKind.CERTIFICATE, "bad")),
    ]
)
PIECES = st.lists(st.sampled_from([HI, END, b": ping\n\n", b"data: {}\n\n", BROKEN, TIMED_OUT]))


def check(play: Play, outcome: LLMError | None, models: int, retries: int, deadline: float) -> None:
    """What holds at the end of every call."""
    sent = len(play.requests)
    assert sent <= models * (retries + 2)  # one of them is for a parameter
    assert play.clock.now - 1000 <= deadline + play.seconds
    assert sum(play.waits) <= deadline
    if outcome is not None:
        assert outcome.attempts == sent


SETTINGS = {
    "models": st.integers(1, 3),
    "retries": st.integers(0, 4),
    "deadline": st.sampled_from([0.5, 5.0, 60.0, 10_000.0]),
    "seconds": st.sampled_from([0.0, 1.0, 10.0]),
    "jitter": st.floats(0, 1),
    "limited": st.booleans(),
}


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
        limits=Limits(10, 1000) if limited else None,
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


@given(outcomes=st.lists(st.one_of(OUTCOMES, PIECES), min_size=1, max_size=12), **SETTINGS)
def test_every_stream_ends_and_is_never_begun_twice(
    outcomes: list[Any],
    models: int,
    retries: int,
    deadline: float,
    seconds: float,
    jitter: float,
    *,
    limited: bool,
) -> None:
    outcomes = [
        replace(outcome, head=ResponseHead(outcome.head.status or 200, outcome.head.headers))
        if isinstance(outcome, Reply)
        else outcome
        for outcome in outcomes
    ]
    play = Streaming(
        *outcomes,
        models=[f"model-{number}" for number in range(models)],
        max_retries=retries,
        deadline=deadline,
        jitter=lambda: jitter,
        limits=Limits(10, 1000) if limited else None,
        stream=True,
    )
    written = []
    begun_at = 0
    try:
        for delta in play.deltas():
            if isinstance(delta, TextDelta):
                written.append(delta.text)
                begun_at = begun_at or len(play.requests)
                assert len(play.requests) == begun_at
    except LLMError as error:
        check(play, error, models, retries, deadline)
        content = error.partial["data"]["content"] if error.partial else ""
        assert content == "".join(written)
    else:
        check(play, None, models, retries, deadline)
        assert play.machine.response is not None
        assert play.machine.response["data"]["content"] == "".join(written)


# Lines.


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b""))), st.integers(1, 9))
def test_lines_are_the_same_whatever_the_chunks(lines: list[bytes], size: int) -> None:
    body = b"\n".join([*lines, b""])
    decoder = LineDecoder(100)
    found = [
        line
        for start in range(0, len(body), size)
        for line in decoder.feed(body[start : start + size])
    ]
    assert found == [line.strip(b"\r ") for line in lines if line.strip(b"\r ")]


def test_a_line_without_an_end_is_bounded() -> None:
    decoder = LineDecoder(100)
    decoder.feed(b"x" * 100)
    with pytest.raises(LineTooLong):
        decoder.feed(b"x")
    with pytest.raises(LineTooLong):
        LineDecoder(100).feed(b"x" * 101 + b"\n")
