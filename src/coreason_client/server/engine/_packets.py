"""The packets of a stream: their frames, the errors with which the server ends it, and its end.

A frame is a packet that is encoded once as a server-sent event, stored in the log and sent to all
readers. The JSON of a text packet is built by hand, at a third of the cost of a model. Tests check
that the result equals the output of the definitions and the SSE encoder.

Whether and how a stream has ended is stored only here: the writer, the appender and the producer
share one `Ending`.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from time import time_ns
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from coreason_manifest.definitions._base import explain, utc_now
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
    StreamPacket,
)

from ...sse import encode_event
from ...sse._decode import DEFAULT_MAX_EVENT_BYTES
from ..errors import Fenced, StreamEnded

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


# The errors with which the server ends streams.


def fatal(code: str, message: str) -> StreamError:
    """Return an error that ends a stream."""
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL)


CANCELLED = fatal("cancelled", "The stream was cancelled.")
ABANDONED = fatal("abandoned", "The stream was stopped because it had no readers.")
QUESTION_NOT_OPEN = fatal("question_not_open", "The question was answered by another message.")
CONVERSATION_BUSY = fatal(
    "conversation_busy",
    "An earlier message of this conversation is being answered: wait for its end, or cancel it.",
)
SERVER_STOPPED = fatal("server_stopped", "The server stopped before the answer was finished.")
# True for a dead process and for one that was blocked or could not reach the log.
PRODUCER_LOST = fatal(
    "producer_lost", "The producer of this stream stopped writing before the answer was finished."
)
# The text of an exception may contain secrets, so readers do not get it.
AGENT_ERROR = fatal("agent_error", "The agent failed with an internal error.")


def replay_diverged(difference: object) -> StreamError:
    """Return the error for a restarted agent that did something else than before."""
    return fatal(
        "replay_diverged", f"The restarted agent differs from its first run: {difference}."
    )


def rewind_refused(step: object) -> StreamError:
    """Return the error for a step that wrote something else, to a reader without rewinds."""
    return fatal(
        "producer_lost",
        f"The producer of this stream was lost, and the restarted step {step} wrote something "
        "else. The text so far cannot be corrected, because the client does not support REWIND "
        "events.",
    )


def step_uncertain(step: object) -> StreamError:
    """Return the error for an interrupted step that must not run again."""
    return fatal(
        "step_uncertain", f"The step {step} was interrupted, and it must not run a second time."
    )


class Ending:
    """The end of one stream.

    `begun`: the last packet was accepted, and no more are. `outcome`: how the stream ended; set
    when the last packet is in the log. `error`: why the log accepts no more packets. `given_up`:
    another process owns the stream. `sealed`: the agent must not write any more, because the
    stream will be ended or handed over without it.
    """

    __slots__ = ("_stream_id", "begun", "error", "given_up", "outcome", "sealed")

    def __init__(self, stream_id: UUID) -> None:
        self._stream_id = stream_id
        self.begun = False
        self.outcome: str | None = None
        self.error: Exception | None = None
        self.given_up = False
        self.sealed = False

    @property
    def ended(self) -> bool:
        """True if no more packets are accepted."""
        return self.begun or self.given_up

    @property
    def broken(self) -> bool:
        """True if the log refused a packet; it accepts no more of this stream."""
        return self.error is not None

    @property
    def taken_over(self) -> bool:
        """True if another process owns the stream."""
        return self.given_up or isinstance(self.error, Fenced)

    def fail(self, error: Exception) -> None:
        """Record why the log accepts no more packets; only the first error is kept."""
        if self.error is None:
            self.error = error

    def raise_error(self) -> None:
        """Raise the error of the log, if there is one."""
        if self.error is not None:
            raise self.error

    def check_open(self) -> None:
        """Raise an error if no more packets are accepted.

        Raises:
            LogError: the log accepts no more packets of this stream.
            StreamEnded: the stream has ended, or is sealed.
        """
        if self.error is not None:
            raise self.error
        if self.begun or self.sealed:
            raise StreamEnded(self._stream_id)
