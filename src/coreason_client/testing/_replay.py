"""Serves a recording again: the same answers, with the same chunks, without the service."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

from ..errors import ArgumentError
from ._block import LoopbackBlock, report
from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from ._record import Recorder, record, request_origin
from ._recording._file import BASE, RecordedExchange, Recording, RecordingError, load
from ._recording._secrets import replace_spans, spans_of, without_secrets
from ._secret_names import MASK

_STATUS = 501  # no client of ours repeats it, unlike 500 and 503


def replay(
    path: str | os.PathLike[str],
    *,
    speed: float | None = None,
    ignore: Iterable[str] = (),
    require_all: bool = False,
) -> "Replay":
    """Return a server that replays a recording while it is used with `with` or `async with`.

    A request gets the answer to the first recorded request that is the same and that was not
    answered yet: method, path, query and body. Ids and times may differ, and so may fields that
    `ignore` names. A request that was not recorded gets a 501 that says what is different, and the
    end of the block raises an AssertionError.

    Args:
        path: a file of `record`.
        speed: 1 to send each chunk when it was received, 2 for twice as fast; None for no waits.
        ignore: names of further fields of bodies and queries that may differ.
        require_all: True to raise an AssertionError at the end of the block if exchanges are left.

    Raises:
        RecordingError: the file is not a recording.
        FileNotFoundError: there is no such file.
        ArgumentError: `speed` is not valid.
    """
    return Replay(path, speed=speed, ignore=ignore, require_all=require_all)


def recorded(
    path: str | os.PathLike[str], upstream: str, *, secrets: Iterable[str] = ()
) -> "Recorder | Replay":
    """Return a replay of a file, or a recorder for it if it does not exist.

    So a test records once and runs offline from then on; delete the file to record again.
    """
    return replay(path) if Path(path).exists() else record(path, upstream, secrets=secrets)


class Replay(LoopbackBlock):
    """A server with the answers of a recording; see `replay`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        speed: float | None = None,
        ignore: Iterable[str] = (),
        require_all: bool = False,
    ) -> None:
        super().__init__("the replay", "with replay(...) as service:")
        _check_speed(speed)
        self._path = Path(path)
        self._recording = _read(self._path)
        self._left = set(range(len(self._recording.exchanges)))
        self._speed = speed
        self._ignore = tuple(ignore)
        self._require_all = require_all
        self._problems: list[str] = []

    @property
    def url(self) -> str:
        """The URL for the client.

        Raises:
            RuntimeError: the replay is used outside its block.
        """
        return self._origin + self._recording.base

    def _finish(self, server: LoopbackServer, error: BaseException | None) -> None:
        failed = [f"the replay failed: {type(e).__name__}: {e}" for e in server.errors]
        report([*self._problems, *failed, *self._unused()], error)

    def _unused(self) -> Sequence[str]:
        if not self._require_all or not self._left:
            return ()
        numbers = ", ".join(str(index + 1) for index in sorted(self._left))
        return (f"{self._path.name} has requests that were not sent: {numbers}",)

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        asked = _cleaned(request)
        exchanges = self._recording.exchanges
        match = find(asked, exchanges, self._left, self._ignore)
        if match is None or match.differences:
            used = find(asked, exchanges, range(len(exchanges)), self._ignore)
            again = used is not None and not used.differences
            message = self._mismatch(asked, None if match is None else match.index, again=again)
            if match is not None and not again:
                message = "\n  ".join([message, *match.differences])
            self._problems.append(message)
            await _refuse(message, response)
            return
        self._left.discard(match.index)
        exchange = exchanges[match.index]
        chunks = _adapted(exchange, asked, request_origin(request))
        await self._send(exchange, chunks, request_origin(request), response)

    def _mismatch(self, asked: RecordedExchange, nearest: int | None, *, again: bool) -> str:
        what = f"{asked.method} {asked.target}"
        if again:
            return f"{what} was sent more often than {self._path.name} has it"
        if nearest is None:
            return f"{what} is not in {self._path.name}, which has no more requests"
        return f"{what} is not in {self._path.name}; the nearest is request {nearest + 1}:"

    async def _send(
        self,
        exchange: RecordedExchange,
        chunks: Sequence[bytes],
        here: str,
        response: ResponseWriter,
    ) -> None:
        if exchange.status is None:
            return  # closed without a byte
        headers = [(name, value.replace(BASE, here)) for name, value in exchange.response_headers]
        complete = exchange.end == "complete"
        await self._wait(None, exchange.at)
        if not exchange.chunked:
            send = response.whole if complete else response.broken
            await send(exchange.status, headers, b"".join(chunks))
            return
        await response.start(exchange.status, headers)
        before = exchange.at
        for data, chunk in zip(chunks, exchange.chunks, strict=True):
            await self._wait(before, chunk.at)
            before = chunk.at
            await response.send(data)
        if complete:
            await response.finish()

    async def _wait(self, before: float | None, at: float | None) -> None:
        if self._speed is not None and at is not None:
            await asyncio.sleep(max(at - (before or 0.0), 0.0) / self._speed)


