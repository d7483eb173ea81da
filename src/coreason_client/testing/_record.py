"""Records the exchanges of a client with a real service in a file."""

import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

from .._http._checks import check_url
from ._block import LoopbackBlock, report
from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from ._recording._file import BASE, End, RecordedChunk, RecordedExchange, Recording, dump
from ._recording._secrets import environment_secrets, without_secrets
from ._recording._upstream import Unreachable, Upstream

_DROPPED = frozenset(
    {
        # About one connection or one version of a library, so they differ between recordings.
        *("host", "connection", "content-length", "transfer-encoding", "accept-encoding"),
        *("user-agent", "date", "server", "keep-alive", "alt-svc", "x-amz-date", "traceparent"),
        *("tracestate", "expect", "via", "report-to", "nel", "cf-ray"),
    }
)
_DROPPED_PREFIXES = ("x-stainless-", "amz-sdk-")


def record(
    path: str | os.PathLike[str],
    upstream: str,
    *,
    secrets: Iterable[str] = (),
    times: bool = True,
    ssl_context: ssl.SSLContext | None = None,
) -> "Recorder":
    """Return a recorder; it runs while it is used with `with` or `async with`.

    A client that uses `recorder.url` reaches the service at `upstream`, and every exchange is
    recorded. The file is written when the block ends without an error; `replay` serves it.

    Secrets are removed: credentials in headers, cookies, query parameters and fields, tokens that
    can be recognised, and these values wherever else they occur. Look at the file nevertheless
    before you publish it: messages may contain secrets that nobody can recognise.

    Args:
        path: the file; an older one is replaced.
        upstream: the URL of the service, as a client gets it.
        secrets: further values that the file must not contain. Environment variables whose names
            end with KEY, TOKEN, SECRET or PASSWORD need not be named.
        times: False to leave out the times, so that recordings differ in fewer lines.
        ssl_context: for a service whose certificate needs one.

    Raises:
        ArgumentError: the URL is not valid.
    """
    return Recorder(path, upstream, secrets=secrets, times=times, ssl_context=ssl_context)


class Recorder(LoopbackBlock):
    """A proxy in front of one service that records what passes; see `record`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        upstream: str,
        *,
        secrets: Iterable[str] = (),
        times: bool = True,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__("the recorder", "with record(...) as recorder:")
        parts = check_url(upstream, "upstream", credentials_go_into="the client's api_key")
        self._path = Path(path)
        self._service = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        self._secrets = frozenset(secrets)
        self._times = times
        self._upstream = Upstream(upstream, ssl_context)
        self._exchanges: list[_RunningExchange] = []
        self._problems: list[str] = []

    @property
    def url(self) -> str:
        """The URL for the client: that of the service, on loopback.

        Raises:
            RuntimeError: the recorder is used outside its block.
        """
        return self._origin + self._base

    def _finish(self, server: LoopbackServer, error: BaseException | None) -> None:
        problems = [*self._problems, *(f"{type(e).__name__}: {e}" for e in server.errors)]
        report([f"the recording failed: {problem}" for problem in problems], error)
        if error is None:
            self._write()

    def _write(self) -> None:
        exchanges = tuple(running.result() for running in self._exchanges)
        known = self._secrets | environment_secrets(os.environ)
        cleaned = without_secrets(Recording(exchanges, self._base), known)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A reader sees the old file or the new one, never a half.
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        partial.write_text(dump(cleaned), encoding="utf-8", newline="\n")
        partial.replace(self._path)

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        origin = request_origin(request)
        running = _RunningExchange(request, self._service, origin, times=self._times)
        self._exchanges.append(running)
        try:
            await self._upstream.forward(request, response, running)
        except Unreachable as error:
            self._problems.append(str(error))
            self._exchanges.remove(running)
            if not response.started:
                headers = [("content-type", "text/plain; charset=utf-8")]
                await response.whole(502, headers, f"the recorder {error}".encode())


def request_origin(request: HTTPRequest) -> str:
    """Return the origin that a client has used."""
    return f"http://{dict(request.headers).get('host', '')}"


class _RunningExchange:
    """An exchange while it is recorded; the service's own URL becomes that of the recorder."""

    def __init__(self, request: HTTPRequest, service: str, here: str, *, times: bool) -> None:
        self._request = request
        self._service = service.encode()
        self._here = here.encode()
        self._times = times
        self._began = monotonic()
        self._status: int | None = None
        self._headers: tuple[tuple[str, str], ...] = ()
        self._chunked = False
        self._at: float | None = None
        self._chunks: list[RecordedChunk] = []
        self._end: End = "client left"

    def begins(self, status: int, headers: tuple[tuple[str, str], ...], *, chunked: bool) -> None:
        self._status, self._headers, self._chunked = status, headers, chunked
        self._at = self._now()

    def passes(self, data: bytes) -> tuple[bytes, bool]:
        recorded = data.replace(self._service, BASE.encode())
        if recorded:
            self._chunks.append(RecordedChunk(recorded, self._now()))
        return data.replace(self._service, self._here), True

    def ends(self, end: End) -> None:
        self._end = end

    def _now(self) -> float | None:
        return monotonic() - self._began if self._times else None

    def result(self) -> RecordedExchange:
        request = self._request
        return RecordedExchange(
            method=request.method,
            target=request.target,
            headers=_kept(request.headers),
            body=request.body,
            status=self._status,
            response_headers=_kept(self._headers, self._service.decode()),
            chunked=self._chunked,
            at=self._at,
            chunks=tuple(self._chunks),
            end=self._end,
        )


def _kept(headers: tuple[tuple[str, str], ...], service: str = "") -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value.replace(service, BASE) if service else value)
        for name, value in headers
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    )
