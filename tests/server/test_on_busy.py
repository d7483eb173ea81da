"""A message while an earlier one of its conversation is being answered: four policies."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NoReturn
from unittest.mock import patch
from uuid import UUID

import pytest

from coreason_client import A2AClient, AsyncCAPClient, CAPRuntimeError
from coreason_client._context import current_stream
from coreason_client.a2a import Message, SendMessageConfiguration, TaskState
from coreason_client.errors import ArgumentError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    ServiceRequest,
    SQLiteStreamLog,
    running,
)
from coreason_client.server.durable._journal import Journal, Restarts
from coreason_client.server.durable._notes import parse_note
from coreason_client.server.engine import _order, _writer
from coreason_client.server.engine._conversation import dump_request
from coreason_client.server.engine._order import Order
from coreason_client.server.log._sql_tasks import SQLiteTasks
from coreason_client.server.log.base import Conversation
from tests.preloaded import PROJECT, PipedProcess

from .conftest import Serve
from .log import postgres_server
from .log.backends import BACKENDS, Clock
from .log.valkey_server import fresh_prefix, shared_server
from .peer import LIMIT, Gate, Peer, envelope, wait_for
from .test_replicas import Fleet, fleet

__all__ = ["fleet"]

LOGS = ["memory", "sqlite", "valkey", "valkey-cluster", "postgres"]


class Worker:
    """An agent that notes when each message begins and ends; "hold" waits at the gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.seen: list[str] = []

    async def __call__(self, _: ServiceRequest, stream: AgentStream) -> None:
        word = stream.question
        self.seen.append(f"begin {word}")
        earlier = [message.text for message in await stream.history()]
        try:
            await stream.write(f"{word} after {earlier}.")
            if word == "hold":
                await self.gate.wait()
        finally:
            self.seen.append(f"end {word}")


def later(threads: ThreadPoolExecutor, peer: Peer, *words: str) -> "list[Future[Any]]":
    """Send messages, one after the other has been accepted."""
    sent = []
    for word in words:
        body = envelope(word)
        sent.append(threads.submit(peer.ask, body))
        accepted(peer, body)
    return sent


def accepted(peer: Peer, body: dict[str, Any]) -> None:
    """Wait until the stream of a request exists: the same request joins it."""
    with peer.open(body) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("log", LOGS)
def test_messages_wait_for_their_turn_and_see_what_was_before(
    serve: Serve, log: str, tmp_path: Path
) -> None:
    worker = Worker()
    peer = serve(worker, log=BACKENDS[log](Clock(), tmp_path), on_busy="wait")
    with ThreadPoolExecutor(4) as threads:
        sent = later(threads, peer, "hold")
        worker.gate.seen()
        sent += later(threads, peer, "a", "b")
        assert peer.ask(envelope("x", session="another")).text == "x after []."
        assert worker.seen == ["begin hold", "begin x", "end x"]
        worker.gate.open()
        texts = [one.result(LIMIT).text for one in sent]
    hold = "hold after []."
    assert texts == [
        hold,
        f"a after {['hold', hold]}.",
        f"b after {['hold', hold, 'a', texts[1]]}.",
    ]
    assert worker.seen[3:] == ["end hold", "begin a", "end a", "begin b", "end b"]


@pytest.mark.parametrize("log", LOGS)
def test_a_message_is_refused_while_another_is_answered(
    serve: Serve, log: str, tmp_path: Path
) -> None:
    worker = Worker()
    peer = serve(worker, log=BACKENDS[log](Clock(), tmp_path), on_busy="reject")
    with ThreadPoolExecutor(2) as threads:
        body = envelope("hold")
        first = threads.submit(peer.ask, body)
        worker.gate.seen()
        with peer.open(envelope("a")) as refused:
            problem = refused.response.read().decode()
            assert (refused.status, "conversation-busy" in problem) == (409, True)
        accepted(peer, body)  # the same message joins its answer
        worker.gate.open()
        first.result(LIMIT)
    assert peer.ask(envelope("b")).status == 200
    assert worker.seen == ["begin hold", "end hold", "begin b", "end b"]


