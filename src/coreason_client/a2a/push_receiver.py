"""The ASGI application that receives push notifications; the rules are in `_push`."""

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import anyio.to_thread

from ._push import DEFAULT_PUSH_BYTES, Expected, PushRules
from .errors import A2APushError
from .types import Event

__all__ = ["PushReceiver"]

logger = logging.getLogger("coreason_client.a2a")

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
