"""Receives push notifications: the checks of a request, and the ASGI application around them.

* The method is POST; the token and the `Authorization` header are those that the application
  expects. Every expected value is compared, each in constant time.
* The body is JSON of a limited size: the `StreamResponse` of 1.0 with exactly one event, or the
  bare event of 0.3.
* A request that fails a check raises `A2APushError` with the status of the response: 405 method,
  401 credentials, 403 token, 415 media type, 413 size, 400 payload. The credentials are checked
  before the body is read.
"""

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from hmac import compare_digest
from typing import Any, TypeAlias

import anyio.to_thread
from pydantic import ValidationError

from ..errors import ArgumentError
from ._call import json_error
from ._wire import EVENT_KEYS, FROM_PYTHON, event_of, parse_json
from .errors import A2APushError
from .types import Event, UnknownEvent

__all__ = ["PushReceiver", "read_push"]

logger = logging.getLogger("coreason_client.a2a")


Expected: TypeAlias = str | Collection[str] | Callable[[], str | Collection[str]]
"""One accepted value, several, or a function that returns the values accepted now."""

PushHeaders: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]

DEFAULT_PUSH_BYTES = 10_000_000
_TOKEN_HEADER = "x-a2a-notification-token"  # noqa: S105 - a name
_BODY_CHECKS = ("content-type", "content-encoding", "content-length")


class PushRules:
    """The requests that are accepted.

    Raises:
        ValueError, TypeError: an argument is not valid, or nothing authenticates the sender.
    """

    def __init__(
        self,
        *,
        token: Expected | None = None,
        authorization: Expected | None = None,
        max_body_bytes: int = DEFAULT_PUSH_BYTES,
        allow_unauthenticated: bool = False,
    ) -> None:
        if token is None and authorization is None and not allow_unauthenticated:
            raise TypeError(
                "token or authorization is required: without them anybody could send events;"
                " to accept all requests, pass allow_unauthenticated=True"
            )
        if max_body_bytes < 1:
            raise ArgumentError("max_body_bytes", "must be 1 or more", max_body_bytes)
        _check_fixed("token", token)
        _check_fixed("authorization", authorization)
        self._token = token
        self._authorization = authorization
        self.max_body_bytes = max_body_bytes

    def check_head(self, method: str, headers: PushHeaders) -> None:
        """Check everything that comes before the body.

        Raises:
            A2APushError: the request is not accepted.
        """
        if method != "POST":
            raise _refused(
                405, f"a push notification is a POST request, got {method[:20]!r}", Allow="POST"
            )
        found = _by_name(headers)
        self._check_authorization(found.get("authorization", []))
        self._check_token(found.get(_TOKEN_HEADER, []))
        media_type, encoding, length = (
            ", ".join(found.get(name, [])).lower().strip() for name in _BODY_CHECKS
        )
        if media_type and not _is_json(media_type):
            raise _refused(
                415, f"the content type must be application/json, got {media_type[:80]!r}"
            )
        if encoding not in ("", "identity"):
            raise _refused(415, f"the body must not be compressed, got {encoding[:80]!r}")
        if length.isascii() and length.isdigit():
            self.check_size(int(length[:18]))

    def check_size(self, size: int) -> None:
        """Check the number of bytes of the body.

        Raises:
            A2APushError: they are too many.
        """
        if size > self.max_body_bytes:
            raise _refused(413, f"the body is larger than {self.max_body_bytes} bytes")

    def read(self, body: bytes) -> Event:
        """Return the event in the body.

        Raises:
            A2APushError: the body is too large, or contains no event.
        """
        self.check_size(len(body))
        try:
            event = _event_in(parse_json(body))
        except (ValidationError, ValueError) as error:
            message = str(json_error("the push notification", b"", error))
            raise _refused(400, message) from None
        return event

    def _check_authorization(self, received: list[str]) -> None:
        if self._authorization is None:
            return
        expected = [_with_lower_scheme(value) for value in _current(self._authorization)]
        if not _matches([_with_lower_scheme(value) for value in received], expected):
            schemes = dict.fromkeys(value.partition(" ")[0].title() for value in expected)
            challenge = ", ".join(schemes) or "Bearer"
            message = _problem("Authorization", received)
            raise _refused(401, message, **{"WWW-Authenticate": challenge})

    def _check_token(self, received: list[str]) -> None:
        if self._token is not None and not _matches(received, _current(self._token)):
            raise _refused(403, _problem("X-A2A-Notification-Token", received))


def read_push(
    headers: PushHeaders,
    body: bytes,
    *,
    method: str = "POST",
    token: Expected | None = None,
    authorization: Expected | None = None,
    max_body_bytes: int = DEFAULT_PUSH_BYTES,
    allow_unauthenticated: bool = False,
) -> Event:
    """Check a push notification that a web framework received, and return its event.

    `PushReceiver` does the same as an ASGI application.

    Args:
        headers: the headers of the request.
        body: its body.
        method: its method.
        token: the `token` of the push configuration; also several, or a function that returns
            those that are accepted now.
        authorization: the `Authorization` header that is expected, such as "Bearer …"; also
            several, or a function.
        max_body_bytes: the largest body that is accepted.
        allow_unauthenticated: accept requests without `token` and `authorization`, because
            something else has checked them.

    Raises:
        A2APushError: the request is not accepted; answer with its `status` and `headers`.
        ValueError, TypeError: an argument is not valid.
    """
    rules = PushRules(
        token=token,
        authorization=authorization,
        max_body_bytes=max_body_bytes,
        allow_unauthenticated=allow_unauthenticated,
    )
    rules.check_head(method, headers)
    return rules.read(body)


