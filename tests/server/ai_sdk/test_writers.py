"""Any answer becomes chunks that a page accepts, whatever the pages of the log."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import MemoryStreamLog, SQLiteStreamLog, ValkeyStreamLog
from coreason_client.server.ai_sdk import AnswerFacts, GivenApproval, message_id
from coreason_client.server.ai_sdk._writer import ChunkWriter, Earlier
from coreason_client.server.answer._entries import valid_entries
from coreason_client.server.http._chats import question_id

from ..answer.packets import ANSWERS, STREAM, Packet, entries_of
from ..log.valkey_server import fresh_prefix, shared_server
from .pages import CAPABILITIES, Pages
from .reading import Reader, plain
from .serving import EVERYTHING, body, chunks, cited, frames, peer, site, user

OTHER = UUID(int=STREAM.int + 1)
CLOSE: Packet = ("CLOSE", {"reason": "complete"})
ALL = CAPABILITIES[7]
ABILITIES = st.sampled_from([*CAPABILITIES.values(), ["reset-step"], ["tool-approval-request"]])


def _call_question(call_id: str) -> list[Packet]:
    asked = {"type": "QUESTION", "data": {"question": "May I?", "call_id": call_id}}
    return [("EVENT", asked), ("DELTA", "May I?"), ("CLOSE", {"reason": "input_required"})]


_ASKS = st.sampled_from(["c1", "c2", "c3"]).map(_call_question)
QUESTIONS: st.SearchStrategy[list[Packet]] = st.builds(
    lambda answer, asks: [*answer[:-1], *asks], ANSWERS, _ASKS
)
"""Answers that end with a question about a call, which may be open or not."""


def _event(kind: str, **data: Any) -> Packet:
    return ("EVENT", {"type": kind, "data": data})


def _error(code: str, severity: str) -> Packet:
    return ("ERROR", {"code": code, "message": "It failed.", "severity": severity})


_CALLS = ("c1", "c2", "c3")
_POOL: list[Packet] = [
    *(("DELTA", text) for text in ("one ", 'two "ä"\n\n', "")),
    *(_event("THOUGHT_TRACE", content=text) for text in ("hm", "aha")),
    *(_event("TOOL_CALL", call_id=one, name="t", arguments={"a": one}) for one in _CALLS),
    *(_event("TOOL_RESULT", call_id=one, result="r" * 30, is_error=False) for one in _CALLS),
    _event("TOOL_RESULT", call_id="c1", result={"b": 1}, is_error=True),
    _event("USAGE", prompt_tokens=3, completion_tokens=2, reasoning_tokens=1),
    _event("USAGE", prompt_tokens=1, completion_tokens=1, finish_reason="length"),
    ("EVENT", cited("https://a.example", "A")),
    _event("MEDIA_CAROUSEL", items=[{"url": "https://a.example/i", "mime_type": "image/png"}]),
    _event("ARTIFACT", artifactId="a", parts=[{"raw": "aGk="}, {"text": "Hi"}]),
    _event("MARKDOWN_BLOCK", content="# Title"),
    _event("PROGRESS_INDICATOR", label="Work", status="running"),
    ("EVENT", {"type": "data-own", "id": "o", "data": 1}),
    ("EVENT", {"type": "data-own", "id": "o", "data": 2}),
    _event("MY_OWN", x=1),
    _event("QUESTION", question="May I?", call_id="c2"),
    _error("slow", "WARNING"),
]
_ENDS: list[Packet] = [
    CLOSE,
    CLOSE,
    ("CLOSE", {"reason": "input_required"}),
    _error("agent_error", "FATAL"),
    _error("cancelled", "FATAL"),
]
_REWINDS = [_event("REWIND", to_seq=number) for number in (0, 2, 5, 9)]


def _usual(pool: list[Packet]) -> st.SearchStrategy[list[Packet]]:
    """Return answers of packets that have the usual shape, in any order, and end in any way."""
    some = st.lists(st.sampled_from(pool), min_size=10, max_size=20)
    return st.builds(lambda middle, end: [*middle, end], some, st.sampled_from(_ENDS))


ANY = st.one_of(_usual(_POOL), _usual([*_POOL, *_REWINDS]), ANSWERS, QUESTIONS)


def written(entries: list[bytes], abilities: list[str], **options: Any) -> bytes:
    facts = AnswerFacts("key", abilities)
    writer = ChunkWriter(STREAM, facts, 20, **options)
    writer.loaded = entries
    return writer.start() + writer.feed(entries)


def read(raw: bytes, parts: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    return plain(Reader(parts).read(chunks(raw)))


@given(ANY, ABILITIES)
def test_a_page_can_read_every_answer(answer: list[Packet], abilities: list[str]) -> None:
    told = chunks(written(entries_of(answer), abilities))
    Reader().read(told)
    beyond = {chunk["type"] for chunk in told} & {*ALL}
    assert beyond <= {*abilities}


@pytest.mark.timeout(120)
def test_the_sdk_reads_the_same_as_the_model(pages: Pages) -> None:
    answers: list[list[Packet]] = []

    @given(ANY)
    def collect(answer: list[Packet]) -> None:
        answers.append(answer)

    collect()
    abilities = CAPABILITIES[pages.version]
    bodies = [chunks(written(entries_of(answer), abilities)) for answer in answers]
    for told, found in zip(bodies, pages.check(bodies), strict=True):
        assert found["wrong"] == []
        failed = [chunk["errorText"] for chunk in told if chunk["type"] == "error"]
        assert found["error"] == (failed[0] if failed else None)
        parts = [] if found["message"] is None else plain(found["message"]["parts"])
        assert parts == plain(Reader().read(told))


@given(ANY, ABILITIES)
def test_the_rest_after_any_chunk_is_the_tail(answer: list[Packet], abilities: list[str]) -> None:
    entries = entries_of(answer)
    whole = written(entries, abilities)
    tail = frames(whole)
    for after in range(-1, len(tail)):
        rest = frames(written(entries, abilities, after=after))
        # The last chunk is always sent: without it, a transport asks again.
        assert rest == tail[min(after + 1, len(tail) - 2) :]


@given(ANY)
def test_a_rewind_leaves_nothing_behind(answer: list[Packet]) -> None:
    entries = entries_of(answer)
    valid = [entry for _, entry in valid_entries(entries)]
    live = Reader()
    live.read(chunks(written(entries, ALL)))
    only = Reader()
    only.read(chunks(written(valid, ALL)))
    assert plain(live.parts) == plain(only.parts)
    assert live.metadata == only.metadata


@given(ANY)
def test_a_rewind_is_an_error_for_a_page_that_does_not_know_it(answer: list[Packet]) -> None:
    entries = entries_of(answer)
    told = chunks(written(entries, []))
    rewound = len(valid_entries(entries)) < len(entries)
    codes = [chunk.get("code") for chunk in told if chunk["type"] == "error"]
    assert ("rewound" in codes) is rewound
    assert told[-1]["type"] == "finish"


@given(ANY, ABILITIES, st.data())
def test_pages_of_any_size_give_the_same_bytes(
    answer: list[Packet], abilities: list[str], data: st.DataObject
) -> None:
    entries = entries_of(answer)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=4)))
    bounds = [*zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    whole = written(entries, abilities)
    for joins in (False, True):
        writer = ChunkWriter(STREAM, AnswerFacts("key", abilities), 20)
        writer.loaded = entries
        pieces = [writer.start()]
        for start, end in bounds:
            page = entries[start:end]
            pieces.append(writer.feed_joined(b"".join(page)) if joins else writer.feed(page))
        assert b"".join(pieces) == whole


@given(ANY, ANY)
def test_a_continued_message_is_the_same_after_a_reload(
    first: list[Packet], second: list[Packet]
) -> None:
    """One page was open all the time, the other reads the message from its beginning."""
    before, after = entries_of(first), entries_of(second)
    if first[-1][0] == "ERROR":
        return  # the open page has not read the end
    live = Reader()
    live.read(chunks(written(before, ALL)))
    facts = AnswerFacts("other", ALL, message_id(STREAM))
    posted = ChunkWriter(OTHER, facts, 20)
    posted.loaded = after
    raw = posted.start() + posted.feed(after)
    assert chunks(raw)[0]["messageId"] == message_id(STREAM)
    continued = Reader(live.parts)
    continued.read(chunks(raw))
    valid = [entry for _, entry in valid_entries(before)]
    earlier = [Earlier(STREAM, AnswerFacts("key", ALL), valid)]
    reloaded = ChunkWriter(OTHER, facts, 20, earlier=earlier)
    reloaded.loaded = after
    again = Reader()
    again.read(chunks(reloaded.start() + reloaded.feed(after)))
    assert plain(again.parts) == plain(continued.parts)
    if second[-1][0] != "ERROR":
        assert again.metadata == {**live.metadata, **continued.metadata}


@given(st.booleans(), ANY)
def test_an_answered_question_is_the_same_after_a_reload(
    approved: bool, second: list[Packet]
) -> None:
    data = {"call_id": "c9", "name": "t", "arguments": {}}
    call: Packet = ("EVENT", {"type": "TOOL_CALL", "data": data})
    result: Packet = ("EVENT", {"type": "TOOL_RESULT", "data": {"call_id": "c9", "result": 1}})
    before = entries_of([("DELTA", "x"), call, *_call_question("c9")])
    after = entries_of([call, result, *second])
    live = Reader()
    live.read(chunks(written(before, ALL)))
    [part] = [part for part in live.parts if part["type"] == "dynamic-tool"]
    assert part["approval"] == {"id": question_id(STREAM)}
    part["state"] = "approval-responded"  # by the page itself
    part["approval"] |= {"approved": approved, "reason": "so"}
    approval = GivenApproval(question_id(STREAM), "c9", approved, "so")
    facts = AnswerFacts("other", ALL, message_id(STREAM), approval)
    parts = []
    earlier = [Earlier(STREAM, AnswerFacts("key", ALL), before)]
    for given_before, begun in ((None, live.parts), (earlier, [])):
        writer = ChunkWriter(OTHER, facts, 20, earlier=given_before)
        writer.loaded = after
        reader = Reader(begun)
        parts.append(plain(reader.read(chunks(writer.start() + writer.feed(after)))))
    assert parts[0] == parts[1]


def test_ids_of_calls_are_never_the_same() -> None:
    packets: list[Packet] = []
    for call_id in ("c", "c", "c-repeat-2", "c", "c-repeat-2"):
        data = {"call_id": call_id, "name": "t", "arguments": len(packets)}
        packets.append(("EVENT", {"type": "TOOL_CALL", "data": data}))
        ended = {"call_id": call_id, "result": len(packets)}
        packets.append(("EVENT", {"type": "TOOL_RESULT", "data": ended}))
    parts = read(written(entries_of([*packets, CLOSE]), []))
    calls = [(part["input"], part["output"]) for part in parts[1:]]
    assert calls == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


# Processes and logs

_PRINT = """
import hashlib
from tests.server.ai_sdk.test_writers import written, ALL
from tests.server.ai_sdk.serving import PACKETS
from tests.server.answer.packets import entries_of
packets = [("DELTA", p) if isinstance(p, str) else ("EVENT", p) for p in PACKETS]
raw = written(entries_of([*packets, ("CLOSE", {"reason": "complete"})]), ALL)
print(hashlib.sha256(raw).hexdigest())
"""


def test_every_process_writes_the_same_bytes() -> None:
    root = Path(__file__).parents[3]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PRINT],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    found = {process.communicate(timeout=30)[0] for process in processes}
    assert len(found) == 1
    assert re.fullmatch("[0-9a-f]{64}\n", found.pop())


def test_the_chunks_are_the_same_on_every_log(tmp_path: Path) -> None:
    logs = (
        MemoryStreamLog(),
        SQLiteStreamLog(tmp_path / "log.db"),
        ValkeyStreamLog(shared_server().url, prefix=fresh_prefix()),
    )
    digests = set()
    for log in logs:
        with site(log=log) as server, peer(server.url) as http:
            posted = http.post("/api/chat", json=body("c", user(EVERYTHING)))
            path = f"/api/chat/{posted.headers['x-workflow-run-id']}/stream"
            tail = frames(posted.content)
            for start in range(0, len(tail) - 1, 4):
                rest = http.get(path, params={"startIndex": start}).content
                assert frames(rest) == tail[start:]
            told = json.dumps(chunks(posted.content))
            told = re.sub("_[0-9a-f]{32}|-[0-9a-f]{8}-", "", told)
            digests.add(hashlib.sha256(told.encode()).digest())
    assert len(digests) == 1


def test_what_is_written_anew_after_a_rewind_has_no_chunk_that_is_too_long() -> None:
    pieces = [f"{number:09d} " * 1000 for number in range(100)]
    rewind = _event("REWIND", to_seq=len(pieces))
    answer = [*(("DELTA", text) for text in pieces), ("DELTA", "void"), rewind, CLOSE]
    entries = entries_of(answer)
    found = frames(written(entries, ALL))
    at = next(number for number, frame in enumerate(found) if b"reset-step" in frame)
    rest = [frame for frame in found[at:] if b"text-delta" in frame]
    assert 1 < len(rest) < 10
    assert max(map(len, rest)) < 300_000
    [part] = [one for one in read(written(entries, ALL)) if one["type"] == "text"]
    assert part["text"] == "".join(pieces)
