"""Frames: packets encoded once as server-sent events, stored in the log and sent to all readers.

The JSON of a text packet is built by hand, at a third of the cost of a model. Tests check that the
result equals the output of the definitions and the SSE encoder.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from time import time_ns
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from coreason_manifest.definitions._base import explain, utc_now
from coreason_manifest.definitions.presentation import StreamOpCode, StreamPacket

from ...sse import encode_event
from ...sse._decode import DEFAULT_MAX_EVENT_BYTES

__all__ = ["Frames"]

# Upper bound for the size of the id and the envelope.
_ENVELOPE_BYTES = 512
_MAX_PAYLOAD_BYTES = DEFAULT_MAX_EVENT_BYTES - _ENVELOPE_BYTES
_SURELY_SHORT = _MAX_PAYLOAD_BYTES // 6  # characters: JSON needs at most six bytes for one


class Frames:
    """Makes the frames of one epoch of a stream.

    The id of an event has the epoch and the number of its first packet: after a failover, a store
    may have lost entries, and another process may have used their numbers again. The ids of the
    first epoch have neither; those of a durable stream have the epoch.
    """

    __slots__ = ("_epoch", "_id", "_now", "_start", "_stream_id", "_timestamp")

    def __init__(
        self,
        stream_id: UUID,
        now: Callable[[], datetime] = utc_now,
        *,
        epoch: int = 1,
        first_seq: int = 1,
        durable: bool = False,
    ) -> None:
        self._stream_id = stream_id
        self._epoch = ":1" if durable else ""
        if epoch != 1:
            self._epoch = f":{epoch}:{first_seq}"
        self._now = now
        self._timestamp = _utc_timestamp if now is utc_now else self._custom_timestamp
        name = str(stream_id)
        self._id = f"id: {name}:".encode()
        self._start = f'{self._epoch}\ndata: {{"stream_id":"{name}","seq":'.encode()

    def delta(self, seq: int, text: str) -> bytes:
        """Return the frame of a text packet.

        Raises:
            TypeError: `text` is not a string.
            ValueError: `text` is not valid Unicode, or too long.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"the payload of a DELTA packet must be a string, got {type(text).__name__}"
            )
        return b'%b%d%b%d,"op":"DELTA","t":"%b","p":%b}\n\n' % (
            self._id,
            seq,
            self._start,
            seq,
            self._timestamp(),
            _json(text),
        )

    def check_delta(self, text: object) -> None:
        """Check the text of a packet without making its frame; raises like `delta`."""
        # Short ASCII text is always valid, and a replay checks every packet.
        if not (isinstance(text, str) and text.isascii() and len(text) < _SURELY_SHORT):
            self.delta(0, text)  # type: ignore[arg-type]

    def _custom_timestamp(self) -> bytes:
        moment = self._now().isoformat()
        if moment.endswith("+00:00"):
            moment = moment[:-6] + "Z"
        return moment.encode()

    def packet(self, seq: int, op: StreamOpCode, p: object) -> tuple[bytes, StreamPacket]:
        """Return the frame of any packet, and the validated packet.

        Raises:
            ValueError: the payload does not match the op, is not JSON, or is too long.
        """
        try:
            packet = StreamPacket(stream_id=self._stream_id, seq=seq, op=op, t=self._now(), p=p)
        except ValidationError as error:
            raise ValueError(f"invalid packet: {explain(error)}") from None
        try:
            data = packet.to_json().encode()
        except (PydanticSerializationError, UnicodeEncodeError):
            raise ValueError(f"the payload of the {op} packet cannot be written as JSON") from None
        _check_size(data)
        return encode_event(data, id=f"{self._stream_id}:{seq}{self._epoch}"), packet


_latest_second = (-1, b"")  # the latest one, and its text


def _utc_timestamp() -> bytes:
    """Return the current time as in JSON; the text of the current second is cached."""
    global _latest_second
    now = time_ns()
    seconds, rest = divmod(now, 1_000_000_000)
    last, text = _latest_second
    if seconds != last:
        text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19].encode()
        _latest_second = (seconds, text)
    return b"%b.%06dZ" % (text, rest // 1000)


def _json(text: str) -> bytes:
    try:
        payload = to_json(text)
    except (PydanticSerializationError, UnicodeEncodeError):
        raise ValueError(
            "the text contains half of a surrogate pair, so it is not valid Unicode"
        ) from None
    _check_size(payload)
    return payload


def _check_size(data: bytes) -> None:
    if len(data) > _MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"a packet may have {_MAX_PAYLOAD_BYTES} bytes, the limit of readers, got {len(data)}: "
            "write it in pieces"
        )