def test_of_messages_at_the_same_time_one_is_answered(serve: Serve) -> None:
    worker = Worker()
    peer = serve(worker, on_busy="reject")
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(peer.ask, envelope("hold")) for _ in range(8)]
        worker.gate.seen()
        done = wait(sent, LIMIT, FIRST_COMPLETED).done
        while len(done) < 7:
            done |= wait(set(sent) - done, LIMIT, FIRST_COMPLETED).done
        worker.gate.open()
        answers = [one.result(LIMIT) for one in sent]
    assert worker.seen == ["begin hold", "end hold"]
    refused = [one for one in answers if one.status == 409 or one.last.op == "ERROR"]
    assert len(refused) == 7
    assert all(one.last.p.code == "conversation_busy" for one in refused if one.status == 200)


def test_the_later_one_of_two_that_were_accepted_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both came before the other one was in the list, perhaps at two replicas."""

    async def sees_nobody(*_: object) -> list[UUID]:
        return []

    monkeypatch.setattr(Order, "busy", sees_nobody)
    worker = Worker()
    peer = serve(worker, on_busy="reject")
    with ThreadPoolExecutor(1) as threads:
        [first] = later(threads, peer, "hold")
        worker.gate.seen()
        assert peer.ask(envelope("a")).last.p.code == "conversation_busy"
        worker.gate.open()
        assert first.result(LIMIT).last.op == "CLOSE"
    assert worker.seen == ["begin hold", "end hold"]


@pytest.mark.parametrize("log", LOGS)
def test_a_message_interrupts_the_answer_before_it(serve: Serve, log: str, tmp_path: Path) -> None:
    worker = Worker()
    peer = serve(worker, log=BACKENDS[log](Clock(), tmp_path), on_busy="interrupt")
    with ThreadPoolExecutor(2) as threads:
        [first] = later(threads, peer, "hold")
        worker.gate.seen()
        second = peer.ask(envelope("a")).text
        assert first.result(LIMIT).last.p.code == "cancelled"
    assert second == f"a after {['hold', 'hold after [].']}."
    assert worker.seen == ["begin hold", "end hold", "begin a", "end a"]


def test_a_waiting_message_can_be_cancelled(serve: Serve) -> None:
    worker = Worker()
    peer = serve(worker, on_busy="wait")
    with ThreadPoolExecutor(4) as threads:
        sent = later(threads, peer, "hold")
        worker.gate.seen()
        with peer.open(envelope("a")) as waiting:
            sent += later(threads, peer, "b")
            assert peer.cancel(waiting.stream_id) == 204
            waiting.rest()
        assert waiting.last.p.code == "cancelled"
        assert worker.seen == ["begin hold"]  # the one behind it does not overtake
        worker.gate.open()
        assert sent[1].result(LIMIT).text.startswith("b after")
    assert worker.seen == ["begin hold", "end hold", "begin b", "end b"]


@pytest.mark.parametrize("policy", ["wait", "reject", "interrupt"])
def test_an_agent_that_asks_in_its_own_conversation_is_refused(serve: Serve, policy: str) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        if stream.question != "first":
            await stream.write("well")
            return
        async with AsyncCAPClient(str(peer.http.base_url), "k") as client:
            await stream.write(await client.ask("another", "elsewhere"))
            try:
                await client.ask("again", request.context.session_id)
            except CAPRuntimeError as error:
                await stream.write(f", {error.status_code}: {error}")

    peer = serve(agent, on_busy=policy)
    assert "well, 409: " in (answer := peer.ask(envelope("first")).text)
    assert answer.endswith("so its message would wait for its own end.")


def test_a_chat_of_the_ai_sdk_and_a_thread_of_ag_ui_are_conversations(serve: Serve) -> None:
    worker = Worker()
    peer = serve(AgentApp(worker, on_busy="reject", ai_sdk=True, ag_ui=True, drain_timeout=0.0))

    def page(word: str, chat: str = "c") -> Any:
        parts = [{"type": "text", "text": word}]
        messages = [{"id": word, "role": "user", "parts": parts}]
        return peer.http.post("/api/chat", json={"id": chat, "messages": messages})

    def run(word: str, thread: str = "t") -> Any:
        messages = [{"id": word, "role": "user", "content": word}]
        body = {"threadId": thread, "runId": f"{thread} {word}", "messages": messages}
        return peer.http.post("/ag-ui", json=body)

    for ask in (page, run):
        worker.gate = Gate()
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(ask, "hold")
            worker.gate.seen()
            assert ask("a").status_code == 409
            assert ask("b", "another").status_code == 200
            worker.gate.open()
            assert first.result(LIMIT).status_code == 200


def test_the_policy_holds_across_replicas(fleet: Fleet) -> None:
    worker = Worker()
    one, two = (fleet.replica(worker, on_busy="wait") for _ in range(2))
    with ThreadPoolExecutor(3) as threads:
        sent = later(threads, one, "hold")
        worker.gate.seen()
        sent += [*later(threads, two, "a"), *later(threads, one, "b")]
        assert worker.seen == ["begin hold"]
        worker.gate.open()
        for answer in sent:
            answer.result(LIMIT)
    assert worker.seen == [*("begin hold", "end hold", "begin a", "end a", "begin b", "end b")]


def test_a_replica_interrupts_the_answer_of_another_one(fleet: Fleet) -> None:
    worker = Worker()
    one, two = (fleet.replica(worker, lease=1.5, on_busy="interrupt") for _ in range(2))
    with ThreadPoolExecutor(1) as threads:
        [first] = later(threads, one, "hold")
        worker.gate.seen()
        two.ask(envelope("a"))
        assert first.result(LIMIT).last.p.code == "cancelled"
    assert worker.seen == ["begin hold", "end hold", "begin a", "end a"]


class LateLog(MemoryStreamLog):
    """A log in which agents do not get on with their own entry in the list."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.entered: list[UUID] = []

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        if current_stream() is not None:
            await self.gate.wait()
        await super().add_turn(conversation, stream_id, turn, epoch)
        if conversation.session_id.startswith("order:"):
            self.entered.append(stream_id)


