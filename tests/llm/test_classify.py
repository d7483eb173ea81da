"""The class of an error follows from codes and statuses, never from words; so does a retry."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client._http._types import FailureKind, Headers, ResponseHead, TransportFailure
from coreason_client.llm import (
    LLMAuthenticationError,
    LLMConnectionError,
    LLMContextLengthError,
    LLMError,
    LLMFilteredError,
    LLMNotFoundError,
    LLMOverloadedError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
)
from coreason_client.llm._answer import Malformed, ProviderFault
from coreason_client.llm._classify import (
    FailedAttempt,
    answer_failure,
    connection_failure,
    http_failure,
    malformed_failure,
)
from coreason_client.llm._route import Target
from tests.each import each

KEY = "sk-proj-A1b2C3d4E5f6G7h8"
ROUTE = Target("http://127.0.0.1:1/v1", KEY).route("some-model")
KINDS = [
    *(LLMAuthenticationError, LLMPermissionError, LLMRequestError, LLMContextLengthError),
    *(LLMNotFoundError, LLMRateLimitError, LLMQuotaError, LLMServerError, LLMOverloadedError),
    *(LLMFilteredError, LLMResponseError),
]
NEVER_AGAIN = (
    *(LLMAuthenticationError, LLMPermissionError, LLMQuotaError),
    *(LLMFilteredError, LLMNotFoundError, LLMRequestError),
)


def head(status: int, **headers: str) -> ResponseHead:
    named = ((name.replace("_", "-"), value) for name, value in headers.items())
    return ResponseHead(status, Headers(named))


def refusal(
    status: int, codes: tuple[str, ...] = (), words: str = "Sorry.", **headers: str
) -> FailedAttempt:
    return http_failure(
        ROUTE, head(status, **headers), ProviderFault(words, codes), b"{}", lambda: 0.0
    )


# The table: the status, the codes with the most special one first, the class, another attempt.
TABLE: list[tuple[int, tuple[str, ...], type[LLMError], bool]] = [
    # Statuses without a code, or with one that nobody knows.
    (400, (), LLMRequestError, False),
    (401, (), LLMAuthenticationError, False),
    (402, (), LLMQuotaError, False),
    (403, (), LLMPermissionError, False),
    (404, (), LLMNotFoundError, False),
    (405, (), LLMRequestError, False),
    (408, (), LLMServerError, True),
    (409, (), LLMServerError, True),
    (413, (), LLMRequestError, False),
    (422, (), LLMRequestError, False),
    (425, (), LLMServerError, True),
    (429, (), LLMRateLimitError, True),
    (499, (), LLMRequestError, False),
    (500, (), LLMServerError, True),
    (502, (), LLMServerError, True),
    (503, (), LLMServerError, True),
    (504, (), LLMServerError, True),
    (520, (), LLMServerError, True),
    (529, (), LLMOverloadedError, True),
    (400, ("some_new_code",), LLMRequestError, False),
    (429, ("some_new_code", "another"), LLMRateLimitError, True),
    (500, ("some_new_code",), LLMServerError, True),
    # OpenAI and its like.
    (401, ("invalid_api_key", "invalid_request_error"), LLMAuthenticationError, False),
    (401, ("401",), LLMAuthenticationError, False),
    (429, ("rate_limit_exceeded", "requests"), LLMRateLimitError, True),
    (429, ("RateLimitReached",), LLMRateLimitError, True),
    (429, ("insufficient_quota", "insufficient_quota"), LLMQuotaError, False),
    (429, ("billing_hard_limit_reached",), LLMQuotaError, False),
    (400, ("context_length_exceeded", "invalid_request_error"), LLMContextLengthError, False),
    (400, ("exceed_context_size_error", "400"), LLMContextLengthError, False),
    (404, ("model_not_found", "invalid_request_error"), LLMNotFoundError, False),
    (404, ("DeploymentNotFound",), LLMNotFoundError, False),
    (400, ("content_filter",), LLMFilteredError, False),
    (400, ("content_policy_violation", "invalid_request_error"), LLMFilteredError, False),
    (400, ("tool_use_failed", "invalid_request_error"), LLMRequestError, False),
    (404, ("invalid_request_error",), LLMNotFoundError, False),
    (429, ("invalid_request_error",), LLMRateLimitError, True),
    (500, ("invalid_request_error",), LLMServerError, True),
    # Answers of the Responses API that failed, with the status 200.
    (200, ("server_error",), LLMServerError, True),
    (200, ("rate_limit_exceeded",), LLMRateLimitError, True),
    (200, ("vector_store_timeout",), LLMServerError, True),
    (200, ("invalid_prompt",), LLMRequestError, False),
    (200, ("invalid_image_url",), LLMRequestError, False),
    (200, ("image_content_policy_violation",), LLMFilteredError, False),
    # Bedrock, with the statuses of its service description; inside a stream the status is 200.
    (403, ("AccessDeniedException",), LLMPermissionError, False),
    (403, ("UnrecognizedClientException",), LLMAuthenticationError, False),
    (403, ("ExpiredTokenException",), LLMAuthenticationError, False),
    (403, ("InvalidSignatureException",), LLMAuthenticationError, False),
    (403, ("IncompleteSignatureException",), LLMAuthenticationError, False),
    (403, ("MissingAuthenticationTokenException",), LLMAuthenticationError, False),
    (404, ("ResourceNotFoundException",), LLMNotFoundError, False),
    (400, ("ServiceQuotaExceededException",), LLMQuotaError, False),
    (400, ("ValidationException",), LLMRequestError, False),
    (200, ("ValidationException",), LLMRequestError, False),
    (429, ("ThrottlingException",), LLMRateLimitError, True),
    (200, ("ThrottlingException",), LLMRateLimitError, True),
    (429, ("ModelNotReadyException",), LLMOverloadedError, True),
    (503, ("ServiceUnavailableException",), LLMOverloadedError, True),
    (200, ("ServiceUnavailableException",), LLMOverloadedError, True),
    (408, ("ModelTimeoutException",), LLMServerError, True),
    (424, ("ModelErrorException",), LLMServerError, True),
    (424, ("ModelStreamErrorException",), LLMServerError, True),
    (200, ("ModelStreamErrorException",), LLMServerError, True),
    (500, ("InternalServerException",), LLMServerError, True),
    (200, ("InternalServerException",), LLMServerError, True),
    # Anthropic.
    (400, ("invalid_request_error",), LLMRequestError, False),
    (401, ("authentication_error",), LLMAuthenticationError, False),
    (402, ("billing_error",), LLMQuotaError, False),
    (403, ("permission_error",), LLMPermissionError, False),
    (404, ("not_found_error",), LLMNotFoundError, False),
    (413, ("request_too_large",), LLMRequestError, False),
    (429, ("rate_limit_error",), LLMRateLimitError, True),
    (429, ("enforced_spend_limit_reached", "rate_limit_error"), LLMQuotaError, False),
    (500, ("api_error",), LLMServerError, True),
    (504, ("timeout_error",), LLMServerError, True),
    (529, ("overloaded_error",), LLMOverloadedError, True),
    # Gemini, with a bad key behind a 400.
    (400, ("API_KEY_INVALID", "INVALID_ARGUMENT"), LLMAuthenticationError, False),
    (400, ("INVALID_ARGUMENT",), LLMRequestError, False),
    (401, ("UNAUTHENTICATED",), LLMAuthenticationError, False),
    (403, ("PERMISSION_DENIED",), LLMPermissionError, False),
    (404, ("NOT_FOUND",), LLMNotFoundError, False),
    (429, ("RESOURCE_EXHAUSTED",), LLMRateLimitError, True),
    (500, ("INTERNAL",), LLMServerError, True),
    (503, ("UNAVAILABLE",), LLMOverloadedError, True),
    (504, ("DEADLINE_EXCEEDED",), LLMServerError, True),
    # xAI: a token that expired; and a bad key, whose code says no more than the status.
    (403, ("unauthenticated:bad-credentials",), LLMAuthenticationError, False),
    (400, ("Client specified an invalid argument",), LLMRequestError, False),
    # An error inside a success.
    (200, ("overloaded_error",), LLMOverloadedError, True),
    (200, ("rate_limit_exceeded",), LLMRateLimitError, True),
    (200, ("api_error",), LLMServerError, True),
    (200, ("server_error",), LLMServerError, True),
    (200, ("invalid_request_error",), LLMRequestError, False),
    (200, ("content_filter",), LLMFilteredError, False),
    (200, ("insufficient_quota",), LLMQuotaError, False),
    (200, ("some_new_code",), LLMServerError, False),
    (200, (), LLMServerError, False),
    # No code makes a passing failure of a bad key.
    (401, ("api_error",), LLMAuthenticationError, False),
    (401, ("rate_limit_error",), LLMAuthenticationError, False),
    (403, ("overloaded_error",), LLMPermissionError, False),
    (402, ("rate_limit_exceeded",), LLMQuotaError, False),
]


@pytest.mark.proves("R29b", "R29c")
@each(("status", "codes", "kind", "retryable"), TABLE)
def test_codes_and_statuses_say_what_it_is(
    status: int, codes: tuple[str, ...], kind: type[LLMError], retryable: bool
) -> None:
    failure = refusal(status, codes)
    assert type(failure.error) is kind
    assert failure.retryable is retryable
    assert failure.unsupported is None


# The bodies of the disguises, as they come.
DISGUISES: list[tuple[str, int, Any, type[LLMError]]] = [
    (
        "openai/m",
        401,
        {"error": {"message": "?", "code": "invalid_api_key"}},
        LLMAuthenticationError,
    ),
    ("openai/m", 403, {"error": {"message": "?", "code": None}}, LLMPermissionError),
    ("mistral/m", 401, {"detail": "?"}, LLMAuthenticationError),
    (
        *("gemini/m", 400),
        {
            "error": {
                "code": 400,
                "message": "?",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "API_KEY_INVALID",
                    }
                ],
            }
        },
        LLMAuthenticationError,
    ),
    (
        *("xai/m", 403, {"code": "unauthenticated:bad-credentials", "error": "?"}),
        LLMAuthenticationError,
    ),
    (
        *("openai/m", 429),
        {"error": {"message": "?", "type": "insufficient_quota", "code": "insufficient_quota"}},
        LLMQuotaError,
    ),
    (
        *("anthropic/m", 429),
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "?",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
        },
        LLMQuotaError,
    ),
]


@pytest.mark.proves("R29b", "R29c")
@pytest.mark.parametrize(("model", "status", "body", "kind"), DISGUISES)
def test_a_bad_key_and_an_empty_purse_are_known_in_every_disguise(
    model: str, status: int, body: Any, kind: type[LLMError]
) -> None:
    provider = model.partition("/")[0]
    own = KEY if provider == "openai" else None
    route = Target(None, own, {provider: KEY}).route(model)
    fault = route.adapter.fault(body)
    failure = http_failure(
        route, head(status, x_should_retry="true"), fault, json.dumps(body).encode()
    )
    assert type(failure.error) is kind
    assert not failure.retryable
    assert failure.error.provider == provider


# Never from words.

TELLING = [
    *("Incorrect API key provided", "You exceeded your current quota", "Rate limit reached"),
    *("maximum context length is 8192 tokens", "context_length_exceeded", "insufficient_quota"),
    *("The model does not exist", "Overloaded", "content_filter", "401 Unauthorized", "timeout"),
    *("Unsupported parameter: 'temperature'", "Bitte später noch einmal versuchen", ""),
]


@each(("status", "codes", "kind", "retryable"), TABLE)
def test_words_change_nothing(
    status: int, codes: tuple[str, ...], kind: type[LLMError], retryable: bool
) -> None:
    for words in TELLING:
        failure = refusal(status, codes, words)
        assert (type(failure.error), failure.retryable, failure.unsupported) == (
            kind,
            retryable,
            None,
        )
        assert words in str(failure.error)


_codes = st.lists(
    st.sampled_from(sorted({code for _, codes, _, _ in TABLE for code in codes})) | st.text(),
    max_size=3,
).map(tuple)
_statuses = st.sampled_from([200, 301, 400, 401, 403, 404, 429, 500, 529]) | st.integers(100, 999)


@given(_statuses, _codes, st.text(), st.text())
def test_no_words_ever_change_anything(
    status: int, codes: tuple[str, ...], words: str, others: str
) -> None:
    one, other = refusal(status, codes, words), refusal(status, codes, others)
    assert type(one.error) is type(other.error)
    assert (one.retryable, one.unsupported) == (other.retryable, other.unsupported)


@given(
    _statuses,
    st.builds(
        ProviderFault,
        st.text(),
        _codes,
        st.none() | st.integers(400, 599),
        st.none() | st.text(),
        st.none() | st.floats(0, 1000),
        st.none() | st.text(),
    )
    | st.none(),
    st.dictionaries(
        st.sampled_from(
            ["retry-after", "retry-after-ms", "date", "x-should-retry", "x-request-id"]
        ),
        st.text() | st.sampled_from(["5", "0", "-1", "1e3", "nan", "true", "FALSE", "Mon, 99"]),
    ),
    st.binary(max_size=50),
)
def test_every_refusal_has_a_class_and_honest_fields(
    status: int, fault: ProviderFault | None, headers: Mapping[str, str], body: bytes
) -> None:
    there = ResponseHead(status, Headers(headers.items()))
    failure = http_failure(ROUTE, there, fault, body, lambda: 0.0)
    error = failure.error
    assert type(error) in KINDS
    assert (error.provider, error.model, error.status) == (
        "openai-compatible",
        "some-model",
        status,
    )
    assert error.retry_after is None or error.retry_after > 0
    assert KEY not in str(error)
    if status in (401, 402, 403) and (fault is None or fault.status is None):
        assert not failure.retryable
        assert isinstance(error, NEVER_AGAIN)


# Fields and the sentence.


def test_the_fields_say_all_that_is_known() -> None:
    fault = ProviderFault(
        "Slow down.", ("rate_limit_exceeded", "tokens"), request_id="from the body"
    )
    answer = head(429, retry_after="7", x_request_id="req_1")
    error = http_failure(ROUTE, answer, fault, b'{"error": 1}').error
    assert str(error) == (
        "openai-compatible answered 429 for model some-model: Slow down. (rate_limit_exceeded)"
    )
    assert vars(error) == {
        "provider": "openai-compatible",
        "model": "some-model",
        "status": 429,
        "code": "rate_limit_exceeded",
        "request_id": "req_1",
        "retry_after": 7.0,
        "attempts": 0,
        "body": '{"error": 1}',
        "partial": None,
        "argument_error": None,
        "invalid_because": None,
        "spent": None,
    }


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (None, "openai-compatible answered 500 for model some-model"),
        (ProviderFault(""), "openai-compatible answered 500 for model some-model"),
        (ProviderFault("Oh."), "openai-compatible answered 500 for model some-model: Oh."),
        (ProviderFault("", ("c",)), "openai-compatible answered 500 for model some-model: (c)"),
        (
            ProviderFault("Oh.", status=429),
            "openai-compatible answered 429 inside a 500 for model some-model: Oh.",
        ),
    ],
)
def test_the_sentence_has_what_there_is(fault: ProviderFault | None, sentence: str) -> None:
    assert str(http_failure(ROUTE, head(500), fault, b"").error) == sentence


def test_the_status_inside_a_success_counts() -> None:
    failure = http_failure(ROUTE, head(200), ProviderFault("Full.", ("429",), status=429), b"")
    assert type(failure.error) is LLMRateLimitError
    assert failure.error.status == 200
    assert failure.retryable


@pytest.mark.parametrize(
    "name", ["x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "X-Request-ID"]
)
def test_the_id_of_the_request_is_found_in_every_spelling(name: str) -> None:
    there = ResponseHead(500, Headers([(name, "req_1")]))
    assert http_failure(ROUTE, there, None, b"").error.request_id == "req_1"
    assert malformed_failure(ROUTE, there, "?", b"").error.request_id == "req_1"
    assert answer_failure(ROUTE, there, LLMFilteredError("?")).error.request_id == "req_1"
    fault = ProviderFault("?", request_id="req_2")
    assert http_failure(ROUTE, head(500), fault, b"").error.request_id == "req_2"


@pytest.mark.parametrize(
    ("codes", "param", "named"),
    [
        (("unsupported_parameter", "invalid_request_error"), "max_tokens", "max_tokens"),
        (("unsupported_value",), "temperature", "temperature"),
        (("invalid_request_error", "unsupported_value"), "temperature", "temperature"),
        (("unsupported_parameter",), None, None),
        (("invalid_request_error",), "max_tokens", None),
        ((), "max_tokens", None),
    ],
)
def test_an_unsupported_parameter_is_known_by_its_code(
    codes: tuple[str, ...], param: str | None, named: str | None
) -> None:
    failure = http_failure(ROUTE, head(400), ProviderFault("?", codes, param=param), b"")
    assert failure.unsupported == named
    assert type(failure.error) is LLMRequestError
    assert not failure.retryable


# When to come retryable.

NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT
WISHES: list[tuple[dict[str, str], float | None, float | None]] = [
    # headers, what the body asks for, the wish
    ({}, None, None),
    ({"retry-after": "7"}, None, 7.0),
    ({"Retry-After": "7"}, None, 7.0),
    ({"retry-after": "0.5"}, None, 0.5),
    ({"retry-after": " 7 "}, None, 7.0),
    ({"retry-after-ms": "1500"}, None, 1.5),
    ({"retry-after-ms": "0.5"}, None, 0.0005),
    ({"retry-after-ms": "1500", "retry-after": "7"}, 3.0, 1.5),
    ({"retry-after-ms": "soon", "retry-after": "7"}, 3.0, 7.0),
    ({"retry-after-ms": "0", "retry-after": "7"}, None, 7.0),
    ({"retry-after": "Sun, 09 Sep 2001 01:46:50 GMT"}, None, 10.0),
    ({"retry-after": "Sunday, 09-Sep-01 01:46:50 GMT"}, None, 10.0),
    ({"retry-after": "Sun Sep  9 01:46:50 2001"}, None, 10.0),
    (
        {
            "retry-after": "Mon, 01 Jan 2024 00:00:05 GMT",
            "date": "Mon, 01 Jan 2024 00:00:00 GMT",
        },
        None,
        5.0,
    ),
    ({"retry-after": "Sun, 09 Sep 2001 01:46:40 GMT"}, None, None),
    ({"retry-after": "Sun, 09 Sep 2001 01:46:30 GMT"}, None, None),
    ({"retry-after": "0"}, None, None),
    ({"retry-after": "0"}, 3.0, 3.0),
    ({}, 0.0, None),
    ({}, 3.0, 3.0),
    ({"retry-after": "7"}, 3.0, 7.0),
    *(
        ({"retry-after": nonsense}, 3.0, 3.0)
        for nonsense in ("soon", "-1", "+7", "1_0", "1e3", "nan", "inf", "٧", "7s", "7, 7", "")
    ),
]


@pytest.mark.parametrize(("headers", "asked", "wish"), WISHES)
def test_the_wish_of_the_provider_is_read_in_every_spelling(
    headers: dict[str, str], asked: float | None, wish: float | None
) -> None:
    there = ResponseHead(429, Headers(headers.items()))
    fault = ProviderFault("?", retry_after=asked)
    assert http_failure(ROUTE, there, fault, b"", lambda: NOW).error.retry_after == wish


def test_the_wish_of_gemini_stands_in_the_body() -> None:
    route = Target(None, None, {"gemini": KEY}).route("gemini/m")
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39.5s"}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    failure = http_failure(route, head(429), route.adapter.fault(body), b"")
    assert (type(failure.error), failure.error.retry_after) == (LLMRateLimitError, 39.5)


def test_a_header_of_a_success_is_no_wish_of_the_error_inside_it() -> None:
    fault = ProviderFault("?", ("overloaded_error",), retry_after=3.0)
    assert http_failure(ROUTE, head(200, retry_after="7"), fault, b"").error.retry_after == 3.0
    inside = ProviderFault("?", status=429)
    assert http_failure(ROUTE, head(200, retry_after="7"), inside, b"").error.retry_after == 7.0


@each(("status", "codes", "kind", "retryable"), TABLE)
def test_the_provider_may_say_whether_to_come_again(
    status: int, codes: tuple[str, ...], kind: type[LLMError], retryable: bool
) -> None:
    """But it never makes another attempt of a bad key or an empty purse."""
    fatal = issubclass(kind, LLMAuthenticationError | LLMPermissionError | LLMQuotaError)
    for word, expected in (
        *(("false", False), ("False", False), ("true", not fatal), ("TRUE", not fatal)),
        *(("maybe", retryable), ("", retryable)),
    ):
        assert refusal(status, codes, x_should_retry=word).retryable is expected


# The key.


@pytest.mark.parametrize(
    "words", [KEY, f"Incorrect API key provided: {KEY}.", f"{KEY}{KEY}", "x" * 480 + KEY * 3]
)
def test_the_key_is_hidden(words: str) -> None:
    body = json.dumps({"error": words}).encode()
    made = [
        http_failure(ROUTE, head(401), ProviderFault(words, (words,)), body),
        malformed_failure(ROUTE, head(200), words, body),
        malformed_failure(ROUTE, head(200), Malformed(words), body),
    ]
    for failure in made:
        seen = f"{failure.error!s} {failure.error!r} {vars(failure.error)} {failure!r}"
        assert KEY not in seen
        assert KEY[:12] not in seen
        assert "***" in str(failure.error.body)


@given(st.lists(st.sampled_from([KEY, "x", "y" * 99, "ü", "z" * 1000]), max_size=400))
@example([KEY] * 400)
@example(["x" * 4090, KEY])
@example(["x" * 4090, KEY, "y" * 100])
@example(["x" * (4096 - len(KEY) + 1), KEY])
def test_no_half_of_a_key_is_left_where_the_body_is_cut(parts: list[str]) -> None:
    body = http_failure(ROUTE, head(500), None, "".join(parts).encode()).error.body
    assert body is not None
    assert len(body) <= 4096
    assert KEY[:4] not in body


def test_a_short_body_is_whole_and_a_long_one_is_cut() -> None:
    assert http_failure(ROUTE, head(500), None, "ü\xff".encode() + b"\xff").error.body == "üÿ\ufffd"
    assert http_failure(ROUTE, head(500), None, b"x" * 4096).error.body == "x" * 4096
    assert http_failure(ROUTE, head(500), None, b"x" * 10_000).error.body == "x" * 4096
    assert len(str(http_failure(ROUTE, head(500), ProviderFault("x" * 10_000), b"").error)) < 600


def test_without_a_key_nothing_is_hidden() -> None:
    route = Target("http://127.0.0.1:11434", None).route("llama")
    error = http_failure(route, head(500), ProviderFault("None of it."), b"None" * 2000).error
    assert "None of it." in str(error)
    assert error.body == "None" * 1024


# Errors that are not refusals.


def test_a_damaged_body_is_an_invalid_answer() -> None:
    failed = TransportFailure(FailureKind.ENCODING, "the words")
    for partway in (False, True):
        failure = connection_failure(ROUTE, failed, 1.5, partway=partway)
        assert type(failure.error) is LLMResponseError
        assert str(failure.error).endswith(": the body cannot be decompressed")
        assert failure.retryable


@pytest.mark.parametrize("kind", sorted(set(FailureKind) - {FailureKind.ENCODING}))
def test_a_connection_that_failed_is_typed(kind: FailureKind) -> None:
    cause = OSError("cause")
    failed = TransportFailure(kind, "the words")
    failed.__cause__ = cause
    failure = connection_failure(ROUTE, failed, 1.5)
    error = failure.error
    is_timeout = kind in (FailureKind.TIMEOUT, FailureKind.CONNECT_TIMEOUT)
    expected = LLMTimeoutError if is_timeout else LLMConnectionError
    assert type(error) is expected
    assert isinstance(error, TimeoutError if is_timeout else ConnectionError)
    ending = " within 1.5 s" if is_timeout else ": the words"
    assert str(error) == f"no answer from openai-compatible for model some-model{ending}"
    assert (error.provider, error.model, error.status) == ("openai-compatible", "some-model", None)
    assert error.__cause__ is cause
    final = {"certificate", "closed", "request", "too_large"}
    assert failure.retryable is (kind not in final)
    partway = str(connection_failure(ROUTE, failed, 1.5, partway=True).error)
    words = "no data for 1.5 s" if is_timeout else "in the middle of the answer"
    assert words in partway


@pytest.mark.parametrize("retryable", [False, True])
def test_an_answer_that_is_none_is_typed(retryable: bool) -> None:
    failure = malformed_failure(
        ROUTE, head(200), Malformed("no choices", "odd"), b"<html>", retryable=retryable
    )
    error = failure.error
    assert type(error) is LLMResponseError
    assert (error.status, error.code, error.body) == (200, "odd", "<html>")
    assert "no choices" in str(error)
    assert failure.retryable is retryable
    assert malformed_failure(ROUTE, head(200), "empty", b"").error.code is None


def test_an_answer_that_was_withheld_gets_the_fields_of_the_exchange() -> None:
    found = LLMResponseError("broken arguments", body='{"a":')
    failure = answer_failure(ROUTE, head(200), found)
    assert failure.error is found
    assert (found.provider, found.model, found.status) == ("openai-compatible", "some-model", 200)
    assert found.body == '{"a":'
    assert not failure.retryable


@pytest.mark.parametrize("status", [204, 301, 307, 308])
def test_what_is_neither_an_answer_nor_an_error_is_no_answer(status: int) -> None:
    failure = http_failure(ROUTE, head(status), None, b"")
    assert type(failure.error) is LLMResponseError
    assert ("check base_url" in str(failure.error)) is (status >= 300)
    assert not failure.retryable


@pytest.mark.parametrize(
    ("kind", "unsent"),
    [
        (FailureKind.CONNECT, True),
        (FailureKind.CONNECT_TIMEOUT, True),
        (FailureKind.CERTIFICATE, True),
        (FailureKind.TIMEOUT, False),
        (FailureKind.BROKEN, False),
    ],
)
def test_a_request_that_did_not_reach_the_provider(kind: FailureKind, unsent: bool) -> None:
    assert connection_failure(ROUTE, TransportFailure(kind, "x"), 1.0).unsent is unsent


@pytest.mark.parametrize(
    "value",
    [
        "ThrottlingException",
        "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/",
        "com.amazon.bedrock#ThrottlingException",
    ],
)
def test_the_error_type_of_aws_is_in_a_header(value: str) -> None:
    failure = refusal(400, (), x_amzn_errortype=value)
    assert (type(failure.error), failure.error.code) == (LLMRateLimitError, "ThrottlingException")
    assert failure.retryable


def test_a_code_in_the_body_precedes_the_one_in_the_header() -> None:
    failure = refusal(400, ("context_length_exceeded",), x_amzn_errortype="ValidationException")
    assert type(failure.error) is LLMContextLengthError
    assert refusal(400, (), x_amzn_errortype=":").error.code is None
