"""Which error it is, and whether another attempt may do better. Pure.

An error is known by the codes that the provider gave, else by the HTTP status. Words are not read,
since they change and are translated; the one exception is the table of `_overflow.py`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .._http._checks import shown as visible
from .._http._types import FINAL_FAILURES, FailureKind, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES
from .._secret import redacted_cause
from ._hints import retry_hint
from ._json import parse
from ._overflow import is_overflow
from ._route import Route
from ._terms import Fault, Malformed
from ._words import cleaned, reason_in
from .errors import (
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

__all__ = ["Failure", "connection_failure", "http_failure", "malformed", "withheld"]

_BY_CODE: Mapping[str, type[LLMError]] = {
    # OpenAI and what is compatible with it
    "invalid_api_key": LLMAuthenticationError,
    "invalid_authentication_error": LLMAuthenticationError,
    "authentication_error": LLMAuthenticationError,  # Anthropic's too
    "unauthenticated:bad-credentials": LLMAuthenticationError,  # xAI, with a 403
    "401": LLMAuthenticationError,  # Azure
    "insufficient_quota": LLMQuotaError,
    "billing_not_active": LLMQuotaError,
    "billing_hard_limit_reached": LLMQuotaError,
    "context_length_exceeded": LLMContextLengthError,
    "string_above_max_length": LLMContextLengthError,
    "exceed_context_size_error": LLMContextLengthError,  # llama.cpp
    "rate_limit_exceeded": LLMRateLimitError,
    "RateLimitReached": LLMRateLimitError,
    "model_not_found": LLMNotFoundError,
    "DeploymentNotFound": LLMNotFoundError,
    "content_filter": LLMFilteredError,
    "content_policy_violation": LLMFilteredError,
    "permission_denied": LLMPermissionError,
    "server_error": LLMServerError,
    # Anthropic
    "invalid_request_error": LLMRequestError,
    "billing_error": LLMQuotaError,
    "enforced_spend_limit_reached": LLMQuotaError,
    "permission_error": LLMPermissionError,
    "not_found_error": LLMNotFoundError,
    "request_too_large": LLMRequestError,
    "rate_limit_error": LLMRateLimitError,
    "overloaded_error": LLMOverloadedError,
    "api_error": LLMServerError,
    "timeout_error": LLMServerError,
    # Gemini
    "API_KEY_INVALID": LLMAuthenticationError,
    "UNAUTHENTICATED": LLMAuthenticationError,
    "PERMISSION_DENIED": LLMPermissionError,
    "NOT_FOUND": LLMNotFoundError,
    "RESOURCE_EXHAUSTED": LLMRateLimitError,
    "UNAVAILABLE": LLMOverloadedError,
    "INTERNAL": LLMServerError,
    "DEADLINE_EXCEEDED": LLMServerError,
    "INVALID_ARGUMENT": LLMRequestError,
}
# So general that the status says more, where there is one.
_GENERAL = frozenset({"invalid_request_error", "INVALID_ARGUMENT"})
_BY_STATUS: Mapping[int, type[LLMError]] = {
    400: LLMRequestError,
    401: LLMAuthenticationError,
    402: LLMQuotaError,
    403: LLMPermissionError,
    404: LLMNotFoundError,
    408: LLMServerError,  # these three are worth another attempt
    409: LLMServerError,
    425: LLMServerError,
    413: LLMRequestError,
    422: LLMRequestError,
    429: LLMRateLimitError,
    529: LLMOverloadedError,
}
_FATAL = (LLMAuthenticationError, LLMPermissionError, LLMQuotaError)
_NEVER_AGAIN = (*_FATAL, LLMFilteredError, LLMNotFoundError, LLMRequestError)
_REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
# What may turn out to be a request that is too long, once its words are read.
_PERHAPS_TOO_LONG = (LLMRequestError, LLMServerError, LLMResponseError)
_LONGEST_BODY = 4096


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed.

    `again` says whether another one may do better, `unsupported` names a parameter without which
    it would.
    """

    error: LLMError
    again: bool
    unsupported: str | None = None


def http_failure(
    route: Route,
    head: ResponseHead,
    fault: Fault | None,
    body: bytes,
    now: Callable[[], float] = time.time,
) -> Failure:
    """Classify an error response, or an error inside a success."""
    fault = fault or Fault("")
    status = fault.status or head.status
    message = fault.message or reason_in(_json(body), body)
    kind = _kind(fault.codes, status)
    if kind in _PERHAPS_TOO_LONG and is_overflow(route.profile.name, message):
        kind = LLMContextLengthError
    words = cleaned(route.redact(message))
    code = cleaned(route.redact(fault.codes[0])) if fault.codes else None
    known = any(code in _BY_CODE for code in fault.codes)
    error = kind(
        _sentence(route, status, head.status, words, code),
        provider=route.profile.name,
        model=route.model,
        status=head.status,
        code=code,
        request_id=_request_id(head) or fault.request_id,
        retry_after=retry_hint(head, fault, now),
        body=_text(body, route),
    )
    unsupported = cleaned(fault.param or "") if _UNSUPPORTED & set(fault.codes) else None
    return Failure(error, _may_try_again(head, kind, status, known=known), unsupported or None)


