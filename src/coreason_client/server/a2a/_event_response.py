"""The response with the events of a task, as server-sent events."""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Send

from ...sse import encode_event
from ..engine._runtime import Runtime
from ..http._sse_response import SSEResponse
from ._fold import Event
from ._reading import Streamed
from ._task_stream import TaskStream

__all__ = ["TaskEvents", "single_event"]

# A comment without the empty line after it: httpx-sse takes an empty line after an event with an id
# for one more event, and a subscription of a2a-sdk 0.3 fails at its empty data.
_HEARTBEAT: Final = b":\n"


def single_event(body: bytes) -> Response:
    """Return a stream that has one event."""
    headers = {"Cache-Control": "no-cache"}
    return Response(encode_event(body), headers=headers, media_type=SSEResponse.media_type)


class TaskEvents(SSEResponse):
    """The events of a task; `encode` writes one of them as a binding wants it."""

    def __init__(
        self,
        runtime: Runtime,
        stream: TaskStream,
        encode: Callable[[Event], bytes],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(runtime, headers)
        self._stream = stream
        self._encode = encode
        self._subject = f"task {stream.task_id}"

    def _left(self) -> None:
        self._runtime.producers.remove_reader(self._stream)

    def _close(self) -> None:
        self._stream.close()

    @property
    def _position(self) -> int:
        return self._stream.position

    async def _send_all(self, send: Send) -> None:
        runtime, stream, heartbeat = self._runtime, self._stream, self._runtime.options.heartbeat
        while not stream.ended:
            # Most clients do not reconnect by themselves, so they stay as long as possible.
            leaves = runtime.readers_must_leave(joined_during_drain=True)
            events = await stream.next(0 if leaves else heartbeat)
            if events:
                body = b"".join(map(self._frame, events))
                await self._send(send, body, more=not stream.ended)
                if stream.ended:
                    return
            elif leaves:
                break
            elif not stream.ended:
                stream.check_producer(runtime)
                await self._send(send, _HEARTBEAT)
        await self._send(send, b"", more=False)

    def _frame(self, streamed: Streamed) -> bytes:
        position = None if streamed.position is None else str(streamed.position)
        return encode_event(self._encode(streamed.event), id=position)
