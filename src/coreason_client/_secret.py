"""Credentials, and the one rule by which secrets are redacted in text that others wrote.

A server may repeat what it was sent, in an error's message or in its framing. What counts as a
secret: keys and credentials, the values of headers that carry them by their names, and whatever
the caller marked as a `Secret`.
"""

import inspect
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import quote

__all__ = [
    "Credential",
    "CredentialLike",
    "Secret",
    "header_secrets",
    "redact",
    "redact_chain",
    "redacted_cause",
]

CredentialLike: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]

# Shorter keys (typical of local services) are not redacted: replacing them would mangle messages
# and protect nothing.
_SHORTEST = 6
_MASK = "***"
_NAMES = re.compile(r"(proxy-)?authorization|cookie|(.*[-_])?(api)?(key|token|secret|password)")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Secret(str):
    """Text that is redacted in errors and log lines, such as the value of a header of yours.

    Header values are redacted anyway when the name of the header shows that they are credentials
    (`Authorization`, `Cookie`, `…-Key`, `…-Token`, `…-Secret`); mark others with this class.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{_MASK}')"


class Credential:
    """A credential, or a callable, sync or async, that returns it; redacts what it has returned.

    `name` stands for the credential in messages. `check` raises a ValueError for a value that
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
        """Whether a refresh may give another value."""
        return not isinstance(self._source, str)

    @property
    def value(self) -> str | None:
        """The present value; None if the callable has not been called."""
        return self._value

    def get(self, *, refresh: bool = False) -> str:
        """Return the value; the callable is called for the first one and for a refresh.

        Raises:
            TypeError: the callable is async, or did not return a string.
            ValueError: the value cannot be sent.
        """
        value = self._next(refresh=refresh)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(f"{self._name} is async: that needs an {self._async_client}")
        return self._keep(value)

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
        # No message has the value in it.
        if not isinstance(value, str):
            kind = type(value).__name__
            raise TypeError(f"{self._name} must be a callable that returns a string, got {kind}")
        if value != self._value:
            self._check(value)
            self._value = value
        return value


def header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets among headers: marked ones, and those whose names say so."""
    for name, value in headers.items():
        lower = name.lower()
        if isinstance(value, Secret) or _NAMES.fullmatch(lower):
            yield value
            if lower.endswith("authorization"):
                yield from _credentials(value)
            elif lower == "cookie":
                yield from (pair.partition("=")[2].strip() for pair in value.split(";"))


def _credentials(authorization: str) -> Iterator[str]:
    """Yield what follows the scheme, and of Basic the password too."""
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
    """Return a text with every secret in it replaced, also where it is percent or Base64 encoded.

    The longest goes first, because one secret may be a part of another.
    """
    forms = {form for secret in secrets if secret for form in _forms(str(secret))}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        text = text.replace(form, _MASK)
    return text


def _forms(secret: str) -> tuple[str, ...]:
    if len(secret) < _SHORTEST:
        return ()
    encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    return secret, quote(secret, safe="", errors="replace"), encoded


def redacted_cause(
    error: BaseException | None, redacted: Callable[[str], str]
) -> BaseException | None:
    """Return an error of a library as the cause of ours: redacted, or None if that is impossible.

    Our own errors are made of redacted text; those of libraries exist already and are changed.
    """
    if error is None:
        return None
    redact_chain(error, redacted)
    return None if _has_secret(error, redacted) else error


def _has_secret(error: BaseException, redacted: Callable[[str], str]) -> bool:
    return any(redacted(words) != words for words in (str(error), repr(error)))


def redact_chain(error: BaseException, redacted: Callable[[str], str]) -> None:
    """Redact the words of an error, its notes, and the errors that it came from.

    An error whose words cannot be changed is taken out of the chain if they hold a secret.
    """
    seen: set[int] = set()
    rest = [error]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        _redact_words(one, redacted)
        for link in ("__cause__", "__context__"):
            below = getattr(one, link)
            if below is None:
                continue
            _redact_words(below, redacted)
            if _has_secret(below, redacted):
                suppressed = one.__suppress_context__
                setattr(one, link, None)
                one.__suppress_context__ = suppressed
            else:
                rest.append(below)


def _redact_words(error: BaseException, redacted: Callable[[str], str]) -> None:
    changed = tuple(redacted(part) if isinstance(part, str) else part for part in error.args)
    if changed != error.args:
        error.args = changed
    notes = getattr(error, "__notes__", None)
    if notes:
        error.__notes__ = [redacted(note) for note in notes]
