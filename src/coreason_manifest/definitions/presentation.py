"""Stream packets, errors and presentation events (RFC 002, RFC 005).

The `op` of a packet defines its payload: DELTA carries text, EVENT a `PresentationEvent` or an
object, ERROR a `StreamError`, CLOSE anything but null. Packets parsed from the wire are
`DeltaPacket`, `EventPacket`, `ErrorPacket` or `ClosePacket`, which `match` and type checkers can
distinguish; each of them is a `StreamPacket`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID, uuid4

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StrictStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from ._base import CoReasonBaseModel, Id, StrictModel, Timestamp, explain, utc_now

__all__ = [
    "CitationBlock",
    "CitationItem",
    "ClosePacket",
    "DeltaPacket",
    "ErrorPacket",
    "ErrorSeverity",
    "EventPacket",
    "MediaCarousel",
    "MediaItem",
    "Packet",
    "PresentationEvent",
    "PresentationEventType",
    "ProgressUpdate",
    "StreamError",
    "StreamOpCode",
    "StreamPacket",
    "parse_packet",
]


class StreamOpCode(StrEnum):
    """The kind of a packet."""

    DELTA = "DELTA"
    EVENT = "EVENT"
    ERROR = "ERROR"
    CLOSE = "CLOSE"


class ErrorSeverity(StrEnum):
    """The reaction of a client to a `StreamError`: give up, reconnect, or continue."""

    FATAL = "FATAL"
    TRANSIENT = "TRANSIENT"
    WARNING = "WARNING"


class PresentationEventType(StrEnum):
    """The kinds of content that an agent can show besides text."""

    THOUGHT_TRACE = "THOUGHT_TRACE"
    CITATION_BLOCK = "CITATION_BLOCK"
    PROGRESS_INDICATOR = "PROGRESS_INDICATOR"
    MEDIA_CAROUSEL = "MEDIA_CAROUSEL"
    MARKDOWN_BLOCK = "MARKDOWN_BLOCK"


class CitationItem(StrictModel):
    """One source of an answer."""

    source_id: Id
    uri: str
    title: str
    snippet: str | None = None
    confidence: float


class CitationBlock(StrictModel):
    """The sources of an answer."""

    citations: list[CitationItem] = Field(fail_fast=True)


class ProgressUpdate(StrictModel):
    """The progress of one step of the work."""

    label: str
    status: Literal["running", "complete", "failed"]
    progress_percent: float | None = None


class MediaItem(StrictModel):
    """One image, audio or video."""

    url: str
    mime_type: str
    alt_text: str | None = None


class MediaCarousel(StrictModel):
    """Media to show together."""

    items: list[MediaItem] = Field(fail_fast=True)


EventData: TypeAlias = CitationBlock | ProgressUpdate | MediaCarousel | dict[str, Any]

_DATA_MODELS: dict[PresentationEventType, type[CoReasonBaseModel]] = {
    PresentationEventType.CITATION_BLOCK: CitationBlock,
    PresentationEventType.PROGRESS_INDICATOR: ProgressUpdate,
    PresentationEventType.MEDIA_CAROUSEL: MediaCarousel,
}

# The validation context of an event inside a packet, where invalid data stays a dict.
_INSIDE_PACKET = object()


def _data_by_type(value: object, info: ValidationInfo) -> object:
    event_type = info.data.get("type")
    if event_type is None:  # the type is invalid, which is reported instead
        return value
    model = _DATA_MODELS.get(event_type)
    if model is None:
        if isinstance(value, dict):
            return value
        raise ValueError(f"the data of {event_type} must be an object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if info.context is _INSIDE_PACKET and isinstance(value, dict):
            return value
        raise ValueError(f"not a {model.__name__}: {explain(error)}") from None


class PresentationEvent(StrictModel):
    """Content to show; `type` defines the model of `data`."""

    id: UUID = Field(default_factory=uuid4)
    timestamp: Timestamp = Field(default_factory=utc_now)
    type: PresentationEventType
    data: Annotated[EventData, PlainValidator(_data_by_type, json_schema_input_type=EventData)]


class StreamError(StrictModel):
    """An error in a stream: `code` and `severity` for programs, `message` for people."""

    code: str
    message: str
    severity: ErrorSeverity
    details: dict[str, Any] | None = None


def _delta_payload(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("a DELTA packet carries a string")


def _event_payload(value: object) -> PresentationEvent | dict[str, Any]:
    if isinstance(value, PresentationEvent):
        return value
    if not isinstance(value, dict):
        raise ValueError("an EVENT packet carries a PresentationEvent or an object")
    if value.keys() != PresentationEvent.model_fields.keys():
        return value
    try:
        return PresentationEvent.model_validate(value, context=_INSIDE_PACKET)
    except ValidationError:
        return value


def _error_payload(value: object) -> StreamError:
    if isinstance(value, str):
        raise ValueError("an ERROR packet carries a StreamError, not a string")
    if not isinstance(value, dict | StreamError):
        raise ValueError("an ERROR packet carries a StreamError")
    try:
        return StreamError.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"not a StreamError: {explain(error)}") from None


def _close_payload(value: object) -> object:
    if value is None:
        raise ValueError("a CLOSE packet carries anything but null")
    return value


_PAYLOADS: dict[StreamOpCode, Callable[[object], object]] = {
    StreamOpCode.DELTA: _delta_payload,
    StreamOpCode.EVENT: _event_payload,
    StreamOpCode.ERROR: _error_payload,
    StreamOpCode.CLOSE: _close_payload,
}


def _payload_by_op(value: object, info: ValidationInfo) -> object:
    op = info.data.get("op")
    return value if op is None else _PAYLOADS[op](value)


MAX_SEQ = 2**53 - 1
"""The largest number of a packet: the largest whole number that JavaScript keeps exactly."""


class StreamPacket(StrictModel):
    """One packet of a stream; its payload `p` is checked by its `op`."""

    stream_id: UUID
    seq: Annotated[int, Field(strict=True, ge=0, le=MAX_SEQ)]
    op: StreamOpCode
    t: Timestamp
    p: Annotated[Any, BeforeValidator(_payload_by_op)]

    @property
    def is_last(self) -> bool:
        """True if no packet may follow in the stream: a CLOSE, or a FATAL error."""
        if self.op is StreamOpCode.ERROR:
            return bool(self.p.severity is ErrorSeverity.FATAL)
        return self.op is StreamOpCode.CLOSE


class DeltaPacket(StreamPacket):
    """A piece of text."""

    op: Literal[StreamOpCode.DELTA]
    p: StrictStr


class EventPacket(StreamPacket):
    """Content to show; an object without the shape of a `PresentationEvent` stays a dict."""

    op: Literal[StreamOpCode.EVENT]
    p: Annotated[
        PresentationEvent | dict[str, Any],
        PlainValidator(_event_payload, json_schema_input_type=PresentationEvent | dict[str, Any]),
    ]


class ErrorPacket(StreamPacket):
    """An error in the stream; its severity defines the reaction."""

    op: Literal[StreamOpCode.ERROR]
    p: StreamError


class ClosePacket(StreamPacket):
    """The end of the stream; nothing follows it."""

    op: Literal[StreamOpCode.CLOSE]
    p: Annotated[Any, AfterValidator(_close_payload)]


Packet: TypeAlias = DeltaPacket | EventPacket | ErrorPacket | ClosePacket
"""A packet from the wire."""

parse_packet: Callable[[bytes], Packet] = TypeAdapter[Packet](
    Annotated[Packet, Field(discriminator="op")]
).validator.validate_json
"""Parse one packet from its JSON; raises pydantic's `ValidationError` if it is not valid.

The adapter's core validator is called directly, which is 1.3 times as fast as `model_validate_json`
of one class. The union costs nothing, because `op` selects the branch.
"""
