"""Messages that an agent did not read: with on_busy="wait" they are the next turn."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from coreason_client import CAPClient
from coreason_client._context import current_stream
from coreason_client.server import (
    AgentStream,
    InboxMessage,
    LogUnavailable,
    ServiceRequest,
    SQLiteStreamLog,
)
from coreason_client.server._names import ANONYMOUS, full_principal
from coreason_client.server.durable._notes import Started, dump_note
from coreason_client.server.engine import _order, _writer
from coreason_client.server.engine._conversation import (
    dump_mark,
    dump_request,
    thread_of,
    unread_turn,
)
from coreason_client.server.engine._inbox import InboxStore
from coreason_client.server.engine._order import place_of
from coreason_client.server.log import NewStream
from coreason_client.server.log._sql_tasks import SQLiteTasks
from coreason_client.server.log.base import AgentVersion, Notes
from tests.preloaded import PROJECT, PipedProcess

from .conftest import Serve
from .durable.crash import replica
from .log.backends import BACKENDS, Clock
from .peer import LIMIT, Answer, Peer, envelope, wait_for
from .test_inbox import send

LOGS = ["sqlite", "valkey", "valkey-cluster", "postgres"]


class Deaf:
    """An agent that answers "first" without reading its inbox; `ends` says how."""

    def __init__(self, ends: str = "returns") -> None:
        self.ends = ends
        self.go_on = threading.Event()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        earlier = [message.text for message in await stream.history()]
        await stream.write(f"{[one.text for one in request.payload.messages or []]}")
        await stream.write(f" after {earlier}")
        if stream.question == "first":
            await asyncio.to_thread(wait_for, self.go_on)
            if self.ends == "raises":
                raise ValueError("as told")
            if self.ends == "asks":
                await stream.ask("More?")


def read(peer: Peer, stream_id: str) -> Answer:
    response = peer.http.get(f"/streams/{stream_id}")
    answer = Answer(response)
    answer._take(response.content)
    return answer


def end_of(answer: Answer) -> dict[str, Any]:
    p = answer.last.p
    if isinstance(p, str):
        return {"reason": p}
    return dict(p) if isinstance(p, dict) else {"code": p.code, **(p.details or {})}


def ask_and_tell(peer: Peer, deaf: Deaf, *words: str) -> Answer:
    """Ask, send messages to the running agent, and read its answer to the end."""
    with peer.open(envelope("first")) as answer:
        answer.until(2)
        for word in words:
            assert send(peer, answer.stream_id, word).status_code == 202
        deaf.go_on.set()
        return answer.rest()


@pytest.mark.parametrize("ends", ["returns", "raises"])
@pytest.mark.parametrize(("log", "durable"), [("memory", False), *product(LOGS, [False, True])])
def test_unread_messages_are_the_next_turn(
    serve: Serve, log: str, durable: bool, ends: str, tmp_path: Path
) -> None:
    deaf = Deaf(ends)
    store = BACKENDS[log](Clock(), tmp_path)
    peer = serve(deaf, log=store, inbox=True, on_busy="wait", durable=durable)
    first = ask_and_tell(peer, deaf, "a", "b")
    end = end_of(first)
    assert end["not_delivered"] == ["a", "b"]
    following = read(peer, end["next_stream"])
    said = "['first'] after []"
    assert following.text == f"['a', 'b'] after {['first', said]}"
    assert end_of(following) == {"reason": "complete"}
    later = peer.ask(envelope("later"))
    assert later.text == f"['later'] after {['first', said, 'a', 'b', following.text]}"


def test_a_follower_of_the_conversation_gets_the_turn(serve: Serve) -> None:
    deaf = Deaf()
    peer = serve(deaf, inbox=True, on_busy="wait")
    session = envelope()["context"]["session_id"]
    with CAPClient(str(peer.http.base_url), "k") as client:
        chat = client.chat("zero", session)
        assert "".join(chat) == "['zero'] after []"
        ask_and_tell(peer, deaf, "a")
        ends: list[Any] = []
        with client.follow_conversation(session, chat.position) as following:
            while len(ends) < 2:
                packet = next(following)
                ends += [packet.p] if packet.op == "CLOSE" else []
    assert ends[0]["not_delivered"] == ["a"]
    assert ends[1] == {"reason": "complete"}


@pytest.mark.parametrize("policy", ["parallel", "reject", "interrupt"])
def test_other_policies_only_name_them(serve: Serve, policy: Any) -> None:
    deaf = Deaf()
    peer = serve(deaf, inbox=True, on_busy=policy)
    assert end_of(ask_and_tell(peer, deaf, "a")) == {"reason": "complete", "not_delivered": ["a"]}


def test_a_message_before_a_question_does_not_answer_it(serve: Serve) -> None:
    deaf = Deaf("asks")
    peer = serve(deaf, inbox=True, on_busy="wait")
    end = end_of(ask_and_tell(peer, deaf, "no"))
    assert end == {"reason": "input_required", "question": "More?", "not_delivered": ["no"]}


@pytest.mark.parametrize("way", ["read", "used up"])
def test_an_agent_that_goes_on_in_another_process_decides(
    serve: Serve, way: str, tmp_path: Path
) -> None:
    """A process opened the turn, and died before its end was stored.

    If the restarted agent reads the message, the turn has nothing to do. If the agent may not be
    restarted again, the turn has the message, and another one that came later.
    """
    stream_id, body = uuid4(), ServiceRequest.model_validate(envelope("first"))
    version, principal = AgentVersion("a", "1"), full_principal("a", ANONYMOUS)
    turn = unread_turn(body, stream_id)

    async def leave_behind() -> None:
        log = SQLiteStreamLog(tmp_path / "log.db")
        await log.start("me")
        place = place_of(principal, thread_of(body))
        for id_, asked in ((stream_id, body), (turn.request_id, turn)):
            question = dump_request(principal, asked, {})
            new = NewStream(id_, principal, asked.request_id, "f", question, version)
            opened = await log.open(new, "me")
            await log.add_turn(place, id_, dump_mark("stream", id_.hex))
            if id_ == stream_id:
                store = InboxStore(log, opened.meta)
                await store.put(InboxMessage("1", "stop"))
                await store.seal()
                notes = [dump_note(Started(2, 0)), dump_note(Started(3, 0))]
                if way == "used up":
                    await log.append(id_, 1, 1, [], Notes(1, notes))
            await log.release(id_, 1)
        await log.stop("me")

    asyncio.run(leave_behind())
    known = {"agent_id": version.agent_id, "version": version.version, "max_restarts": 1}
    log = SQLiteStreamLog(tmp_path / "log.db")
    peer = serve(listening, log=log, durable=True, inbox=True, on_busy="wait", **known)
    first, following = read(peer, str(stream_id)), read(peer, str(turn.request_id))
    if way == "read":
        assert (first.text, end_of(first)) == ("first stop", {"reason": "bye"})
        assert (following.text, end_of(following)) == ("", {"code": "cancelled"})
    else:
        names = {"not_delivered": ["1"], "next_stream": str(turn.request_id)}
        assert end_of(first) == {"code": "producer_lost", **names}
        assert (following.text, end_of(following)) == ("stop", {"reason": "complete"})


class Away(SQLiteStreamLog):
    """A log of which one use fails: the `left`-th one; `done` says if it took effect all the same.

    Uses that describe or read a stream count only for agents.
    """

    left = 0
    done = False

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        counts = name in {"open", "close", "add_turn", "turns", "claim_held"}
        if counts or (name in {"meta", "follow"} and current_stream() is not None):
            self.left -= 1
            if not self.left:
                return refusing(value, done=self.done and name != "follow")
        return value


def refusing(method: Any, *, done: bool) -> Any:
    async def call(*given: Any) -> Any:
        if done:
            await method(*given)
        raise LogUnavailable("not now")

    def refuse(*_: Any) -> Any:
        raise LogUnavailable("not now")

    return call if asyncio.iscoroutinefunction(method) else refuse


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_the_turn_is_answered_if_the_log_fails_once(
    serve: Serve, ends: str, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each use of the log fails, from the end of the first agent to the start of the next one."""
    monkeypatch.setattr(_order, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(_writer, "_LOG_POLL", 0.01)
    number = 1
    while _fails_at(number, serve, ends, done, tmp_path):
        number += 1
    assert number > 8


def _fails_at(number: int, serve: Serve, ends: str, done: bool, folder: Path) -> bool:
    """Return True if the log has failed before the next agent began."""
    deaf, log = Deaf(ends), Away(folder / f"{number}.db", lease=0.4)
    log.done = done
    has_failed = False

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        nonlocal has_failed
        if stream.question != "first":
            has_failed, log.left = log.left <= 0, 0
        await deaf(request, stream)

    peer = serve(agent, log=log, inbox=True, on_busy="wait")
    with peer.open(envelope("first")) as begun:
        begun.until(2)
        for word in "ab":
            assert send(peer, begun.stream_id, word).status_code == 202
        log.left = number
        deaf.go_on.set()
        with suppress(httpx2.TransportError):  # it leaves if the end cannot be written
            begun.rest()
    end = end_of(read_to_end(peer, begun.stream_id))
    assert end["not_delivered"] == ["a", "b"]
    following = read_to_end(peer, end["next_stream"])
    earlier = [["first", "['first'] after []"]]
    if ends == "raises":  # such an end does not wait until its turn is stored
        earlier.append([])
    assert following.text in [f"['a', 'b'] after {turns}" for turns in earlier]
    assert end_of(following) == {"reason": "complete"}
    return has_failed


def read_to_end(peer: Peer, stream_id: str) -> Answer:
    """Return a whole answer; it may end only when the log works again."""
    until = monotonic() + LIMIT
    while monotonic() < until:
        with suppress(httpx2.TransportError):
            answer = read(peer, stream_id)
            if answer.status == 200 and answer.last.is_last:
                return answer
        sleep(0.05)
    raise TimeoutError(stream_id)


@pytest.mark.parametrize("durable", [False, True])
def test_its_messages_outlive_the_stream_to_which_they_were_sent(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn waits for another answer until that stream is dropped; then its process dies."""
    path, gates = tmp_path / "log.db", {"first": threading.Event(), "other": threading.Event()}

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        words = " ".join(one.text for one in request.payload.messages or [])
        await stream.write(words)
        if words in gates:
            await asyncio.to_thread(wait_for, gates[words])

    async def drop_what_has_ended() -> None:
        log = SQLiteStreamLog(path)
        await log.start("cleaner")
        await log.expire(0, 0)
        await log.stop("cleaner")

    start, stored = SQLiteTasks.start, threading.Event()

    async def start_and_tell(tasks: SQLiteTasks, id_: UUID, epoch: int, question: bytes) -> None:
        await start(tasks, id_, epoch, question)
        if b"postscript" in question:
            stored.set()

    monkeypatch.setattr(SQLiteTasks, "start", start_and_tell)
    options: dict[str, Any] = {"durable": durable, "inbox": True, "on_busy": "wait"}
    options |= {"agent_id": "a", "version": "1"}
    with replica(path, agent, **options) as before:
        with before.peer.open(envelope("first")) as answer:
            answer.until(1)
            with before.peer.open(envelope("other")):
                pass
            assert send(before.peer, answer.stream_id, "postscript").status_code == 202
            gates["first"].set()
            answer.rest()
        turn = end_of(answer)["next_stream"]
        wait_for(stored)
        before.die()
        gates["other"].set()
    asyncio.run(drop_what_has_ended())
    with replica(path, agent, **options) as after:
        assert after.peer.http.get(f"/streams/{answer.stream_id}").status_code == 404
        following = read(after.peer, turn)
    assert (following.text, end_of(following)) == ("postscript", {"reason": "complete"})


async def listening(_: ServiceRequest, stream: AgentStream) -> None:
    await stream.write(stream.question)
    if stream.question == "first":
        message = await anext(stream.inbox)
        await stream.write(f" {message.text}")
        await stream.write_packet("CLOSE", "bye")


PROGRAM = """
import asyncio, os, pathlib, signal, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running

place, ran, gate, durable, deaths = sys.argv[1:]
left, gate = int(deaths), pathlib.Path(gate)
CALLS = {"open", "append", "begin_append", "close", "add_turn", "tasks", "meta", "turns", "follow"}

class Mortal(SQLiteStreamLog):
    def __getattribute__(self, name):
        global left
        if name in CALLS and left and gate.exists():
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)

async def agent(request, stream):
    words = " ".join(one.text for one in request.payload.messages)
    await stream.write(f"{words} ")
    with open(ran, "a") as file:
        file.write(f"{words}\\n")
    while words == "first" and not gate.exists():
        await asyncio.sleep(0.01)
    await stream.write("done")

app = AgentApp(
    agent, log=Mortal(place), durable=durable == "durable", on_busy="wait", inbox=True,
    agent_id="a", version="1", drain_timeout=0.0, cancel_grace=0.1,
)
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["durable", "plain"])
def test_the_turn_is_answered_once_wherever_its_process_dies(kind: str, tmp_path: Path) -> None:
    """Killed before each use of the log, from the end of the first agent to that of the turn."""
    deaths, outcomes = 0, list[str]()
    while not outcomes or outcomes[-1] != "lived":
        deaths += 1
        assert deaths < 100
        folder = tmp_path / str(deaths)
        folder.mkdir()
        outcomes.append(_run_and_kill(folder, kind, deaths))
    assert outcomes.count("answered") > 5


