"""A conversation keeps a part of each turn, however its answer ended."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import to_json

from coreason_client.server import (
    AgentApp,
    AgentStream,
    History,
    LogUnavailable,
    MemoryStreamLog,
    ServiceRequest,
    SQLiteStreamLog,
    Turn,
    running,
)
from coreason_client.server import stream as streams
from coreason_client.server.engine import _writer
from coreason_client.server.engine._conversation import (
    MAX_HISTORY_BYTES,
    Question,
    RequestWithHistory,
    StoredTurn,
    as_turns,
    conversation_of,
    dump_question,
    dump_request,
    dump_turn,
    given_turns,
    is_large,
    last_question,
    latest_turns,
    make_turn,
    new_messages,
    parse_history,
    parse_question,
    parse_request,
    question_of,
    stored_turns,
)
from coreason_client.server.engine._writer import StreamWriter
from coreason_client.server.log import Claim, Conversation, NewStream, Page
from coreason_manifest.definitions.message import ChatMessage, Role, TextPart
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
)
from tests.preloaded import PROJECT, PipedProcess

from ..aio import aio
from ..conftest import Serve
from ..log.backends import BACKENDS, Clock
from ..peer import LIMIT, Gate, Peer, envelope, wait_for
from ..streams import agent_stream, writer_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
ASKED = st.lists(
    st.one_of(
        st.builds(ChatMessage.user, TEXTS, st.none() | TEXTS),
        st.builds(ChatMessage.tool, TEXTS, TEXTS),
    ),
    max_size=3,
)
CODES = st.none() | st.sampled_from(["cancelled", "complete", "agent_error"])


def said(turn: Turn) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in turn.messages]


def shown(history: History) -> list[tuple[list[str], str]]:
    return [([message.text for message in turn.messages], turn.outcome) for turn in history.turns]


# Without a log.


@given(ASKED, TEXTS, CODES)
def test_a_turn_comes_back_as_it_was_kept(
    asked: list[ChatMessage], answer: str, error: str | None
) -> None:
    turn = make_turn(asked, answer, error)
    again = parse_history([dump_turn(turn)]).turns[0]
    assert again == turn
    assert again.complete is (error is None)
    assert again.outcome == (error or "complete")
    answered = [m.text for m in again.messages if m.role is Role.ASSISTANT]
    assert answered == ([answer] if answer or error is None else [])


@given(ASKED, TEXTS, CODES)
def test_an_earlier_release_reads_every_turn(
    asked: list[ChatMessage], answer: str, error: str | None
) -> None:
    """It expects a list of messages and ignores keys that it does not know."""
    messages = TypeAdapter(list[ChatMessage]).validate_json(
        dump_turn(make_turn(asked, answer, error))
    )
    assert messages[:-1] == asked
    assert (messages[-1].role, messages[-1].text) == (Role.ASSISTANT, answer)


def test_a_turn_of_an_earlier_release_is_complete() -> None:
    stored = (
        b'[{"role":"user","parts":[{"type":"text","content":"one?"}]},'
        b'{"role":"assistant","parts":[{"type":"text","content":""}]}]'
    )
    turn = parse_history([stored]).turns[0]
    assert (said(turn), turn.complete) == ([("user", "one?"), ("assistant", "")], True)
    assert dump_turn(turn) == stored
    assert parse_history([b"[]"]).turns[0] == Turn(())


def test_a_history_is_a_list_of_messages_and_knows_their_turns() -> None:
    turns = [make_turn([ChatMessage.user("a")], "b"), make_turn([ChatMessage.user("c")], "", "x")]
    history = History(turns)
    assert history == [message for turn in turns for message in turn.messages]
    assert history.turns == tuple(turns)
    assert History() == []


sizes = st.lists(st.integers(0, 20), max_size=12)


@given(sizes=sizes, most=st.integers(0, 60))
def test_the_latest_turns_that_fit_are_read_and_always_the_last(
    sizes: list[int], most: int
) -> None:
    stored = [bytes([number]) * size for number, size in enumerate(sizes)]
    read = latest_turns(stored, most)
    assert read == stored[len(stored) - len(read) :]
    assert len(read) >= min(1, len(stored))
    assert len(read) == 1 or sum(map(len, read)) <= most
    if len(read) < len(stored):  # one more would not have fitted
        assert sum(map(len, stored[len(stored) - len(read) - 1 :])) > most


def test_the_mark_of_a_failure_is_on_an_answer() -> None:
    """So that an earlier release, which does not know the mark, sees an answer without text."""
    stored = json.loads(dump_turn(make_turn([ChatMessage.user("one?")], "", "no_data")))
    assert [message["role"] for message in stored] == ["user", "assistant"]
    assert [message.get("outcome") for message in stored] == [None, "no_data"]


def request(*messages: ChatMessage, **payload: Any) -> ServiceRequest:
    body = envelope(session="talk")
    body["payload"] = {"messages": [message.dump() for message in messages], **payload}
    return ServiceRequest.model_validate(body)


@given(st.text(max_size=5), ASKED)
def test_a_question_comes_back_as_it_was_kept(principal: str, asked: list[ChatMessage]) -> None:
    question = parse_question(dump_question(principal, request(*asked)))
    assert question == Question(Conversation(principal, "talk"), asked)


@pytest.mark.parametrize(
    "stored", [b"", b"{}", b"[]", b"7", b"\xff", b'{"principal":"p","session_id":"s","messages":7}']
)
def test_what_is_no_question_is_a_value_error(stored: bytes) -> None:
    with pytest.raises(ValueError):
        parse_question(stored)


_TURNS = st.lists(
    st.builds(make_turn, ASKED.filter(bool), st.text(max_size=3), st.none() | st.just("cancelled")),
    max_size=3,
)


@given(_TURNS, ASKED.filter(bool), st.booleans(), st.booleans())
def test_a_request_keeps_its_history_wherever_it_is_stored(
    turns: list[Turn], asked: list[ChatMessage], keeps: bool, instructed: bool
) -> None:
    values = request(*asked).model_dump()
    earlier = [turn for one in turns for turn in stored_turns(dump_turn(one))]
    given = RequestWithHistory(
        **values, earlier=earlier, keeps_turn=keeps, has_instructions=instructed
    )
    again, _ = parse_request(dump_request("p", given, {}))
    assert again == given
    new = asked[1:] if instructed else asked
    assert new_messages(again) == new
    seen = parse_history(given_turns(again, 10) or [])
    assert seen.turns == parse_history([dump_turn(turn) for turn in turns]).turns
    assert given_turns(again, 0) == []
    question = question_of("p", given)
    assert question.conversation == (Conversation("p", "talk") if keeps else None)
    if keeps:
        assert parse_question(dump_question("p", given)) == question
        whole = parse_history([dump_turn(make_turn(new, "answer"), question.earlier)])
        assert whole.turns == (*seen.turns, make_turn(new, "answer"))
    else:
        assert dump_question("p", given) == b""


@given(st.lists(st.sampled_from([*Role]), max_size=8))
def test_a_conversation_is_split_into_turns_that_end_with_answers(roles: list[Role]) -> None:
    messages = [
        ChatMessage(role=role, parts=[TextPart(content=str(n))]) for n, role in enumerate(roles)
    ]
    turns, rest = as_turns(messages)
    parsed = parse_history([to_json(turn) for turn in turns])
    assert [*parsed, *rest] == messages
    assert all(turn.messages[-1].role is Role.ASSISTANT for turn in parsed.turns)
    assert not rest or rest[-1].role is not Role.ASSISTANT


def test_only_messages_after_the_last_answer_are_new() -> None:
    one, two = ChatMessage.user("one?"), ChatMessage.user("two?")
    assert new_messages(request(one, ChatMessage.assistant("1"), two)) == [two]
    assert new_messages(request(one, two)) == [one, two]
    assert (
        new_messages(ServiceRequest.model_validate(envelope() | {"payload": {"payload": {}}})) == []
    )


@pytest.mark.parametrize(
    ("messages", "question"),
    [
        ([], ""),
        ([ChatMessage.user("one?")], "one?"),
        ([ChatMessage.user("one?"), ChatMessage.user("two?")], "two?"),
        ([ChatMessage.user("one?"), ChatMessage.assistant("1")], "one?"),
        ([ChatMessage.user("one?"), ChatMessage.tool("c", "3")], "one?"),
        ([ChatMessage.assistant("1"), ChatMessage.tool("c", "3")], ""),
    ],
)
def test_the_question_is_the_text_of_the_last_user_message(
    messages: list[ChatMessage], question: str
) -> None:
    assert last_question(request(*messages)) == question


def test_a_request_without_messages_has_an_empty_question() -> None:
    body = envelope() | {"payload": {"payload": {"do": "it"}}}
    assert last_question(ServiceRequest.model_validate(body)) == ""


# On a server.


class Told(Exception):
    """A failure that an agent was told to have."""


async def as_told(request: ServiceRequest, stream: AgentStream) -> None:
    """Do what the question says."""
    await stream.write("half ")
    if stream.question == "fail":
        await stream.fail("model_connection", "The connection broke.")
    elif stream.question == "raise":
        raise Told
    elif stream.question == "transient":
        error = StreamError(code="busy", message="m", severity=ErrorSeverity.TRANSIENT)
        await stream.write_packet(op=StreamOpCode.ERROR, p=error)
    elif stream.question == "wait":
        await asyncio.Event().wait()
    elif stream.question == "history":
        await stream.thought(json.dumps(shown(await stream.history())))


def history(peer: Peer) -> list[tuple[list[str], str]]:
    answer = peer.ask(envelope("history"))
    return [tuple(turn) for turn in json.loads(answer.payloads[1].data["content"])]


@pytest.mark.parametrize(
    ("question", "outcome"),
    [("fail", "model_connection"), ("raise", "agent_error"), ("transient", "busy")],
)
def test_a_failed_turn_is_kept_with_its_question_and_what_was_written(
    serve: Serve, question: str, outcome: str
) -> None:
    peer = serve(as_told)
    assert peer.ask(envelope(question)).last.p.code == outcome
    assert history(peer) == [([question, "half "], outcome)]


@pytest.mark.parametrize("log", list(BACKENDS))
def test_a_cancelled_turn_is_kept_when_the_cancel_returns(
    serve: Serve, log: str, tmp_path: Path
) -> None:
    """On every log; nobody has read the end of the stream yet."""
    peer = serve(as_told, log=BACKENDS[log](Clock(), tmp_path))
    with peer.open(envelope("wait")) as answer:
        answer.until(1)
    assert peer.cancel(answer.stream_id) == 204
    assert history(peer) == [(["wait", "half "], "cancelled")]


def test_the_response_to_a_cancel_waits_for_an_agent_that_cleans_up(serve: Serve) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await as_told(request, stream)
        finally:
            if stream.cancelled:
                await asyncio.sleep(0.3)  # far longer than the next request needs to arrive

    peer = serve(agent)
    with peer.open(envelope("wait")) as answer:
        answer.until(1)
    assert peer.cancel(answer.stream_id) == 204
    assert history(peer) == [(["wait", "half "], "cancelled")]


def test_the_response_to_a_cancel_does_not_wait_for_ever(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await asyncio.Event().wait()
        finally:
            await gate.wait()

    peer = serve(agent, cancel_grace=LIMIT)
    with peer.open() as answer:
        answer.until(1)
        assert peer.cancel(answer.stream_id) == 204
        gate.seen()
        gate.open()
        assert answer.rest().last.p.code == "cancelled"


def test_a_turn_that_another_replica_cancelled_is_kept(serve: Serve) -> None:
    log, gate = MemoryStreamLog(), Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.thought("this append learns of the cancel")
        await asyncio.Event().wait()

    one = serve(agent, log=log, agent_id="one")
    two = serve(as_told, log=log, agent_id="one")
    with one.open(envelope("slow?")) as answer:
        answer.until(1)
        two.cancel(answer.stream_id)
        gate.open()
        answer.rest()
    assert history(two) == [(["slow?", "a"], "cancelled")]


def test_an_abandoned_turn_is_kept(serve: Serve) -> None:
    stopped = threading.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await as_told(request, stream)
        finally:
            stopped.set()

    peer = serve(agent, on_abandoned="cancel", abandon_grace=0.01)
    body = envelope("wait")
    with peer.open(body) as answer:
        answer.until(1)
    wait_for(stopped)
    assert peer.ask(body).last.p.code == "abandoned"
    assert history(peer) == [(["wait", "half "], "abandoned")]


def test_a_turn_without_a_word_keeps_its_question(serve: Serve) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        if stream.question == "history":
            await as_told(request, stream)
        await stream.fail("no_data", "There is no data.")

    peer = serve(agent)
    peer.ask(envelope("one?"))
    assert history(peer) == [(["one?"], "no_data")]


def test_a_turn_that_the_server_stopped_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    stack = contextlib.ExitStack()
    app = AgentApp(as_told, log=SQLiteStreamLog(path), drain_timeout=0.05)
    peer = Peer(stack.enter_context(running(app)).url)
    with peer.open(envelope("wait")) as answer:
        answer.until(1)
        stopping = threading.Thread(target=stack.close)
        stopping.start()
        assert answer.rest().last.p.code == "server_stopped"
    stopping.join(LIMIT)
    peer.close()
    with running(AgentApp(as_told, log=SQLiteStreamLog(path))) as server:
        peer = Peer(server.url)
        assert history(peer) == [(["wait", "half "], "server_stopped")]
        peer.close()


# The death of the process.

PROGRAM = """
import sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running
from tests.server.engine.test_conversation import as_told

