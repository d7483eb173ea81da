"""Finds the recorded exchange for a request, or the nearest one and what is different. Pure.

Ids and times differ in every run, so two UUIDs are taken for equal, and so are two times; a request
that is exactly the same is preferred. Text in which a secret was removed matches any text there.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from ._exchange import Exchange
from ._secret_names import MASK

__all__ = ["Match", "differences", "find", "same_id"]

_VOLATILE = frozenset({"request_id", "requestid", "messageid", "message_id", "traceparent"})
_COMPARED_HEADERS = ("last-event-id", "a2a-version")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_MAX_SHOWN = 120
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Match:
    """The place of an exchange in a recording; with `differences` it is only the nearest one."""

    index: int
    differences: tuple[str, ...] = ()


def find(
    request: Exchange, exchanges: Sequence[Exchange], left: Iterable[int], ignore: Iterable[str]
) -> Match | None:
    """Return the first of the exchanges that are left which fits, the nearest, or None."""
    ignored = frozenset(name.lower() for name in ignore)
    candidates = [
        (index, [*differences(exchanges[index], request, ignored)]) for index in sorted(left)
    ]
    fitting = [index for index, found in candidates if not found]
    for index in fitting:
        if not [*differences(exchanges[index], request, ignored, exact=True)]:
            return Match(index)
    if fitting:
        return Match(fitting[0])
    nearest = min(candidates, key=lambda one: _distance(one[1]), default=None)
    return None if nearest is None else Match(nearest[0], tuple(nearest[1]))


def _distance(found: Sequence[str]) -> tuple[int, int]:
    # Another method or path is further away than any difference of the body.
    return sum(line.startswith(("method", "path")) for line in found), len(found)


def differences(
    recorded: Exchange,
    request: Exchange,
    ignored: frozenset[str] = frozenset(),
    *,
    exact: bool = False,
) -> Iterator[str]:
    """Yield a line for each difference between two requests that counts."""
    compare = _Comparison(ignored, exact)
    path, query = _split(recorded.target)
    other_path, other_query = _split(request.target)
    yield from compare.text("method", recorded.method, request.method)
    yield from compare.text("path", path, other_path)
    yield from compare.values("query", query, other_query)
    headers, others = dict(recorded.headers), dict(request.headers)
    for name in _COMPARED_HEADERS:
        expected, got = headers.get(name, _MISSING), others.get(name, _MISSING)
        yield from compare.values(f"header {name}", expected, got)
    yield from compare.values("body", _value(recorded.body), _value(request.body))


def same_id(recorded: Exchange, request: Exchange) -> tuple[Any, Any] | None:
    """Return the ids of two JSON-RPC requests if they differ; a response must have the new one."""
    expected, got = _value(recorded.body), _value(request.body)
    both = isinstance(expected, dict) and isinstance(got, dict)
    if not both or "jsonrpc" not in expected or expected.get("id") == got.get("id"):
        return None
    return expected.get("id"), got.get("id")


def _split(target: str) -> tuple[str, dict[str, str]]:
    path, _, query = target.partition("?")
    return unquote(path), dict(parse_qsl(query, keep_blank_values=True))


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class _Comparison:
    ignored: frozenset[str]
    exact: bool

    def values(self, where: str, recorded: Any, got: Any) -> Iterator[str]:
        if isinstance(recorded, dict) and isinstance(got, dict):
            yield from self._objects(where, recorded, got)
        elif isinstance(recorded, list) and isinstance(got, list):
            if len(recorded) != len(got):
                yield f"{where} has {len(recorded)} items in the recording, got {len(got)}"
            for index, pair in enumerate(zip(recorded, got, strict=False)):
                yield from self.values(f"{where}[{index}]", *pair)
        elif isinstance(recorded, str) and isinstance(got, str):
            yield from self.text(where, recorded, got)
        elif recorded != got:
            yield f"{where} is {_shown(recorded)} in the recording, got {_shown(got)}"

    def _objects(self, where: str, recorded: Mapping[str, Any], got: Any) -> Iterator[str]:
        rpc = "jsonrpc" in recorded
        for name in [*recorded, *(name for name in got if name not in recorded)]:
            if self._is_volatile(name, rpc=rpc):
                continue
            here = f"{where}.{name}"
            yield from self.values(here, recorded.get(name, _MISSING), got.get(name, _MISSING))

    def _is_volatile(self, name: str, *, rpc: bool) -> bool:
        lower = name.lower()
        if lower in self.ignored:
            return True
        return not self.exact and (lower in _VOLATILE or (rpc and name == "id"))

    def text(self, where: str, recorded: str, got: str) -> Iterator[str]:
        if recorded == got or (not self.exact and _is_same(recorded, got)):
            return
        yield f"{where} is {_shown(recorded)} in the recording, got {_shown(got)}"


def _is_same(recorded: str, got: str) -> bool:
    for pattern in (_UUID, _TIME):
        recorded, got = pattern.sub("<id or time>", recorded), pattern.sub("<id or time>", got)
    if recorded == got:
        return True
    return MASK in recorded and _fits(recorded.split(MASK), got)


def _fits(parts: Sequence[str], got: str) -> bool:
    """Return True if a text has these parts, in order and with anything in between.

    It is no regular expression: with many parts that would take very long for another text.
    """
    first, *middle, last = parts
    if not got.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = got.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(got) - at >= len(last) and got.endswith(last)


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
