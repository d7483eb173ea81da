"""The log lines about streams: the same in words and in fields."""

import logging
from uuid import UUID

import pytest

from coreason_client.server.log import StreamMeta
from coreason_client.server.observe import _log_lines as _lines

ID, REQUEST = UUID(int=7), UUID(int=8)
META = StreamMeta(ID, "ann", REQUEST, "f", 1, 0, 0.0, None, None, False, False)
STREAM = {"stream_id": str(ID), "request_id": str(REQUEST), "principal": "ann"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "coreason_client.server")
    return caplog


def only(lines: pytest.LogCaptureFixture) -> logging.LogRecord:
    [record] = lines.records
    return record


def assert_fields(record: logging.LogRecord, **fields: object) -> None:
    assert {name: getattr(record, name) for name in fields} == fields


def test_a_stream_that_starts(lines: pytest.LogCaptureFixture) -> None:
    _lines.stream_started(META)
    record = only(lines)
    assert record.getMessage() == f"stream {ID} started for ann (request {REQUEST})"
    assert_fields(record, event="stream_started", **STREAM)


def test_a_stream_that_ends(lines: pytest.LogCaptureFixture) -> None:
    _lines.stream_ended(META, "complete", 3, 1.23456)
    record = only(lines)
    assert record.getMessage() == f"stream {ID} ended after 1.235 s and 3 packets: complete"
    assert_fields(
        record, event="stream_ended", outcome="complete", packets=3, seconds=1.235, **STREAM
    )


def test_an_end_that_is_written_later(lines: pytest.LogCaptureFixture) -> None:
    _lines.end_written(ID, "agent_error", 4)
    assert_fields(
        only(lines),
        event="stream_end_written",
        stream_id=str(ID),
        outcome="agent_error",
        packets=4,
    )


def test_a_resume_and_a_takeover(lines: pytest.LogCaptureFixture) -> None:
    _lines.resumed(META, 12)
    _lines.taken_over(ID, 5)
    resumed, taken_over = lines.records
    assert_fields(resumed, event="stream_resumed", after_seq=12, levelno=logging.INFO, **STREAM)
    assert_fields(taken_over, event="stream_taken_over", packets=5, levelno=logging.WARNING)


@pytest.mark.parametrize(
    ("status", "principal", "reason", "suppressed", "level", "sentence"),
    [
        (429, "ann", "", 0, logging.INFO, "request of ann refused with 429 slug: Detail."),
        (401, None, "", 0, logging.INFO, "request refused with 401 slug: Detail."),
        (503, "ann", "disk", 0, logging.WARNING, "request of ann refused with 503 slug: disk"),
        (
            *(429, "ann", "", 7, logging.INFO),
            "request of ann refused with 429 slug: Detail. (7 more like this were not logged)",
        ),
    ],
)
def test_a_refusal(
    lines: pytest.LogCaptureFixture,
    status: int,
    principal: str | None,
    reason: str,
    suppressed: int,
    level: int,
    sentence: str,
) -> None:
    _lines.refused(status, "slug", "Detail.", principal, reason, suppressed)
    record = only(lines)
    assert (record.getMessage(), record.levelno) == (sentence, level)
    assert_fields(record, event="refused", problem="slug", suppressed=suppressed)


def test_a_drain(lines: pytest.LogCaptureFixture) -> None:
    _lines.draining(2, 10.0)
    _lines.drained(0.5)
    assert lines.messages == [
        "draining: 2 streams, up to 10 seconds",
        "drained in 0.500 seconds",
    ]