def _event_in(value: Any) -> Event:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    # ProtoJSON may write null for a member that is not set.
    value = {k: member for k, member in value.items() if member is not None or k not in EVENT_KEYS}
    if len(value.keys() & set(EVENT_KEYS)) > 1:
        raise ValueError("it has more than one event")
    event = event_of(FROM_PYTHON["event"](value))
    if isinstance(event, UnknownEvent):
        raise ValueError("it has no task, message, statusUpdate or artifactUpdate")
    return event


def _refused(status: int, message: str, **headers: str) -> A2APushError:
    return A2APushError(message, status=status, headers=headers)


def _problem(name: str, received: list[str]) -> str:
    found = "is wrong" if len(received) == 1 else "is sent more than once"
    return f"the {name} header {found if received else 'is missing'}"


def _is_json(media_type: str) -> bool:
    essence = media_type.partition(";")[0].strip()
    return essence == "application/json" or (
        essence.startswith("application/") and essence.endswith("+json")
    )


def _by_name(headers: PushHeaders) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    # Frameworks have their own classes, which are not always a `Mapping`.
    pairs: Any = headers.items() if hasattr(headers, "items") else headers
    for name, value in pairs:
        found.setdefault(name.lower(), []).append(value)
    return found


def _values(expected: str | Collection[str]) -> list[str]:
    return [expected] if isinstance(expected, str) else list(expected)


def _current(expected: Expected) -> list[str]:
    return _values(expected() if callable(expected) else expected)


def _check_fixed(argument: str, expected: Expected | None) -> None:
    """Check values that are known now; the messages do not contain them."""
    if expected is None or callable(expected):
        return
    values = _values(expected)
    if not values or not all(value.strip() for value in values):
        raise ArgumentError(argument, "must be text, or several texts, none of them empty")
    if any(c in value for value in values for c in "\r\n\0"):
        raise ArgumentError(argument, "must be text in one line")
    if argument == "authorization" and not all(" " in value.strip() for value in values):
        raise ArgumentError(argument, 'must have a scheme and credentials, such as "Bearer …"')


def _with_lower_scheme(value: str) -> str:
    """Return the value of an `Authorization` header; only its scheme is case-insensitive."""
    scheme, _, credentials = value.strip().partition(" ")
    return f"{scheme.lower()} {credentials.strip()}"


def _matches(received: list[str], expected: list[str]) -> bool:
    """Return True if there is exactly one received value, and it is an expected one."""
    # Headers are bytes; frameworks decode them as Latin-1.
    value = received[0].encode("latin-1", "replace") if len(received) == 1 else b""
    matches = [bool(e) and compare_digest(value, e.encode()) for e in expected]
    return any(matches)


# The application

Handler: TypeAlias = Callable[[Event], Awaitable[None]] | Callable[[Event], None]
_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]


class PushReceiver:
    """An ASGI application that receives the push notifications of agents.

    Mount it in FastAPI or Starlette, or run it on its own. Each accepted notification is passed to
    `on_event` and answered with 204 when that has returned; if it raises, the answer is 500 and
    the agent may send the notification again. So `on_event` may get the same event twice.

    Args:
        on_event: an async function, or a plain function, which runs in a worker thread.
        token: the `token` of the push configuration; also several, or a function that returns
            those that are accepted now.
        authorization: the `Authorization` header that the `authentication` of the push
            configuration leads to, such as "Bearer …"; also several, or a function. If both are
            given, both are required.
        max_body_bytes: the largest body that is accepted.
        allow_unauthenticated: accept requests without `token` and `authorization`, for example
            because other middleware checks them.

    Raises:
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(
        self,
        on_event: Handler,
        *,
        token: Expected | None = None,
        authorization: Expected | None = None,
        max_body_bytes: int = DEFAULT_PUSH_BYTES,
        allow_unauthenticated: bool = False,
    ) -> None:
        if not callable(on_event):
            raise TypeError(f"on_event must be a function, got {type(on_event).__name__}")
        self._on_event = on_event
        self._is_async = inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(
            getattr(on_event, "__call__", None)  # noqa: B004 - an object with an async `__call__`
        )
        self._rules = PushRules(
            token=token,
            authorization=authorization,
            max_body_bytes=max_body_bytes,
            allow_unauthenticated=allow_unauthenticated,
        )

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer a request, as ASGI defines it."""
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:  # a websocket
            await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        headers = [(name.decode("latin-1"), v.decode("latin-1")) for name, v in scope["headers"]]
        try:
            self._rules.check_head(scope["method"], headers)
            body = await self._read_body(receive)
            if body is None:
                return
            event = self._rules.read(body)
        except A2APushError as error:
            logger.warning("a push notification was refused with %s: %s", error.status, error)
            await _respond(send, error.status or 400, str(error), dict(error.headers or {}))
            return
        try:
            await self._handle(event)
        except Exception:
            logger.exception("on_event failed for a push notification")
            await _respond(send, 500, "the notification could not be processed", {})
        else:
            await _respond(send, 204, "", {})

    async def _read_body(self, receive: _Receive) -> bytes | None:
        """Return the body, None if the sender has disconnected."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            self._rules.check_size(len(body))
            if not message.get("more_body", False):
                return bytes(body)

    async def _handle(self, event: Event) -> None:
        handler: Any = self._on_event
        result = (
            handler(event) if self._is_async else await anyio.to_thread.run_sync(handler, event)
        )
        if inspect.isawaitable(result):  # also if a plain function returned a coroutine
            await result


async def _respond(send: _Send, status: int, message: str, headers: dict[str, str]) -> None:
    body = json.dumps({"error": message}).encode() if message else b""
    if body:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def _run_lifespan(receive: _Receive, send: _Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
