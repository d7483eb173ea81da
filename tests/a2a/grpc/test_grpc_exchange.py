"""gRPC exchanges in the form of HTTP responses."""

import re

import pytest
from google.protobuf import any_pb2, duration_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.a2a._grpc._channel import (
    STREAM_HEAD,
    answer_in,
    delay_field,
    error_event,
    event_content,
    message_event,
    status_from,
    stream_failure,
    unary_head,
)
from coreason_client.a2a._grpc._status import DETAILS_KEY, GrpcStatus
from coreason_client.sse import SSEDecoder


def retry_in(seconds: int) -> bytes:
    packed = any_pb2.Any()
    delay = duration_pb2.Duration(seconds=seconds)
    packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return bytes(status_pb2.Status(details=[packed]).SerializeToString())


def reason(name: str) -> bytes:
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=name))
    return bytes(status_pb2.Status(details=[packed]).SerializeToString())


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_messages_survive_the_form_of_an_event_stream(messages: list[bytes]) -> None:
    decoder = SSEDecoder()
    events = list(decoder.events(b"".join(map(message_event, messages))))
    assert [event_content(event.data_bytes) for event in events] == messages


def test_an_error_is_an_event_too() -> None:
    [event] = SSEDecoder().events(error_event(GrpcStatus("NOT_FOUND", "a\r\nb")))
    assert event_content(event.data_bytes) == {
        "code": 404,
        "status": "NOT_FOUND",
        "message": "a\r\nb",
    }


@pytest.mark.parametrize("data", [b"{", b"\xff", b"a", b"ab*="])
def test_data_that_is_neither(data: bytes) -> None:
    with pytest.raises(ValueError):
        event_content(data)


def test_the_heads_of_responses() -> None:
    assert STREAM_HEAD.content_type == "text/event-stream"
    head = unary_head(b"abc")
    assert (head.status, head.headers["content-length"]) == (200, "3")


def test_the_details_are_in_the_trailing_metadata() -> None:
    metadata: list[tuple[str, str | bytes]] = [
        ("other", "x"),
        (DETAILS_KEY, "text"),
        (DETAILS_KEY, b"bytes"),
    ]
    assert status_from("NOT_FOUND", "m", metadata) == GrpcStatus("NOT_FOUND", "m", b"bytes")
    assert status_from("NOT_FOUND", None, None) == GrpcStatus("NOT_FOUND", "")


# The status, the failure before the first message, and that in the middle of a stream.
BROKEN, TIMEOUT, LARGE = FailureKind.BROKEN, FailureKind.TIMEOUT, FailureKind.TOO_LARGE
TOO_LARGE = "Received message larger than max (20 vs. 10)"
TABLE: list[tuple[GrpcStatus, FailureKind | None, FailureKind | None]] = [
    (GrpcStatus("UNAVAILABLE", "Socket closed"), BROKEN, BROKEN),
    (GrpcStatus("UNAVAILABLE", "shutting down", retry_in(7)), None, BROKEN),
    (GrpcStatus("UNAVAILABLE", "with a reason", reason("TASK_NOT_FOUND")), None, None),
    (GrpcStatus("CANCELLED", ""), BROKEN, BROKEN),
    (GrpcStatus("DEADLINE_EXCEEDED", "Deadline Exceeded"), TIMEOUT, TIMEOUT),
    (GrpcStatus("RESOURCE_EXHAUSTED", "quota"), None, BROKEN),
    (GrpcStatus("RESOURCE_EXHAUSTED", "quota", retry_in(7)), None, BROKEN),
    (GrpcStatus("INTERNAL", "failed", retry_in(7)), None, None),
    (GrpcStatus("RESOURCE_EXHAUSTED", TOO_LARGE), LARGE, LARGE),
    (GrpcStatus("ABORTED", "retry"), None, BROKEN),
    (GrpcStatus("NOT_FOUND", "no task"), None, None),
    (GrpcStatus("UNKNOWN", "exception"), None, None),
    (GrpcStatus("UNAUTHENTICATED", "who?"), None, None),
]


@pytest.mark.parametrize(("status", "before", "during"), TABLE)
def test_which_statuses_are_answers(
    status: GrpcStatus, before: FailureKind | None, during: FailureKind | None
) -> None:
    if before is not None:
        with pytest.raises(TransportFailure, match=re.escape(status.code)) as caught:
            answer_in(status)
        assert caught.value.kind == before
    else:
        head, body = answer_in(status)
        error = from_json(body)["error"]
        assert (error["code"], error["status"]) == (head.status, status.code)
    failure = stream_failure(status)
    assert (failure and failure.kind) == during


@pytest.mark.parametrize(
    ("details", "milliseconds"),
    [(retry_in(7), 7000), (retry_in(0), 0), (b"", None), (b"\xff", None)],
)
def test_the_delay_in_the_middle_of_a_stream_is_a_field(
    details: bytes, milliseconds: int | None
) -> None:
    decoder = SSEDecoder()
    assert decoder.feed(delay_field(GrpcStatus("UNAVAILABLE", "busy", details))) == []
    assert decoder.retry_ms == milliseconds


def test_the_delay_of_a_server_is_a_header() -> None:
    head, _ = answer_in(GrpcStatus("UNAVAILABLE", "busy", retry_in(7)))
    assert (head.status, head.headers["retry-after"]) == (503, "7")
    head, _ = answer_in(GrpcStatus("RESOURCE_EXHAUSTED", "quota"))
    assert (head.status, "retry-after" in head.headers) == (429, False)
