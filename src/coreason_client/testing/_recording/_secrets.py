"""Finds and removes the secrets of a recording. Pure.

Secrets are: the values of headers, cookies, query parameters and fields whose names show it; tokens
that can be recognised by their form; and values that the caller names. Every value that was found
once is removed everywhere: a service may repeat a key in its answer, also split into two chunks.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from ..._secret import header_secrets, redact
from .._secret_names import MASK, is_secret_header, is_secret_name
from ._file import Headers, RecordedChunk, RecordedExchange, Recording

Span = tuple[int, int]
"""The first byte of a part, and the first one after it."""

_MIN_LENGTH = 6  # of a secret that is looked for everywhere; as in `_secret.py`
# In a query these are credentials, elsewhere they are usually something else.
_QUERY_NAMES = frozenset({"key", "token", "code", "ticket", "auth"})
_TOKEN_FIELDS = frozenset({"key", "token", "ticket"})
_LONG_WORD = re.compile(r"(?=\S*\d)[\w.+/=~-]{16,}", re.ASCII)
_COOKIE = re.compile(r"=\"?([^;,\s\"]+)")
_URL_HEADERS = frozenset({"location", "content-location", "referer"})
# Lengths have limits where a search from each of many beginnings would reach the end of the body.
_FORMS = re.compile(
    rb"(?:\b(?:sk|pk|rk)[-_][\w-]{16,}"
    rb"|\b(?:gsk|hf|ghp|gho|ghs|ghu|github_pat|npm|dop_v1|shpat)_\w{16,}"
    rb"|\b(?:xai|pplx|glpat|xox[abeprs])-[\w-]{16,}"
    rb"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    rb"|\bAIza[\w-]{30,}"
    rb"|\bya29\.[\w.-]{16,}"
    rb"|\beyJ[\w-]{8,2048}\.[\w-]{8,16384}\.[\w-]*"
    rb"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?:[^-]|-(?!----)){0,16384}"
    rb"-----END [A-Z ]{0,32}PRIVATE KEY-----"
    rb"|(?<=://)(?:[^/\s\"'@:]{0,256}:[^/\s\"'@]{1,1024}|[^/\s\"'@:]{16,1024})(?=@)"
    rb"|(?<=[Bb]earer )[\w.~+/=-]{8,}"
    rb"|(?<=[Bb]asic )[\w+/=]{8,})",
    re.DOTALL,
)
_NAME = rb"([A-Za-z0-9_.-]{1,64})"
_FIELDS = (
    re.compile(rb'"' + _NAME + rb'"\s*:\s*"((?:[^"\\]|\\.)+)"', re.DOTALL),
    re.compile(rb'\\+"' + _NAME + rb'\\+"\s*:\s*\\+"([^"\\]+)'),  # JSON as text in JSON
    # A form, or the query or fragment of a URL.
    re.compile(rb"(?:^|[?&#\s\"])([A-Za-z0-9_.%-]{1,64})=([^&\s\"\\]+)"),
    re.compile(
        rb'name="' + _NAME + rb'"(?:\r\n[^\r\n]{1,256}){0,4}\r\n\r\n([^\r\n]+)'
    ),  # multipart
)


# Finding.


def request_secrets(exchange: RecordedExchange) -> set[str]:
    """Return the secrets in a request and in its response."""
    found: set[str] = set()
    for headers in (exchange.headers, exchange.response_headers):
        found.update(_in_headers(headers))
    found.update(_in_query(exchange.target))
    for body in (exchange.body, b"".join(chunk.data for chunk in exchange.chunks)):
        found.update(_text(body[start:end]) for start, end in _spans_by_form(body))
        found.update(_in_json(body))
    return found


def environment_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of environment variables whose names show that they are secrets."""
    return {
        value
        for name, value in environment.items()
        if is_secret_name(name) or name.endswith(("_TOKEN", "_KEY"))
    }


def _in_headers(headers: Headers) -> Iterator[str]:
    for name, value in headers:
        yield from header_secrets({name: value})
        if name == "set-cookie":
            yield from _COOKIE.findall(value.partition(";")[0])
        elif is_secret_name(name):
            yield value
        elif name in _URL_HEADERS:
            yield from _in_query(value)


def _in_query(url: str) -> Iterator[str]:
    """Yield the secrets in the query of a URL, and in its fragment."""
    for part in re.split("[?#]", url)[1:]:
        yield from (value for name, value in parse_qsl(part) if _is_secret_parameter(name))


def _in_json(body: bytes) -> list[str]:
    try:
        return [*_in_value(json.loads(body), named=False)]
    except (ValueError, RecursionError):
        return []


def _in_value(value: Any, *, named: bool) -> Iterator[str]:
    """Yield the secrets in a value of JSON; `named` is True if its own name shows that it is one.

    Of an object with such a name only long words count: its other fields may be ordinary text.
    """
    if isinstance(value, str) and named:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _in_value(item, named=named)
    elif isinstance(value, dict):
        for name, item in value.items():
            for found in _in_value(item, named=named or is_secret_name(name)):
                if is_secret_name(name) or _LONG_WORD.fullmatch(found):
                    yield found


def _is_secret_parameter(name: str) -> bool:
    return name.lower() in _QUERY_NAMES or is_secret_name(name)


def _spans_by_form(body: bytes) -> Iterator[Span]:
    """Yield the parts of a body that are secrets by their names or their forms."""
    for match in _FORMS.finditer(body):
        yield match.span()
    for pattern in _FIELDS:
        for match in pattern.finditer(body):
            name = unquote(match[1].decode())
            if is_secret_name(name) or (
                name.lower() in _TOKEN_FIELDS and _LONG_WORD.fullmatch(_text(match[2]))
            ):
                yield match.span(2)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


