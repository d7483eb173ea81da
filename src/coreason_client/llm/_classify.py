"""Classifies failed attempts: the error class, and whether a retry may succeed. Pure.

The error codes of the provider decide, or else the HTTP status. The text of a message is not used,
because it changes and is translated; the one exception is the table of
requests that are too long for the model.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from .._http._checks import shown as shown_url
from .._http._types import (
    FINAL_FAILURES,
    TIMEOUT_FAILURES,
    UNSENT_FAILURES,
    FailureKind,
    ResponseHead,
    TransportFailure,
)
from .._retry import RETRIED_STATUSES
from .._secret import redacted_cause
from ._answer import Malformed, ProviderFault
from ._json import clean_text, error_reason, parse_or_none
from ._route import ModelRoute
from ._server_delay import server_delay
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
from .types import Usage

# What is wrong with an image, in answers of the Responses API.
_IMAGE_CODES = (
    *("invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url"),
    *("invalid_image_mode", "image_too_large", "image_too_small", "image_parse_error"),
    *("image_file_too_large", "unsupported_image_media_type", "empty_image_file"),
    *("failed_to_download_image", "image_file_not_found"),
)
_BY_CODE: Mapping[str, type[LLMError]] = {
    # OpenAI and compatible providers
    "invalid_api_key": LLMAuthenticationError,
    "invalid_authentication_error": LLMAuthenticationError,
    "authentication_error": LLMAuthenticationError,  # also Anthropic
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
    # Answers of the Responses API that failed
    "invalid_prompt": LLMRequestError,
    "vector_store_timeout": LLMServerError,
    "image_content_policy_violation": LLMFilteredError,
    **dict.fromkeys(_IMAGE_CODES, LLMRequestError),
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
    # Bedrock
    "UnrecognizedClientException": LLMAuthenticationError,  # these five come with a 403
    "ExpiredTokenException": LLMAuthenticationError,
    "InvalidSignatureException": LLMAuthenticationError,
    "IncompleteSignatureException": LLMAuthenticationError,
    "MissingAuthenticationTokenException": LLMAuthenticationError,
    "AccessDeniedException": LLMPermissionError,
    "ResourceNotFoundException": LLMNotFoundError,
    "ServiceQuotaExceededException": LLMQuotaError,
    "ThrottlingException": LLMRateLimitError,
    "ModelNotReadyException": LLMOverloadedError,
    "ServiceUnavailableException": LLMOverloadedError,
    "ModelTimeoutException": LLMServerError,
    "ModelErrorException": LLMServerError,
    "ModelStreamErrorException": LLMServerError,
    "InternalServerException": LLMServerError,
    "ValidationException": LLMRequestError,
}
# Codes that are less specific than the status, if there is one.
_GENERAL = frozenset({"invalid_request_error", "INVALID_ARGUMENT", "ValidationException"})
_BY_STATUS: Mapping[int, type[LLMError]] = {
    400: LLMRequestError,
    401: LLMAuthenticationError,
    402: LLMQuotaError,
    403: LLMPermissionError,
    404: LLMNotFoundError,
    408: LLMServerError,  # these three are retried
    409: LLMServerError,
    425: LLMServerError,
    413: LLMRequestError,
    422: LLMRequestError,
    429: LLMRateLimitError,
    529: LLMOverloadedError,
}
_FATAL = (LLMAuthenticationError, LLMPermissionError, LLMQuotaError)
_NOT_RETRIED = (*_FATAL, LLMFilteredError, LLMNotFoundError, LLMRequestError)
_REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
# Classes of which an error may turn out to be a request that is too long.
_MAYBE_TOO_LONG = (LLMRequestError, LLMServerError, LLMResponseError)
_MAX_BODY = 4096


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt.

    `retryable`: a retry may succeed. `unsupported`: a parameter that the provider rejects; without
    it, the request may succeed. `invalid`: the answer that does not match `response_format`; the
    model may correct it. `unsent`: the provider was not reached, so nothing is billed. `usage`: the
    tokens that the provider counted for an answer of which nothing is usable.
    """

    error: LLMError
    retryable: bool
    unsupported: str | None = None
    invalid: str | None = None
    unsent: bool = False
    usage: Usage | None = None