def test_a_message_has_its_place_before_its_sender_knows_that_it_was_accepted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent may begin much later, or in another process."""
    log, worker = LateLog(), Worker()
    peer = serve(worker, log=log, on_busy="wait")

    async def fails(*_: object) -> NoReturn:
        raise LogUnavailable("not now")

    try:
        accepted(peer, envelope("a"))
        assert len(log.entered) == 1
        body, enter = envelope("b"), Order.enter
        monkeypatch.setattr(Order, "enter", fails)
        with peer.open(body) as refused:
            assert refused.status == 503
        monkeypatch.setattr(Order, "enter", enter)
        accepted(peer, body)  # it joins the stream, which is not in the list
        assert len(log.entered) == 2
    finally:
        log.gate.open()


PROGRAM = """
import asyncio, sys
from coreason_client.server import AgentApp, running
from coreason_client.server import PostgresStreamLog, SQLiteStreamLog, ValkeyStreamLog

place, name, ran, durable = sys.argv[1:]

async def agent(request, stream):
    await stream.write(f"{stream.question} ")
    with open(ran, "a") as file:
        file.write(f"{stream.question}\\n")
    if stream.question == "hold" and stream.attempt == 1:
        await asyncio.sleep(60)
    await stream.write("done")

if place.startswith("valkey"):
    log = ValkeyStreamLog(place, prefix=name, lease=1.5)
elif place.startswith("postgres"):
    log = PostgresStreamLog(place, schema=name, lease=1.5)
else:
    log = SQLiteStreamLog(place, lease=1.5)
app = AgentApp(
    agent, log=log, durable=durable == "durable", on_busy="wait", agent_id="a", version="1",
    drain_timeout=0.0, cancel_grace=0.1, a2a=True,
)
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def _end(process: PipedProcess, number: int | None) -> None:
    """Send the signal, or let the program stop its server."""
    if number is not None:
        os.kill(process.pid, number)
        return
    process.stdin.close()
    process.wait(LIMIT)


def _place(log: str, folder: Path) -> str:
    if log == "sqlite":
        return str(folder / "log.db")
    return (shared_server() if log == "valkey" else postgres_server.shared_server()).url