with running(AgentApp(as_told, log=SQLiteStreamLog(sys.argv[1]))) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_a_turn_whose_process_was_killed_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    process = PipedProcess(
        ["-c", PROGRAM, str(path)], cwd=Path(__file__).parents[3], libraries=PROJECT
    )
    try:
        peer = Peer(process.line())
        with pytest.raises(httpx2.TransportError), peer.open(envelope("wait")) as answer:
            answer.until(1)
            os.kill(process.pid, signal.SIGKILL)
            answer.rest()
        peer.close()
    finally:
        process.close(LIMIT)
    with running(AgentApp(as_told, log=SQLiteStreamLog(path))) as server:
        peer = Peer(server.url)
        assert history(peer) == [(["wait", "half "], "producer_lost")]
        peer.close()


async def lose(log: Any, clock: Clock, texts: list[str]) -> UUID:
    """Leave a stream behind whose producer is gone."""
    asked = ServiceRequest.model_validate(envelope("lost?"))
    stream = agent_stream(asked, (await log.open(_new(asked), "dead")).meta, log)
    for text in texts:
        await stream.write(text)
    await stream.thought("this flushes what was written")
    clock.forward(log.lease + 1)
    return stream.stream_id


def _new(asked: ServiceRequest) -> NewStream:
    question = dump_question("agent/anybody", asked)
    return NewStream(uuid4(), "agent/anybody", asked.request_id, "f", question)


