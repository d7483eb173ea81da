"""Credentials, and the only rule for redacting secrets in text from servers and libraries.

A server may repeat a request in its response, for example in an error message. Secrets are: keys
and credentials, the values of headers whose names show that they carry credentials, and values
that the caller marked as `Secret`.
"""

import inspect
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import quote

CredentialLike: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]

# Shorter keys (typical of local services) are not redacted: replacing them would mangle messages
# and protect nothing.
_MIN_SECRET_LENGTH = 6
_MASK = "***"
_SECRET_HEADER_NAMES = re.compile(
    r"(proxy-)?authorization|cookie|(.*[-_])?(api)?(key|token|secret|password)"
)
_LONG_WORD = re.compile(r"[\w.+=~-]{16,}", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Secret(str):
    """Text that is redacted in errors and log lines, such as the value of a custom header.

    Values of headers whose names show that they carry credentials (`Authorization`, `Cookie`,
    `…-Key`, `…-Token`, `…-Secret`) are always redacted; mark other values with this class.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{_MASK}')"


class AsyncCallableError(TypeError):
    """An async callable was passed to a sync client."""


def call_sync(source: Callable[[], Any], name: str, async_client: str) -> Any:
    """Return what a sync callable returns.

    Raises:
        AsyncCallableError: the callable is async; `async_client` is the class to use with it.
    """
    value = source()
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise AsyncCallableError(f"{name} is an async callable; use it with {async_client}")
    return value


class Credential:
    """A credential, or a callable, sync or async, that returns it; redacts its own value.

    `name` is the name of the credential in messages. `check` raises a ValueError for a value that
    cannot be sent. `async_client` is the class to use with an async callable.

    Raises:
        TypeError: the source is neither a string nor a callable.
        ValueError: the source is a string that cannot be sent.
    """

    def __init__(
        self,
        source: CredentialLike,
        name: str = "the credential",
        *,
        check: Callable[[str], object],
        async_client: str = "",
    ) -> None:
        if not isinstance(source, str) and not callable(source):
            raise TypeError(f"{name} must be a string, or a callable that returns one")
        self._source = source
        self._name = name
        self._check = check
        self._async_client = async_client
        self._value: str | None = None
        if isinstance(source, str):
            self._keep(source)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_MASK})"

    @property
    def can_refresh(self) -> bool:
        """True if a refresh may return another value."""
        return not isinstance(self._source, str)

    @property
    def value(self) -> str | None:
        """The current value; None if the callable has not been called."""
        return self._value

    def get(self, *, refresh: bool = False) -> str:
        """Return the value; the callable is called for the first one and for a refresh.

        Raises:
            TypeError: the callable is async, or did not return a string.
            ValueError: the value cannot be sent.
        """
        next_value = partial(self._next, refresh=refresh)
        return self._keep(call_sync(next_value, self._name, self._async_client))

    async def get_async(self, *, refresh: bool = False) -> str:
        """Return the value; the callable is called for the first one and for a refresh.

        Raises:
            TypeError: the callable did not return a string.
            ValueError: the value cannot be sent.
        """
        value = self._next(refresh=refresh)
        return self._keep(await value if inspect.isawaitable(value) else value)

    def redact(self, text: str, headers: Mapping[str, str] = _NO_HEADERS) -> str:
        """Return a text without the credential and without the secrets among the headers."""
        return redact(text, (self._value, *header_secrets(headers)))

    def _next(self, *, refresh: bool) -> Any:
        if callable(self._source) and (refresh or self._value is None):
            return self._source()
        return self._value

    def _keep(self, value: Any) -> str:
        # The messages do not contain the value.
        if not isinstance(value, str):
            kind = type(value).__name__
            raise TypeError(f"{self._name} must be a callable that returns a string, got {kind}")
        if value != self._value:
            self._check(value)
            self._value = value
        return value


def header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in headers: values marked as `Secret`, and those with secret names."""
    for name, value in headers.items():
        lower = name.lower()
        if isinstance(value, Secret) or _SECRET_HEADER_NAMES.fullmatch(lower):
            yield value
            if lower.endswith("authorization"):
                yield from _credentials(value)
            elif lower == "cookie":
                yield from (pair.partition("=")[2].strip() for pair in value.split(";"))


def _credentials(authorization: str) -> Iterator[str]:
    """Yield the credentials after the scheme; for Basic also the decoded ones and the password."""
    scheme, _, value = authorization.partition(" ")
    yield value.strip()
    if scheme.lower() == "basic":
        try:
            decoded = b64decode(value, validate=True).decode()
        except ValueError:
            return
        yield decoded
        yield decoded.partition(":")[2]


def redact(text: str, secrets: Iterable[str | None]) -> str:
    """Return a text with every secret replaced, also as JSON, percent or Base64 encoded.

    The longest is replaced first, because one secret may be a part of another.
    """
    forms = {form for secret in secrets if secret for form in _forms(str(secret))}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        text = text.replace(form, _MASK)
    return text


def mask_tokens(text: str) -> str:
    """Return a text with everything replaced that looks like a token: long words with a digit.

    It is for the errors of code that gets tokens: they may contain one that we have never seen.
    """
    return _LONG_WORD.sub(lambda word: _MASK if _DIGIT.search(word[0]) else word[0], text)


def _forms(secret: str) -> tuple[str, ...]:
    if len(secret) < _MIN_SECRET_LENGTH:
        return ()
    encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    as_json = (json.dumps(secret, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False))
    return secret, quote(secret, safe="", errors="replace"), encoded, *as_json


def redacted_cause(
    error: BaseException | None, redacted: Callable[[str], str]
) -> BaseException | None:
    """Return a library's error, redacted, as the cause of ours; None if it cannot be redacted.

    Our own errors are created from redacted text. Errors of libraries are redacted in place.
    """
    if error is None:
        return None
    redact_chain(error, redacted)
    return None if _has_secret(error, redacted) else error


def _has_secret(error: BaseException, redacted: Callable[[str], str]) -> bool:
    if any(redacted(text) != text for text in (str(error), repr(error))):
        return True
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return any(_has_secret(member, redacted) for member in members)


def redact_chain(error: BaseException, redacted: Callable[[str], str]) -> None:
    """Redact the text of an error, its notes, its causes and contexts, and the members of a group.

    An error whose text contains a secret and cannot be changed is removed from the chain.
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        _redact_text(current, redacted)
        if isinstance(current, BaseExceptionGroup):
            pending.extend(current.exceptions)
        for link in ("__cause__", "__context__"):
            linked = getattr(current, link)
            if linked is None:
                continue
            _redact_text(linked, redacted)
            if _has_secret(linked, redacted):
                suppressed = current.__suppress_context__
                setattr(current, link, None)
                current.__suppress_context__ = suppressed
            else:
                pending.append(linked)


def _redact_text(error: BaseException, redacted: Callable[[str], str]) -> None:
    changed = tuple(redacted(part) if isinstance(part, str) else part for part in error.args)
    if changed != error.args:
        error.args = changed
    notes = getattr(error, "__notes__", None)
    if notes:
        error.__notes__ = [redacted(note) for note in notes]