@pytest.mark.parametrize(
    ("kind", "end"), [("durable", signal.SIGKILL), ("plain", signal.SIGKILL), ("plain", None)]
)
@pytest.mark.parametrize("log", ["sqlite", "valkey", "postgres"])
def test_a_waiting_message_survives_the_end_of_its_process(
    log: str, kind: str, end: int | None, tmp_path: Path
) -> None:
    """The process dies or stops while one message is answered and two wait.

    Each is answered once, in order; only the one that had begun is lost if its agent is plain.
    """
    place, ran, name = _place(log, tmp_path), tmp_path / "ran", fresh_prefix()
    bodies = [envelope(word) for word in ("hold", "a", "b")]
    answers = []
    for is_first in (True, False):
        process = PipedProcess(["-c", PROGRAM, place, name, str(ran), kind], libraries=PROJECT)
        try:
            peer = Peer(process.line())
            for body in bodies:
                if is_first:
                    with peer.open(body) as answer:
                        if body is bodies[0]:
                            answer.until(1)
                else:
                    answers.append(peer.ask(body))
            if is_first:
                _end(process, end)
            peer.close()
        finally:
            process.close(LIMIT)
    first, *others = answers
    assert [answer.text for answer in others] == ["a done", "b done"]
    assert [answer.last.op for answer in others] == ["CLOSE", "CLOSE"]
    if kind == "durable":
        assert first.text == "hold done"
        assert ran.read_text().split() == ["hold", "hold", "a", "b"]
    else:
        assert first.last.p.code == ("producer_lost" if end else "server_stopped")
        assert ran.read_text().split() == ["hold", "a", "b"]


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
@pytest.mark.parametrize("log", ["sqlite", "valkey", "postgres"])
def test_a_waiting_task_of_a2a_survives_the_end_of_its_process(
    log: str, end: int | None, tmp_path: Path
) -> None:
    """As above, for a plain agent whose messages come as tasks of one context."""
    ran, arguments = tmp_path / "ran", [_place(log, tmp_path), fresh_prefix()]
    config = SendMessageConfiguration(return_immediately=True)
    tasks: list[Any] = []
    ended: list[Any] = []
    for is_first in (True, False):
        process = PipedProcess(["-c", PROGRAM, *arguments, str(ran), "plain"])
        try:
            with A2AClient.connect(process.line()) as client:
                for word in ("hold", "a", "b") if is_first else ():
                    message = Message.user(word, context_id="c")
                    tasks.append(client.send_message(message, config))
                    _wait_for_file(ran)  # the first one has begun
                if is_first:
                    _end(process, end)
                else:
                    ended = [client.wait_for_task(task.id) for task in tasks]
        finally:
            process.close(LIMIT)
    assert [(task.status.state, task.text) for task in ended[1:]] == [
        (TaskState.COMPLETED, "a done"),
        (TaskState.COMPLETED, "b done"),
    ]
    assert ended[0].status.state is TaskState.FAILED
    assert ran.read_text().split() == ["hold", "a", "b"]


def _wait_for_file(path: Path) -> None:
    until = monotonic() + LIMIT
    while not path.exists():
        assert monotonic() < until
        sleep(0.02)


def test_deaths_while_a_message_waits_are_not_its_fault(tmp_path: Path) -> None:
    """It has not begun, so it is started again, however often its process dies."""
    log, worker = SQLiteStreamLog(tmp_path / "log.db"), Worker()
    app = AgentApp(worker, log=log, durable=True, on_busy="wait")

    async def restarts(stream_id: UUID) -> Restarts:
        while not (notes := await log.journal(stream_id, 0)):  # noqa: ASYNC110 - the test has a limit
            await asyncio.sleep(0.01)
        return Journal(map(parse_note, notes)).restarts

    with running(app) as server, ThreadPoolExecutor(2) as threads:
        peer = Peer(server.url)
        sent = later(threads, peer, "hold")
        worker.gate.seen()
        assert app._runtime is not None
        with peer.open(envelope("a")) as waiting:
            looked = asyncio.run_coroutine_threadsafe(
                restarts(UUID(waiting.stream_id)), app._runtime.loop
            ).result(LIMIT)
            worker.gate.open()
            waiting.rest()
        sent[0].result(LIMIT)
        peer.close()
    assert looked.handed_over
    assert looked.may_start(0)