@pytest.mark.parametrize("backend", list(BACKENDS))
@aio
async def test_the_turn_of_a_lost_stream_is_kept_by_whoever_ends_it(
    backend: str, tmp_path: Path
) -> None:
    clock = Clock()
    log = BACKENDS[backend](clock, tmp_path)
    await log.start("test")
    texts = [f"{number} " for number in range(1500)]  # more than one page
    await lose(log, clock, texts)
    app = AgentApp(as_told, log=log)
    async with app.lifespan():
        assert app._runtime is not None
        await app._runtime.orphans.close_lost()
        [turn] = await log.turns(Conversation("agent/anybody", "s"), 10)
    assert parse_history([turn]).turns[0] == make_turn(
        [ChatMessage.user("lost?")], "".join(texts), "producer_lost"
    )
    await log.stop("test")


@pytest.mark.parametrize("trouble", ["read", "question", "no question"])
@aio
async def test_a_lost_stream_ends_though_its_turn_cannot_be_kept(
    trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Troubled(MemoryStreamLog):
        async def read(self, *args: Any) -> Page:
            if trouble == "read":
                raise LogUnavailable("the store has lost entries")
            return await super().read(*args)

        async def claim_lost(self, owner: str, limit: int) -> list[Claim]:
            question = {"read": None, "question": b"{}", "no question": b""}[trouble]
            return [
                claim if question is None else Claim(claim.stream_id, claim.epoch, 2, question)
                for claim in await super().claim_lost(owner, limit)
            ]

    clock = Clock()
    log = Troubled(clock=clock)
    lost = await lose(log, clock, ["half"])
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        async with AgentApp(as_told, log=log).lifespan():
            assert (await log.meta(lost)).outcome == "producer_lost"
    assert await log.turns(Conversation("agent/anybody", "s"), 10) == []
    assert ("was not stored" in caplog.text) is (trouble != "no question")


@aio
async def test_a_producer_that_comes_back_does_not_replace_the_turn() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    asked = ServiceRequest.model_validate(envelope("lost?"))
    stream = agent_stream(asked, (await log.open(_new(asked), "paused")).meta, log)
    await stream.write("half")
    clock.forward(log.lease + 1)
    async with AgentApp(as_told, log=log).lifespan():
        pass
    with pytest.raises(Exception, match="epoch 1"):
        await writer_of(stream).complete()
    [turn] = (await stream.history()).turns
    assert turn.outcome == "producer_lost"


# A log that fails.


class NoTurns(MemoryStreamLog):
    """A log whose conversations are away."""

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        raise LogUnavailable("the conversations are away")


def test_a_failed_stream_ends_though_its_turn_cannot_be_kept(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        assert serve(as_told, log=NoTurns()).ask(envelope("fail")).last.p.code == "model_connection"
    assert "was not stored: the conversations are away" in caplog.text


@aio
async def test_a_turn_holds_nothing_that_the_log_has_not() -> None:
    """Whoever ends the stream keeps the turn, with what was written for certain."""

    class Full(MemoryStreamLog):
        async def append(self, *args: Any) -> bool:
            raise LogUnavailable("the disk is full")

    log = Full()
    asked = ServiceRequest.model_validate(envelope("one?"))
    stream = agent_stream(asked, (await log.open(_new(asked), "me")).meta, log)
    with pytest.raises(LogUnavailable):
        await stream.write("never written")
    error = StreamError(code="agent_error", message="m", severity=ErrorSeverity.FATAL)
    with pytest.raises(LogUnavailable):
        await writer_of(stream).end_with(error)
    assert await stream.history() == []


@aio
async def test_a_cancelled_agent_leaves_a_whole_end() -> None:
    """The agent is cancelled while its own end is being written."""
    reached, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStreamLog):
        async def add_turn(
            self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
        ) -> None:
            reached.set()
            await go.wait()
            await super().add_turn(conversation, stream_id, turn, epoch)

    log = Slow()
    asked = ServiceRequest.model_validate(envelope("one?"))
    stream = agent_stream(asked, (await log.open(_new(asked), "me")).meta, log)
    failing = asyncio.ensure_future(stream.fail("no_data", "There is no data."))
    await reached.wait()
    failing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await failing
    go.set()
    await writer_of(stream).end_with(
        StreamError(code="cancelled", message="m", severity=ErrorSeverity.FATAL)
    )
    assert (await log.meta(stream.stream_id)).outcome == "no_data"
    assert [turn.outcome for turn in (await stream.history()).turns] == ["no_data"]


async def tells_history(request: ServiceRequest, stream: AgentStream) -> str:
    if stream.question == "all":
        history = await stream.history(max_bytes=10 * MAX_HISTORY_BYTES)
    else:
        history = await stream.history()
    return "|".join(turn.messages[0].text[:1] for turn in history.turns)


def test_a_large_history_is_cut_to_its_latest_turns_and_parsed_beside_the_loop(
    serve: Serve,
) -> None:
    peer = serve(tells_history)
    for letter in "abc":
        peer.ask(envelope(letter * 500_000))
    assert peer.ask(envelope("?")).text == "b|c"
    assert peer.ask(envelope("all")).text == "a|b|c|?"
    peer.ask(envelope("d" * 2_000_000))
    assert peer.ask(envelope("?")).text == "d"  # the last one, whatever its size


@aio
async def test_what_parses_a_large_history_is_not_the_thread_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []

    def parse(stored: Any) -> History:
        threads.append(threading.current_thread())
        return parse_history(stored)

    monkeypatch.setattr(streams, "parse_history", parse)
    log = MemoryStreamLog()
    await log.start("o")
    for text in ("small", "large" * 20_000):
        turn = make_turn([ChatMessage.user(text)], "answer")
        asked = request(ChatMessage.user("?"))
        await log.add_turn(conversation_of("p", asked), uuid4(), dump_turn(turn))
        opened = await log.open(NewStream(uuid4(), "p", asked.request_id, "f"), "o")
        history = await agent_stream(asked, opened.meta, log).history()
        assert history[-2].text == text
    small, large = threads
    assert small is threading.current_thread()
    assert large is not threading.current_thread()
    await log.stop("o")


@aio
async def test_what_writes_a_large_turn_is_not_the_thread_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []

    def dump(turn: Turn, earlier: Sequence[StoredTurn] = (), **asked: Any) -> bytes:
        threads.append(threading.current_thread())
        return dump_turn(turn, earlier, **asked)

    monkeypatch.setattr(_writer, "dump_turn", dump)
    log = MemoryStreamLog()
    await log.start("o")
    many = [ChatMessage.user("x")] * 1000
    for asked in (request(ChatMessage.user("x" * 1000)), request(*many)):
        opened = await log.open(NewStream(uuid4(), "p", asked.request_id, "f"), "o")
        await StreamWriter(asked, opened.meta, log).complete()
    small, large = threads
    assert small is threading.current_thread()
    assert large is not threading.current_thread()
    kept = await log.turns(conversation_of("p", asked), 1)
    assert list(parse_history(kept))[:-1] == many
    await log.stop("o")


@pytest.mark.parametrize(
    ("messages", "large"),
    [
        ([], False),
        ([ChatMessage.user("x" * 30_000)], False),
        ([ChatMessage.user("x" * 33_000)], True),
        ([ChatMessage.user("")] * 700, True),
        ([ChatMessage.tool("id", {"a": 1})] * 10, False),
    ],
)
def test_large_messages(messages: list[ChatMessage], large: bool) -> None:
    assert is_large(messages) is large
