"""The events with which an agent reports its tool calls and its tokens."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_manifest.definitions.presentation import (
    EventPacket,
    PresentationEvent,
    PresentationEventType,
    parse_packet,
)
from coreason_manifest.definitions.reports import (
    TOOL_CALL,
    TOOL_RESULT,
    USAGE,
    ToolCallReport,
    ToolResultReport,
    UsageReport,
    report_of,
)
from tests.fuzz.strategies import examples

CALL = {"call_id": "a", "name": "find", "arguments": {"x": None}}
RESULT = {"call_id": "a", "result": "blue", "is_error": True}
TOKENS = {"prompt_tokens": 1, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("kind", "data", "report"),
    [
        (TOOL_CALL, CALL, ToolCallReport(call_id="a", name="find", arguments={"x": None})),
        (
            TOOL_CALL,
            {**CALL, "arguments": "all", "turn": 2, "more": 1},
            ToolCallReport(call_id="a", name="find", arguments="all", turn=2),
        ),
        (TOOL_RESULT, RESULT, ToolResultReport(call_id="a", result="blue", is_error=True)),
        (
            TOOL_RESULT,
            {"call_id": "a", "result": None, "name": "find", "turn": 1, "seconds": 2},
            ToolResultReport(call_id="a", result=None, name="find", turn=1, seconds=2),
        ),
        (USAGE, TOKENS, UsageReport(prompt_tokens=1, completion_tokens=2)),
        (
            USAGE,
            {**TOKENS, "model": "m", "cost_estimate": None, "estimated": True},
            UsageReport(prompt_tokens=1, completion_tokens=2, model="m", estimated=True),
        ),
    ],
)
def test_an_event_with_the_documented_data_is_a_report(kind: str, data: Any, report: Any) -> None:
    assert report_of({"type": kind, "data": data}) == report


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": TOOL_CALL},
        {"type": [TOOL_CALL], "data": CALL},
        {"type": "OTHER", "data": CALL},
        {"type": TOOL_CALL, "data": [CALL]},
        {"type": TOOL_CALL, "data": RESULT},
        {"type": TOOL_CALL, "data": {**CALL, "call_id": 5}},
        {"type": TOOL_CALL, "data": {**CALL, "name": ""}},
        {"type": TOOL_CALL, "data": {**CALL, "turn": "first"}},
        {"type": TOOL_RESULT, "data": CALL},
        {"type": TOOL_RESULT, "data": {**RESULT, "is_error": "no"}},
        {"type": TOOL_RESULT, "data": {**RESULT, "seconds": -1}},
        {"type": USAGE, "data": {"prompt_tokens": 1}},
        {"type": USAGE, "data": {**TOKENS, "prompt_tokens": True}},
        {"type": USAGE, "data": {**TOKENS, "completion_tokens": -1}},
        {"type": USAGE, "data": {**TOKENS, "cost_estimate": "much"}},
        PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data=CALL),
    ],
)
def test_an_event_of_an_agent_with_the_same_name_is_not_a_report(event: Any) -> None:
    assert report_of(event) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [*ToolCallReport.model_fields, *ToolResultReport.model_fields, *UsageReport.model_fields]
)


@examples(300)
@given(
    st.sampled_from([TOOL_CALL, TOOL_RESULT, USAGE]) | JSON,
    JSON | st.dictionaries(KEYS, JSON) | st.sampled_from([CALL, RESULT, TOKENS]),
)
def test_any_event_is_a_report_or_none(kind: Any, data: Any) -> None:
    report = report_of({"type": kind, "data": data})
    if report is not None:
        assert report_of({"type": kind, "data": report.model_dump()}) == report


def test_a_packet_with_a_report_stays_a_plain_object() -> None:
    event = (
        b'{"id":"987fcdeb-51a2-11e1-fad2-0242ac130003","timestamp":"2026-01-05T10:00:00Z",'
        b'"type":"TOOL_CALL","data":{"call_id":"a","name":"find","arguments":{}}}'
    )
    packet = parse_packet(
        b'{"stream_id":"123e4567-e89b-12d3-a456-426614174000","seq":1,"op":"EVENT",'
        b'"t":"2026-01-05T10:00:00Z","p":%b}' % event
    )
    assert isinstance(packet, EventPacket)
    assert isinstance(packet.p, dict)
    assert report_of(packet.p) == ToolCallReport(call_id="a", name="find", arguments={})
