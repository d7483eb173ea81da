"""Bytes to validated packets: ours, and what most would write with httpx-sse and pydantic."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, model_validator

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.cap._resume import ResumeMachine
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import parse_packet

from ._measure import Effort, Table, at_least, at_most, compare, measure, timed
from ._peers import httpx_sse_events
from ._wire import PACKET_BYTES, chunked, events, packets

__all__ = ["table"]

_PACKETS = 5_000
_CHUNK_BYTES = 4096


class _Op(StrEnum):
    DELTA = "DELTA"
    EVENT = "EVENT"
    ERROR = "ERROR"
    CLOSE = "CLOSE"


class _Event(BaseModel):
    id: UUID
    timestamp: datetime
    type: str
    data: dict[str, Any]


class _Error(BaseModel):
    code: str
    message: str
    severity: Literal["FATAL", "TRANSIENT", "WARNING"]
    details: dict[str, Any] | None = None


class _PlainPacket(BaseModel):
    """The packet as one model: a payload of several types, checked when all fields are there."""

    stream_id: UUID
    seq: int
    op: _Op
    t: datetime
    p: _Event | _Error | str | dict[str, Any]

    @model_validator(mode="after")
    def _payload_fits(self) -> "_PlainPacket":
        if self.op is _Op.DELTA and not isinstance(self.p, str):
            raise ValueError("a DELTA packet carries a string")
        if self.op is _Op.ERROR and not isinstance(self.p, _Error):
            raise ValueError("an ERROR packet carries an error")
        return self


def _ours(chunks: Sequence[bytes]) -> int:
    decoder = SSEDecoder()
    count = 0
    for chunk in chunks:
        for event in decoder.feed(chunk):
            parse_packet(event.data_bytes)
            count += 1
    return count


def _validation_alone(payloads: Sequence[bytes]) -> int:
    count = 0
    for payload in payloads:
        parse_packet(payload)
        count += 1
    return count


def _machine() -> ResumeMachine:
    machine = ResumeMachine(lambda _: Request("POST", "http://localhost/", {}))
    machine.next_step()
    machine.accepts(ResponseHead(200, Headers([("content-type", "text/event-stream")])))
    return machine


def _resumable(chunks: Sequence[bytes]) -> int:
    machine = _machine()
    count = 0
    for chunk in chunks:
        for _ in machine.receive(chunk):
            count += 1
    return count


def _plain(chunks: Sequence[bytes]) -> int:
    count = 0
    for event in httpx_sse_events(chunks):
        _PlainPacket.model_validate_json(event.data)
        count += 1
    return count


def table(effort: Effort) -> Table:
    """Compare with the plain way, and with validation alone."""
    payloads = packets(_PACKETS)
    chunks = chunked(events(payloads), _CHUNK_BYTES)
    ours, machine, plain = "ours", "resume machine", "httpx-sse and a plain model"
    alone = "validation alone"
    costs = measure(
        {
            ours: timed(partial(_ours, chunks), _PACKETS),
            machine: timed(partial(_resumable, chunks), _PACKETS),
            plain: timed(partial(_plain, chunks), _PACKETS),
            alone: timed(partial(_validation_alone, payloads), _PACKETS),
        },
        effort,
    )
    return Table(
        f"From 4 KiB chunks to validated {PACKET_BYTES}-byte packets",
        "packet",
        [
            compare(costs, plain, ours, at_least(2.5)),
            compare(costs, ours, alone, at_most(1.6)),
            compare(costs, plain, machine),
            compare(costs, machine, alone),
        ],
    )
