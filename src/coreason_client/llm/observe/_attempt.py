"""`ObservedAttempt`: one request and its response, as hooks get them: without secrets. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..._http._checks import shown
from ..._http._types import Request, ResponseHead
from ..._secret import header_secrets, redact
from .._route import Route
from ..types import Usage
from .hooks import RequestInfo, ResponseInfo

__all__ = ["ObservedAttempt"]

_MASK = "***"
_COOKIES = "set-cookie"


class ObservedAttempt:
    """One request and what was received for it.

    Attributes:
        number: the number of the attempt in its call, from 1.
        started: the time of the request.
        head: status and headers of the response, None until they are received.
        body: the complete body of the response; None for a stream.
        chunks: the number of events of a stream so far.
        last_chunk: the time of the last one.
    """

    __slots__ = (
        "_plan",
        "_request",
        "_stream",
        "body",
        "chunks",
        "head",
        "last_chunk",
        "number",
        "started",
    )

    def __init__(
        self, plan: Any, number: int, request: Request, started: float, *, stream: bool
    ) -> None:
        self._plan = plan
        self.number = number
        self._request = request
        self.started = started
        self._stream = stream
        self.head: ResponseHead | None = None
        self.body: bytes | None = None
        self.last_chunk: float | None = None
        self.chunks = 0

    def request_info(self) -> RequestInfo:
        """Return the request as hooks get it."""
        route: Route = self._plan.route
        return RequestInfo(
            provider=route.profile.name,
            model=route.model,
            url=self._url(),
            attempt=self.number,
            stream=self._stream,
            headers=_visible(self._request.headers, self._secrets()),
            body=_redacted(self._request.content, self._secrets()),
        )

    def response_info(
        self, now: float, usage: Usage | None, error: BaseException | None
    ) -> ResponseInfo:
        """Return the outcome of the attempt as hooks get it."""
        route, head = self._plan.route, self.head
        return ResponseInfo(
            provider=route.profile.name,
            model=route.model,
            url=self._url(),
            attempt=self.number,
            stream=self._stream,
            status=None if head is None else head.status,
            headers={} if head is None else _visible(head.headers, self._secrets()),
            body=None if self.body is None else _redacted(self.body, self._secrets()),
            seconds=now - self.started,
            usage=None if usage is None else usage.copy(),
            error=error,
        )

    def _url(self) -> str:
        return redact(shown(self._request.url), self._secrets())

    def _secrets(self) -> list[str]:
        return [*self._plan.route.secrets(), *header_secrets(self._request.headers)]


def _visible(headers: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Return headers without their secrets."""
    known = [*secrets]
    return {
        name: _MASK if _is_secret(name, value) else redact(value, known)
        for name, value in headers.items()
    }


def _is_secret(name: str, value: str) -> bool:
    return name.lower() == _COOKIES or any(True for _ in header_secrets({name: value}))


def _redacted(body: bytes, secrets: Iterable[str]) -> bytes:
    """Return a body without the secrets of the client, which a provider may repeat."""
    text = body.decode("utf-8", "surrogateescape")
    return redact(text, secrets).encode("utf-8", "surrogateescape")
