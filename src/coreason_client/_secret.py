"""Secrets in text that somebody else chose: the one rule by which they are redacted. Pure.

A server may repeat what it was sent, in an error's message or in its framing. What counts as a
secret: keys and credentials, the values of headers that carry them by their names, and whatever
the caller marked as a `Secret`.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote

__all__ = ["Secret", "header_secrets", "redact", "redact_chain"]

# Shorter keys (typical of local services) are not redacted: replacing them would mangle messages
# and protect nothing.
_SHORTEST = 6
_MASK = "***"
_NAMES = re.compile(r"(proxy-)?authorization|cookie|(.*[-_])?(api)?(key|token|secret|password)")


class Secret(str):
    """Text that is redacted in errors and log lines, such as the value of a header of yours.

    Header values are redacted anyway when the name of the header shows that they are credentials
    (`Authorization`, `Cookie`, `…-Key`, `…-Token`, `…-Secret`); mark others with this class.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{_MASK}')"


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
            if any(redacted(words) != words for words in (str(below), repr(below))):
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