def http_failure(
    route: ModelRoute,
    head: ResponseHead,
    fault: ProviderFault | None,
    body: bytes,
    now: Callable[[], float] = time.time,
) -> FailedAttempt:
    """Classify an error response, or an error inside a success."""
    fault = fault or ProviderFault("")
    fault = replace(fault, codes=(*fault.codes, *_header_codes(head)))
    status = fault.status or head.status
    message = fault.message or error_reason(parse_or_none(body), body)
    kind = _kind(fault.codes, status)
    if kind in _MAYBE_TOO_LONG and is_overflow(route.profile.name, message):
        kind = LLMContextLengthError
    reason = clean_text(route.redact(message))
    code = clean_text(route.redact(fault.codes[0])) if fault.codes else None
    known = any(code in _BY_CODE for code in fault.codes)
    error = route.error(
        kind,
        _http_message(route, status, head.status, reason, code),
        status=head.status,
        code=code,
        request_id=request_id(head) or fault.request_id,
        retry_after=server_delay(head, fault, now),
        body=_text(body, route),
    )
    unsupported = clean_text(fault.param or "") if _UNSUPPORTED & set(fault.codes) else None
    return FailedAttempt(error, _is_retryable(head, kind, status, known=known), unsupported or None)


def connection_failure(
    route: ModelRoute, failure: TransportFailure, seconds: float, *, partway: bool = False
) -> FailedAttempt:
    """Classify a failed connection, a damaged body, or a timeout of so many seconds."""
    source = f"from {route.profile.name} for model {route.model}{failure.via}"
    if failure.kind in TIMEOUT_FAILURES:
        kind: type[LLMError] = LLMTimeoutError
        what = (
            f"the answer {source} stopped: no data for" if partway else f"no answer {source} within"
        )
        message = f"{what} {seconds:.3g} s"
    elif failure.kind is FailureKind.ENCODING:
        kind = LLMResponseError
        message = _invalid_message(route, "the body cannot be decompressed")
    else:
        kind = LLMConnectionError
        what = "the connection broke in the middle of the answer" if partway else "no answer"
        message = f"{what} {source}: {clean_text(route.redact(str(failure)))}"
    error = route.error(kind, message)
    error.__cause__ = redacted_cause(failure.__cause__, route.redact)
    unsent = failure.kind in UNSENT_FAILURES or failure.kind is FailureKind.CERTIFICATE
    return FailedAttempt(error, failure.kind not in FINAL_FAILURES, unsent=unsent)


def malformed_failure(
    route: ModelRoute,
    head: ResponseHead,
    why: Malformed | str,
    body: bytes,
    *,
    retryable: bool = False,
) -> FailedAttempt:
    """Classify a response that cannot be parsed."""
    reason = clean_text(route.redact(str(why)))
    error = route.error(
        LLMResponseError,
        _invalid_message(route, reason),
        status=head.status,
        code=clean_text(why.code) if isinstance(why, Malformed) and why.code else None,
        request_id=request_id(head),
        body=_text(body, route),
    )
    return FailedAttempt(error, retryable)


def _invalid_message(route: ModelRoute, reason: str) -> str:
    return f"{route.profile.name} sent an invalid answer for model {route.model}: {reason}"


def answer_failure(
    route: ModelRoute,
    head: ResponseHead,
    error: LLMError,
    *,
    invalid: str | None = None,
    usage: Usage | None = None,
) -> FailedAttempt:
    """Add provider, model, status and request id to an error found in an answer."""
    error.provider, error.model, error.status = route.profile.name, route.model, head.status
    error.request_id = request_id(head)
    return FailedAttempt(error, retryable=False, invalid=invalid, usage=usage)


def _kind(codes: tuple[str, ...], status: int) -> type[LLMError]:
    by_status = _BY_STATUS.get(status) or (LLMServerError if status >= 500 else None)
    for code in codes:
        kind = _BY_CODE.get(code)
        if kind is not None and not (by_status and _status_wins(code, kind, by_status)):
            return kind
    if by_status is not None:
        return by_status
    if 400 <= status < 500:
        return LLMRequestError
    # An error inside a success, without a known code, is the provider's own.
    return LLMServerError if status == 200 else LLMResponseError


def _status_wins(code: str, kind: type[LLMError], by_status: type[LLMError]) -> bool:
    """Return True if the status is used: no code turns a fatal status into a transient error."""
    transient = not issubclass(kind, _NOT_RETRIED)
    return code in _GENERAL or (transient and issubclass(by_status, _FATAL))


def _is_retryable(head: ResponseHead, kind: type[LLMError], status: int, *, known: bool) -> bool:
    header = head.headers.get("x-should-retry", "").lower()
    if header == "false" or issubclass(kind, _FATAL):
        return False
    if header == "true":
        return True
    if issubclass(kind, _NOT_RETRIED):
        return False
    transient = known and issubclass(kind, LLMRateLimitError | LLMServerError)
    return transient or status in RETRIED_STATUSES or status >= 500 or status == 409


