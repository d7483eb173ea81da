"""Serves a recording again: the same answers, with the same chunks, without the service."""

import asyncio
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ._block import LoopbackBlock, report
from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from ._record import Recorder, record, request_origin
from ._recording._boundaries import replace_spans, spans_of
from ._recording._exchange import BASE, Exchange, Recording
from ._recording._file import RecordingError, load
from ._recording._matching import find, same_id
from ._recording._secrets import without_secrets

__all__ = ["Replay", "recorded", "replay"]

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

    def _mismatch(self, asked: Exchange, nearest: int | None, *, again: bool) -> str:
        what = f"{asked.method} {asked.target}"
        if again:
            return f"{what} was sent more often than {self._path.name} has it"
        if nearest is None:
            return f"{what} is not in {self._path.name}, which has no more requests"
        return f"{what} is not in {self._path.name}; the nearest is request {nearest + 1}:"

    async def _send(
        self, exchange: Exchange, chunks: Sequence[bytes], here: str, response: ResponseWriter
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


def _cleaned(request: HTTPRequest) -> Exchange:
    """Return a request as it would be in the file."""
    exchange = Exchange(request.method, request.target, request.headers, request.body)
    return without_secrets(Recording((exchange,))).exchanges[0]


def _adapted(exchange: Exchange, asked: Exchange, here: str) -> list[bytes]:
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