class Away(SQLiteStreamLog):
    """A log of which one use by an agent fails, the `left`-th one; if it is `done`, after that."""

    left = 0
    done = False

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in {"add_turn", "turns", "meta", "request_cancel"} or current_stream() is None:
            return value
        return self.failing(value)

    def failing(self, method: Any) -> Any:
        async def call(*given: Any) -> Any:
            self.left -= 1
            if self.left:
                return await method(*given)
            if self.done:
                await method(*given)
            raise LogUnavailable("not now")

        return call


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("kind", ["alone", "wait", "interrupt"])
def test_a_waiting_message_outlives_an_error_of_the_log(
    serve: Serve, kind: str, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each use of the log until its agent begins fails once: nothing has run, so it waits on."""
    monkeypatch.setattr(_order, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(_writer, "_LOG_POLL", 0.01)
    log = Away(tmp_path / "log.db")
    log.done = done
    monkeypatch.setattr(log.tasks, "start", log.failing(log.tasks.start))
    gate, ran = Gate(), list[str]()
    is_over = False

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        nonlocal is_over
        if stream.question == "hold":
            await gate.wait()
            return
        is_over, log.left = log.left > 0 or len(ran) > 6, 0
        ran.append(request.context.session_id)

    peer = serve(agent, log=log, on_busy="interrupt" if kind == "interrupt" else "wait")
    sessions: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        while not is_over:
            sessions.append(f"{len(sessions)}")
            if kind != "alone":
                gate = Gate()
                threads.submit(peer.ask, envelope("hold", sessions[-1]))
                gate.seen()
            log.left = len(sessions)
            with peer.open(envelope("a", sessions[-1])) as answer:
                if kind == "wait":
                    wait_until(lambda: log.left <= 0)
                gate.open()
                assert answer.rest().last.p == {"reason": "complete"}
    assert ran == sessions
    assert len(ran) > 3


def wait_until(condition: Callable[[], bool]) -> None:
    until = monotonic() + LIMIT
    while not condition():
        assert monotonic() < until
        sleep(0.01)


def test_a_drain_ends_an_agent_that_another_process_could_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has recorded that the agent is started, and has not answered yet."""
    start, stored = SQLiteTasks.start, threading.Event()

    async def never_answers(*given: Any) -> None:
        await start(*given)
        stored.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SQLiteTasks, "start", never_answers)
    log = SQLiteStreamLog(tmp_path / "log.db")
    with running(AgentApp(Worker(), log=log, on_busy="wait", drain_timeout=0.0)) as server:
        peer = Peer(server.url)
        with peer.open(envelope("a")) as answer:
            wait_for(stored)
    peer.close()

    async def outcome() -> str | None:
        await log.start("me")
        ended = (await log.meta(UUID(answer.stream_id))).outcome
        await log.stop("me")
        return ended

    assert asyncio.run(outcome()) == "server_stopped"


def test_an_agent_whose_process_claims_its_own_waiting_stream_is_started_once(
    tmp_path: Path,
) -> None:
    """The claim ends the earlier producer of the stream, which must not forget the new one."""
    log, worker = SQLiteStreamLog(tmp_path / "log.db"), Worker()
    app = AgentApp(worker, log=log, on_busy="wait")
    body = envelope("a")

    async def claim(stream_id: UUID) -> bytes:
        assert app._runtime is not None
        runtime = app._runtime
        earlier = runtime.producers.get(stream_id)
        assert earlier is not None
        meta = await log.meta(stream_id)
        request = ServiceRequest.model_validate(body)
        question = dump_request(meta.principal, request, {}, waits=True)
        claimed = await log.claim_held(stream_id, meta.epoch, runtime.owner)
        assert await runtime.producers.start_waiting(replace(claimed, question=question))
        await asyncio.wait({earlier.task}, timeout=LIMIT)
        worker.gate.open()
        return question

    with running(app) as server, ThreadPoolExecutor(1) as threads:
        peer = Peer(server.url)
        [held] = later(threads, peer, "hold")
        worker.gate.seen()
        with (
            peer.open(body) as waiting,
            patch.object(
                SQLiteTasks, "start", autospec=True, side_effect=SQLiteTasks.start
            ) as start,
        ):
            assert app._runtime is not None
            asyncio.run_coroutine_threadsafe(
                claim(UUID(waiting.stream_id)), app._runtime.loop
            ).result(LIMIT)
            assert waiting.rest().text.startswith("a after")
        held.result(LIMIT)
        peer.close()
    assert [str(call.args[1]) for call in start.call_args_list] == [waiting.stream_id]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ArgumentError, match="on_busy must be one of parallel, wait, reject"):
        AgentApp(Worker(), on_busy="later")  # type: ignore[arg-type]