def _run_and_kill(folder: Path, kind: str, deaths: int) -> str:
    gate, ran = folder / "gate", folder / "ran"
    arguments = ["-c", PROGRAM, str(folder / "log.db"), str(ran), str(gate), kind]
    body = envelope("first")
    with _process([*arguments, str(deaths)]) as peer:
        lived = _first_process(peer, body, gate)
    with _process([*arguments, "0"]) as peer:
        first = peer.ask(body)
        named = end_of(first).get("next_stream")
        following = read(peer, named) if named else None
    runs = ran.read_text().splitlines()
    if kind == "durable":
        assert (first.text, following and following.text) == ("first done", "a b done")
        return "lived" if lived else "answered"
    if following is None:  # it died before its end was stored
        assert (end_of(first)["code"], runs) == ("producer_lost", ["first"])
        return "lost"
    if end_of(following).get("code") == "producer_lost":  # after its agent was started
        assert runs in (["first"], ["first", "a b"])
        return "lost"
    assert (runs, following.text) == (["first", "a b"], "a b done")
    return "lived" if lived else "answered"


@contextmanager
def _process(arguments: list[str]) -> Iterator[Peer]:
    process = PipedProcess(arguments, libraries=PROJECT)
    try:
        peer = Peer(process.line())
        yield peer
        peer.close()
    finally:
        process.close(LIMIT)


def _first_process(peer: Peer, body: dict[str, Any], gate: Path) -> bool:
    """Return True if the process has lived to the end of both answers."""
    try:
        with peer.open(body) as answer:
            answer.until(1)
            for word in ("a", "b"):
                assert send(peer, answer.stream_id, word).status_code == 202
            gate.touch()
            answer.rest()
        read(peer, end_of(answer)["next_stream"])
    except (httpx2.TransportError, IndexError, KeyError):
        return False
    return True