# Removing.


def without_secrets(recording: Recording, known: Iterable[str] = ()) -> Recording:
    """Return a recording without secrets: its own, and those that the caller knows."""
    found = set(known)
    for exchange in recording.exchanges:
        found |= request_secrets(exchange)
    forms = {form for secret in found if len(secret) >= _MIN_LENGTH for form in _forms(secret)}
    exchanges = (_cleaned(exchange, forms) for exchange in recording.exchanges)
    return replace(recording, exchanges=tuple(exchanges))


def _forms(secret: str) -> Iterator[str]:
    """Yield the ways in which a secret may be written."""
    data = secret.encode("utf-8", "replace")
    yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
    for encoded in (b64encode(data).decode(), urlsafe_b64encode(data).decode()):
        yield from (encoded, encoded.rstrip("="))
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    yield data.hex()


def _cleaned(exchange: RecordedExchange, forms: set[str]) -> RecordedExchange:
    chunks = [chunk.data for chunk in exchange.chunks]
    cleaned = _clean_chunks(chunks, forms)
    return replace(
        exchange,
        target=_clean_target(exchange.target, forms),
        headers=_clean_headers(exchange.headers, forms),
        body=_clean_body(exchange.body, forms),
        response_headers=_clean_headers(exchange.response_headers, forms),
        chunks=tuple(
            RecordedChunk(data, chunk.at)
            for data, chunk in zip(cleaned, exchange.chunks, strict=True)
        ),
    )


def _clean_chunks(chunks: list[bytes], forms: set[str]) -> list[bytes]:
    body = b"".join(chunks)
    spans = [*_spans_by_form(body)]
    for form in forms:
        spans += spans_of(body, form.encode("utf-8", "replace"))
    return replace_spans(chunks, merged_spans(spans), MASK.encode()) if spans else chunks


def _clean_headers(headers: Headers, forms: set[str]) -> Headers:
    return tuple(
        (name, MASK if is_secret_header(name, value) else _clean_text(value, forms))
        for name, value in headers
        if name not in ("cookie", "set-cookie")
    )


def _clean_text(text: str, forms: set[str]) -> str:
    data = text.encode("utf-8", "surrogateescape")
    cleaned = replace_spans([data], _spans_by_form(data), MASK.encode())
    return redact(b"".join(cleaned).decode("utf-8", "surrogateescape"), forms)


def _clean_target(target: str, forms: set[str]) -> str:
    path, mark, query = target.partition("?")
    parameters = [
        f"{name}={MASK}" if _is_secret_parameter(name) else parameter
        for parameter in query.split("&")
        for name in (parameter.partition("=")[0],)
    ]
    return _clean_text(path, forms) + mark + _clean_text("&".join(parameters), forms)


def _clean_body(body: bytes, forms: set[str]) -> bytes:
    try:
        cleaned = json.dumps(_clean_value(json.loads(body), forms), ensure_ascii=False)
    except (ValueError, RecursionError):
        return b"".join(_clean_chunks([body], forms)) if body else body
    return cleaned.encode("utf-8", "surrogatepass")


def _clean_value(value: Any, forms: set[str]) -> Any:
    if isinstance(value, str):
        return _clean_text(value, forms)
    if isinstance(value, list):
        return [_clean_value(item, forms) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        _clean_text(name, forms): _masked(item)
        if _is_secret_field(name, item)
        else _clean_value(item, forms)
        for name, item in value.items()
    }


def _is_secret_field(name: str, value: Any) -> bool:
    if is_secret_name(name):
        return True
    if not isinstance(value, str) or name.lower() not in _TOKEN_FIELDS:
        return False
    return _LONG_WORD.fullmatch(value) is not None


def _masked(value: Any) -> Any:
    """Return a value of JSON without its texts."""
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {name: _masked(item) for name, item in value.items()}
    return value


# Boundaries: parts of a body are replaced, and its chunks begin and end where they did.


def spans_of(body: bytes, part: bytes) -> list[Span]:
    """Return where a part occurs in a body."""
    found: list[Span] = []
    at = body.find(part) if part else -1
    while at >= 0:
        found.append((at, at + len(part)))
        at = body.find(part, at + len(part))
    return found


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in their order, with those joined that overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def replace_spans(
    chunks: Sequence[bytes], spans: Iterable[Span], replacement: bytes
) -> list[bytes]:
    """Return the chunks with each span of their joined bytes replaced.

    A boundary within a span stays at the same distance from its start, or at its end.
    """
    body = b"".join(chunks)
    pieces: list[bytes] = []
    moved: list[int] = []
    ends = [*accumulate(map(len, chunks))]
    done, size = 0, 0
    for start, end in [*merged_spans(spans), (len(body), len(body))]:
        while len(moved) < len(ends) and ends[len(moved)] <= start:
            moved.append(size + ends[len(moved)] - done)
        pieces.append(body[done:start])
        size += start - done
        if end > start:
            while len(moved) < len(ends) and ends[len(moved)] < end:
                moved.append(size + min(ends[len(moved)] - start, len(replacement)))
            pieces.append(replacement)
            size += len(replacement)
        done = end
    changed = b"".join(pieces)
    starts = [0, *moved][:-1]
    return [changed[start:end] for start, end in zip(starts, moved, strict=True)]