def connection_failure(
    route: Route, failure: TransportFailure, seconds: float, *, partway: bool = False
) -> Failure:
    """Classify a connection that failed, or was silent for so many seconds."""
    of = f"from {route.profile.name} for model {route.model}"
    if failure.kind is FailureKind.TIMEOUT:
        kind: type[LLMError] = LLMTimeoutError
        silence = f"the answer {of} stopped: nothing came" if partway else f"no answer {of}"
        words = f"{silence} {'for' if partway else 'within'} {seconds:.3g} s"
    else:
        kind = LLMConnectionError
        what = "the connection broke in the middle of the answer" if partway else "no answer"
        words = f"{what} {of}: {cleaned(route.redact(str(failure)))}"
    error = kind(words, provider=route.profile.name, model=route.model)
    error.__cause__ = redacted_cause(failure.__cause__, route.redact)
    return Failure(error, failure.kind not in FINAL_FAILURES)


def malformed(
    route: Route, head: ResponseHead, why: Malformed | str, body: bytes, *, again: bool = False
) -> Failure:
    """Classify a response that cannot be read as an answer."""
    words = cleaned(route.redact(str(why)))
    error = LLMResponseError(
        f"{route.profile.name} sent what is no answer of model {route.model}: {words}",
        provider=route.profile.name,
        model=route.model,
        status=head.status,
        code=cleaned(why.code) if isinstance(why, Malformed) and why.code else None,
        request_id=_request_id(head),
        body=_text(body, route),
    )
    return Failure(error, again)


def withheld(route: Route, head: ResponseHead, error: LLMError) -> Failure:
    """Fill in what only the exchange knows of an error that was found in an answer."""
    error.provider, error.model, error.status = route.profile.name, route.model, head.status
    error.request_id = _request_id(head)
    return Failure(error, again=False)


def _kind(codes: tuple[str, ...], status: int) -> type[LLMError]:
    by_status = _BY_STATUS.get(status) or (LLMServerError if status >= 500 else None)
    for code in codes:
        kind = _BY_CODE.get(code)
        if kind is not None and not (by_status and _says_less(code, kind, by_status)):
            return kind
    if by_status is not None:
        return by_status
    if 400 <= status < 500:
        return LLMRequestError
    # Inside a success, and without a code that says more, an error is the provider's own.
    return LLMServerError if status == 200 else LLMResponseError


def _says_less(code: str, kind: type[LLMError], by_status: type[LLMError]) -> bool:
    """Return True if the status counts more: no code makes a passing failure of a fatal one."""
    passing = not issubclass(kind, _NEVER_AGAIN)
    return code in _GENERAL or (passing and issubclass(by_status, _FATAL))


def _may_try_again(head: ResponseHead, kind: type[LLMError], status: int, *, known: bool) -> bool:
    told = head.headers.get("x-should-retry", "").lower()
    if told == "false" or issubclass(kind, _FATAL):
        return False
    if told == "true":
        return True
    if issubclass(kind, _NEVER_AGAIN):
        return False
    passing = known and issubclass(kind, LLMRateLimitError | LLMServerError)
    return passing or status in RETRIED_STATUSES or status >= 500 or status == 409


def _json(body: bytes) -> object:
    try:
        return parse(body)
    except ValueError:
        return None


def _sentence(route: Route, status: int, shown: int, words: str, code: str | None) -> str:
    told = f"{words} " if words else ""
    named = f"({code})" if code else ""
    reason = f": {told}{named}".rstrip() if told or named else ""
    if 300 <= status < 400 and not reason:
        reason = ", a redirect; check base_url"
    if status in (404, 405) and not code:  # perhaps not the model: where we asked may help
        reason += f" (asked at {visible(route.base)}: is base_url right?)"
    inside = f" inside a {shown}" if status != shown else ""
    return f"{route.profile.name} answered {status}{inside} for model {route.model}{reason}"


def _request_id(head: ResponseHead) -> str | None:
    return next((head.headers[name] for name in _REQUEST_IDS if name in head.headers), None)


def _text(body: bytes, route: Route) -> str:
    # Redacted before it is cut; and the half of a secret that this cut may have left goes too.
    longest = max((len(secret) for secret in route.secrets()), default=0)
    beginning = body[: _LONGEST_BODY + longest]
    text = route.redact(beginning.decode("utf-8", "replace"))
    if longest and len(beginning) < len(body):
        text = text[: len(text) - longest + 1]
    return text[:_LONGEST_BODY]
