"""The events and errors in an event stream of AWS. Pure; `_eventstream.py` decodes the frames."""

from collections.abc import Iterator

from ..sse import ServerSentEvent
from ._eventstream import EventStreamDecoder, EventStreamError, Message
from ._fault import Fault, FaultReceived, Malformed
from ._json import mapping, parse_or_none, text

__all__ = ["EventFrames"]


class EventFrames:
    """Decodes one stream; `max_bytes` limits the length of a frame."""

    __slots__ = ("_decoder",)

    def __init__(self, max_bytes: int) -> None:
        self._decoder = EventStreamDecoder(max_bytes)

    def events(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Decode bytes and yield the events that are now complete, also those before an error.

        Raises:
            FaultReceived: a frame is an exception or an error; its type is the code.
            Malformed: the stream is damaged, or a frame is too large.
        """
        try:
            yield from map(_event, self._decoder.messages(chunk))
            return
        except EventStreamError as error:
            damage = str(error)
        # Not inside `except`: the context of the error would contain data from the provider.
        raise Malformed(f"the event stream is damaged: {damage}")


def _event(message: Message) -> ServerSentEvent:
    headers = message.headers
    kind = headers.get(":message-type", "event")
    if kind == "event":
        return ServerSentEvent(message.payload, text(headers.get(":event-type")).encode())
    described = mapping(parse_or_none(message.payload))
    code = text(headers.get(":exception-type")) or text(headers.get(":error-code"))
    code = code[:1].upper() + code[1:]  # the same exceptions begin with a capital outside of frames
    reason = text(described.get("message")) or text(headers.get(":error-message"))
    codes = (code,) if code else ()
    raise FaultReceived(Fault(reason or code or f"a frame of type {kind!r}", codes))