def _http_message(
    route: ModelRoute, status: int, outer_status: int, reason: str, code: str | None
) -> str:
    details = " ".join(filter(None, (reason, f"({code})" if code else "")))
    suffix = f": {details}" if details else ""
    if 300 <= status < 400 and not suffix:
        suffix = ", a redirect; check base_url"
    if status in (404, 405) and not code:  # the address may be wrong, not the model
        suffix += f" (requested from {shown_url(route.base)}; check base_url)"
    inside = f" inside a {outer_status}" if status != outer_status else ""
    return f"{route.profile.name} answered {status}{inside} for model {route.model}{suffix}"


def _header_codes(head: ResponseHead) -> tuple[str, ...]:
    """Return the error type that AWS sends in a header; a URL may follow it."""
    code = head.headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2].strip()
    return (code,) if code else ()


def request_id(head: ResponseHead) -> str | None:
    """Return the provider's id of a request, None if it sent none."""
    for name in _REQUEST_IDS:
        if name in head.headers:
            return head.headers[name]
    return None


def _text(body: bytes, route: ModelRoute) -> str:
    # Redact before cutting, and drop the part of a secret that the first cut may have left.
    longest_secret = max((len(secret) for secret in route.secrets()), default=0)
    beginning = body[: _MAX_BODY + longest_secret]
    text = route.redact(beginning.decode("utf-8", "replace"))
    if longest_secret and len(beginning) < len(body):
        text = text[: len(text) - longest_secret + 1]
    return text[:_MAX_BODY]


# Requests that are too long for the model, if the provider has no code for it.
#
# The table has the error messages of each provider or server. The tests have an example of each,
# with its source. For a known provider only its own messages count; behind a gateway or an unknown
# host, the messages of all.

_N = r"[0-9][0-9,]*"

_OPENAI = rf"This model's maximum context length is {_N} tokens"  # vLLM and DeepSeek copy it
_INPUT_AND_OUTPUT = rf"`inputs` tokens \+ `max_new_tokens` must be <= {_N}"

_PATTERNS: Mapping[str, tuple[str, ...]] = {
    "openai": (_OPENAI,),
    "azure": (_OPENAI,),
    "anthropic": (
        rf"prompt is too long: {_N} tokens > {_N} maximum",
        rf"input length and `max_tokens` exceed context limit: {_N} \+ {_N} > {_N}",
    ),
    "gemini": (
        rf"The input token count (?:\({_N}\) )?exceeds the maximum number of tokens allowed",
    ),
    "bedrock": (r"(?:^|: )Input is too long for requested model\.?$",),
    "mistral": (rf"Prompt contains {_N} tokens.* too large for model with {_N} maximum context",),
    "cerebras": (rf"messages or completion\. Current length is {_N} while limit is {_N}",),
    "together": (_INPUT_AND_OUTPUT, _OPENAI),
    "fireworks": (rf"The prompt is too long: {_N}, model maximum context length: {_N}",),
    "deepseek": (_OPENAI,),
    "xai": (rf"This model's maximum prompt length is {_N} but the request contains {_N} tokens",),
    "openrouter": (rf"This endpoint's maximum context length is {_N} tokens",),
    "cohere": (
        rf"too many tokens: total number of tokens \(prompt and prediction\) cannot exceed {_N}",
    ),
    "vllm": (
        _OPENAI,
        rf"prompt \((?:total )?length {_N}\) is (?:too long to fit into|longer than) the",
    ),
    "sglang": (rf"The input \({_N} tokens\) is longer than the model's context length \({_N}",),
    "tgi": (_INPUT_AND_OUTPUT,),
    "lmstudio": (
        rf"Attempts to keep the first {_N} tokens when (?:the )?context (?:the )?overflows",
    ),
    "llamacpp": (
        r"exceeds? the available context size",
        r"^Context size has been exceeded\.?$",
        rf"Requested tokens \({_N}\) exceed context window of {_N}",
    ),
    "ollama": (r"^prompt too long; exceeded max context length by ",),
    "copilot": (rf"prompt token count of {_N} exceeds the limit of {_N}",),
}

_ALIASES = {"gemini-openai": "gemini", "ollama-openai": "ollama"}
"""Second names of providers."""

_GATEWAYS = frozenset({"openrouter", "azure", "together", "fireworks", "vllm", "lmstudio"})
"""Providers that forward the messages of other providers, or run the servers of others."""


def is_overflow(provider: str, message: str) -> bool:
    """Return True if an error message says that the request is too long for the model."""
    return _messages_of(_ALIASES.get(provider, provider)).search(message) is not None


@cache  # compiled on first use: it takes longer than to import any module of the AI client
def _messages_of(provider: str) -> re.Pattern[str]:
    own = provider in _PATTERNS and provider not in _GATEWAYS
    known = _PATTERNS[provider] if own else chain.from_iterable(_PATTERNS.values())
    return re.compile("|".join(f"(?:{pattern})" for pattern in known), re.ASCII)
