"""Mutants of what an A2A client trusts: push notifications, signed cards, tokens, cached cards."""

from .mutant import Mutant

__all__ = ["MUTANTS"]


def _a2a(topic: str, name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "coreason_client/a2a", old, new, (f"tests/a2a/test_{topic}.py",))


MUTANTS = (
    _a2a(
        "push",
        "the first of several headers is enough",
        'if len(received) == 1 else b""',
        'if received else b""',
    ),
    _a2a(
        "push",
        "an empty value is an accepted token",
        "bool(e) and compare_digest(value, e.encode())",
        "compare_digest(value, e.encode())",
    ),
    _a2a(
        "push",
        "a payload may have two events",
        "if len(value.keys() & set(EVENT_KEYS)) > 1:",
        "if False:",
    ),
    _a2a(
        "push_receiver",
        "a notification that could not be processed is acknowledged",
        'await _respond(send, 500, "the notification could not be processed", {})',
        'await _respond(send, 204, "", {})',
    ),
    _a2a(
        "push_receiver",
        "a body without a length has no limit",
        "            self._rules.check_size(len(body))\n",
        "",
    ),
    _a2a(
        "card_signatures",
        "members that nobody signed are used",
        "card = read_card({**form.content,",
        "card = read_card({**(original._document or {}), **form.content,",
    ),
    _a2a(
        "card_signatures",
        "a key is used for the signatures of another",
        "if kid is None or key.kid is None or key.kid == kid",
        "if True",
    ),
    _a2a(
        "card_keys",
        "a key is used with any algorithm of its type",
        "        algorithms &= {",
        "        algorithms |= {",
    ),
    _a2a("card_keys", "a private key is accepted", 'if "d" in jwk:', "if False:"),
    _a2a("jcs", "members are sorted by code points", 'name.encode("utf-16-be")', "name.encode()"),
    _a2a(
        "oauth",
        "a rejected token is used again",
        "if self._token is None or self._token in rejected:",
        "if self._token is None:",
    ),
    _a2a(
        "oauth",
        "every waiting call repeats a request that failed",
        "            raise copy(self._failure)",
        "            return",
    ),
    _a2a(
        "oauth",
        "an error quotes the secret",
        "            redact_chain(error, lambda text: redact(text, self._secrets))\n",
        "",
    ),
    _a2a(
        "card_cache",
        "a 304 without headers ends the freshness of a card",
        "dict(before.headers) if before is not None else {}",
        "{}",
    ),
    _a2a(
        "card_cache",
        "the time in another cache does not count",
        'parse_seconds(headers.get("age")) or 0.0',
        "0.0",
    ),
)