def _check_speed(speed: Any) -> None:
    if speed is not None and (not isinstance(speed, int | float) or not speed > 0):
        raise ArgumentError("speed", "must be None or greater than 0", speed)


def _read(path: Path) -> Recording:
    try:
        return load(path.read_text(encoding="utf-8"))
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: must be UTF-8: {error}") from None


def _cleaned(request: HTTPRequest) -> RecordedExchange:
    """Return a request as it would be in the file."""
    exchange = RecordedExchange(request.method, request.target, request.headers, request.body)
    return without_secrets(Recording((exchange,))).exchanges[0]


def _adapted(exchange: RecordedExchange, asked: RecordedExchange, here: str) -> list[bytes]:
    """Return the chunks with the URL of the replay, and with the id of this request."""
    chunks = [chunk.data for chunk in exchange.chunks]
    body = b"".join(chunks)
    if spans := spans_of(body, BASE.encode()):
        chunks = replace_spans(chunks, spans, here.encode())
        body = b"".join(chunks)
    ids = same_id(exchange, asked)
    if ids is None:
        return chunks
    old = re.escape(json.dumps(ids[0], ensure_ascii=False).encode())
    found = re.finditer(rb'"id"\s*:\s*(' + old + rb")(?=\s*[,}])", body)
    new = json.dumps(ids[1], ensure_ascii=False).encode()
    return replace_spans(chunks, [match.span(1) for match in found], new)


async def _refuse(message: str, response: ResponseWriter) -> None:
    body: dict[str, Any] = {"title": "Not recorded", "status": _STATUS, "detail": message}
    body["error"] = {"code": "not_recorded", "message": message}
    headers = [("content-type", "application/json"), ("x-should-retry", "false")]
    await response.whole(_STATUS, headers, json.dumps(body).encode())


# Matching. Ids and times differ in every run, so two UUIDs are taken for equal, and so are two
# times; a request that is exactly the same is preferred. Text in which a secret was removed matches
# any text there.

_VOLATILE = frozenset({"request_id", "requestid", "messageid", "message_id", "traceparent"})
_COMPARED_HEADERS = ("last-event-id", "a2a-version")
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_MAX_SHOWN = 120
_MISSING = object()


@dataclass(frozen=True, slots=True)
class RecordedMatch:
    """The place of an exchange in a recording; with `differences` it is only the nearest one."""

    index: int
    differences: tuple[str, ...] = ()


def find(
    request: RecordedExchange,
    exchanges: Sequence[RecordedExchange],
    left: Iterable[int],
    ignore: Iterable[str],
) -> RecordedMatch | None:
    """Return the first of the exchanges that are left which fits, the nearest, or None."""
    ignored = frozenset(name.lower() for name in ignore)
    candidates = [
        (index, [*differences(exchanges[index], request, ignored)]) for index in sorted(left)
    ]
    fitting = [index for index, found in candidates if not found]
    for index in fitting:
        if not [*differences(exchanges[index], request, ignored, exact=True)]:
            return RecordedMatch(index)
    if fitting:
        return RecordedMatch(fitting[0])
    nearest = min(candidates, key=lambda one: _distance(one[1]), default=None)
    return None if nearest is None else RecordedMatch(nearest[0], tuple(nearest[1]))


def _distance(found: Sequence[str]) -> tuple[int, int]:
    # Another method or path is further away than any difference of the body.
    return sum(line.startswith(("method", "path")) for line in found), len(found)


def differences(
    recorded: RecordedExchange,
    request: RecordedExchange,
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


def same_id(recorded: RecordedExchange, request: RecordedExchange) -> tuple[Any, Any] | None:
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

    It is not a regular expression: with many parts that would take very long for another text.
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


# The recordings of one test.

StartRecording: TypeAlias = Callable[..., Recorder | Replay]


@contextmanager
def recordings_of_test(
    folder: Path, test: str, *, records: bool, has_failed: Callable[[], bool]
) -> Iterator[StartRecording]:
    """Return a function that serves a recording of a test until the block ends.

    With `records` it records the service instead; a test that has failed changes no file.
    """
    stack = ExitStack()

    def start(upstream: str, name: str = "", **options: Any) -> Recorder | Replay:
        file = folder / f"{_file_name(name or test)}.jsonl"
        if records:
            return stack.enter_context(record(file, upstream, **options))
        if not file.exists():
            raise FileNotFoundError(
                f"there is no {file}: run this test once with --coreason-record"
            )
        return stack.enter_context(replay(file))

    yield start
    failure = AssertionError("the test failed") if has_failed() else None
    stack.__exit__(None if failure is None else AssertionError, failure, None)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)
