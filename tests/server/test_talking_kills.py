"""Kill -9 before each write to the log: answers, messages and turns arrive once, in order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import product
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple, Protocol

import httpx2
import pytest

from tests.preloaded import PROJECT, PipedProcess

from .peer import LIMIT, Peer, envelope
from .test_inbox import send

# Many processes are started, so they import nothing themselves.
LIBRARIES = (
    *PROJECT,
    *("coreason_client.server.a2a._cards", "coreason_client.server.a2a._routes"),
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop"),
    *("uvicorn.protocols.http.httptools_impl", "uvicorn.protocols.websockets.auto"),
)
PROGRAM = """
import asyncio, os, pathlib, signal, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running
from coreason_client.server.log._worker import SharedWorker

door, kind, place, effects, deaths = sys.argv[1:]
left = int(deaths)
submit = SharedWorker.submit

def mortal_submit(worker, run, after=None):
    def mortal_run(db):
        global left
        before = db.total_changes, db.staged.count
        result = run(db)
        if (db.total_changes, db.staged.count) != before:
            left -= 1
            if not left:  # it is not committed
                os.kill(os.getpid(), signal.SIGKILL)
        return result

    return submit(worker, mortal_run, after)

SharedWorker.submit = mortal_submit

if kind == "turns-late":  # what a dead process has begun is continued once all messages are sent
    claim_durable = SQLiteStreamLog.claim_durable

    async def late_claim(log, *given):
        is_open = pathlib.Path(f"{effects}-gate").exists()
        return await claim_durable(log, *given) if is_open else []

    SQLiteStreamLog.claim_durable = late_claim

def note(text):
    with open(effects, "a") as file:
        file.write(f"{text}\\n")

async def approving(request, stream):
    await stream.write("planned. ")
    answered = await stream.approve("pay", {"euros": 40})
    await stream.step("pay", note, f"pay {answered.approved}", on_restart="fail")
    await stream.write("paid.")

async def listening(request, stream):
    await stream.write("ready ")
    async for message in stream.inbox:
        await stream.write(f"{message.text} ")
        if message.text == "stop":
            return

async def asking(request, stream):
    async for message in stream.inbox:
        break
    answered = await stream.approve("pay", {"for": message.text})
    await stream.step("pay", note, f"pay for {message.text}: {answered.approved}")
    await stream.write("paid.")

async def taking_turns(request, stream):
    note(stream.question)
    earlier = [message.text for message in await stream.history()]
    await stream.write(f"{stream.question} after {earlier}")
    while stream.question == "first" and not pathlib.Path(f"{effects}-gate").exists():
        await asyncio.sleep(0.01)

agents = {"approval": approving, "inbox": listening, "inbox-approval": asking}
app = AgentApp(
    agents.get(kind, taking_turns), log=SQLiteStreamLog(place), durable=kind != "turns-plain",
    inbox=kind.startswith("inbox"), on_busy="wait" if kind.startswith("turns") else "parallel",
    agent_id="a", version="1", drain_timeout=0.0, cancel_grace=0.1, a2a=door == "a2a",
)
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class Reply(NamedTuple):
    """An answer: its text with the question at its end, and `complete` or why it ended."""

    text: str
    end: str


class Door(Protocol):
    """What a client does over one protocol. It can do everything again after a death."""

    def begin(self, peer: Peer, text: str) -> None:
        """Send a message that begins an answer; do not wait for that."""

    def tell(self, peer: Peer, text: str, word: str) -> None:
        """Send a word to the agent that answers a message."""

    def read(self, peer: Peer, text: str) -> Reply:
        """Wait for the answer to a message that was sent with `begin`."""

    def ask(self, peer: Peer, text: str, answers: str = "") -> Reply:
        """Send a message, perhaps the answer to the question of another one, and wait."""


class CAP:
    """The protocol of the streams."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._bodies = {text: envelope(text) for text in texts}
        self._streams: dict[str, str] = {}

    def begin(self, peer: Peer, text: str) -> None:
        with peer.open(self._bodies[text]) as answer:
            assert answer.status == 200
            self._streams[text] = answer.stream_id

    def tell(self, peer: Peer, text: str, word: str) -> None:
        assert send(peer, self._streams[text], word).status_code == 202

    def read(self, peer: Peer, text: str) -> Reply:
        return self.ask(peer, text)

    def ask(self, peer: Peer, text: str, answers: str = "") -> Reply:
        answer = peer.ask(self._bodies[text])
        last = answer.last
        return Reply(answer.text, last.p.code if last.op == "ERROR" else last.p["reason"])


class A2A:
    """Tasks: a message begins one, or belongs to that of another message."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._tasks: dict[str, str] = {}

    def begin(self, peer: Peer, text: str) -> None:
        self._tasks[text] = self._send(peer, _message(text, returnImmediately=True))["id"]

    def tell(self, peer: Peer, text: str, word: str) -> None:
        self._send(peer, _message(word, self._tasks[text], returnImmediately=True))

    def read(self, peer: Peer, text: str) -> Reply:
        while True:
            task = peer.http.get(f"/a2a/tasks/{self._tasks[text]}", headers=_VERSION).json()
            if task["status"]["state"] in _ENDS:
                return _reply_in(task)
            sleep(0.01)

    def ask(self, peer: Peer, text: str, answers: str = "") -> Reply:
        task = self._send(peer, _message(text, self._tasks.get(answers)))
        self._tasks[text] = task["id"]
        return _reply_in(task, further=bool(answers))

    def _send(self, peer: Peer, message: dict[str, Any]) -> Any:
        response = peer.http.post("/a2a/message:send", **message)
        assert response.status_code == 200, response.text
        return response.json()["task"]


_VERSION = {"A2A-Version": "1.0"}


def _message(text: str, task_id: str | None = None, **configuration: bool) -> dict[str, Any]:
    ids = {"contextId": "s"} if task_id is None else {"taskId": task_id}
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **ids}
    body = {"message": message, "configuration": configuration}
    return {"json": body, "headers": _VERSION}


def _reply_in(task: dict[str, Any], *, further: bool = False) -> Reply:
    """Return the answer of the first turn of a task, or of a further one."""
    end = _ENDS[task["status"]["state"]]
    said = [*task["history"], task["status"].get("message", {})]
    if not further and len([one for one in said if one.get("role") == "ROLE_USER"]) > 1:
        end = "input_required"
    found = [(one["artifactId"], one["parts"]) for one in task.get("artifacts", ())]
    if end == "input_required":
        asked = (one for one in said if one.get("role") == "ROLE_AGENT")
        found += [(one["messageId"], one["parts"]) for one in asked]
    texts = [
        part["text"]
        for name, parts in found
        for part in parts
        if name.startswith(task["id"]) is not further
    ]
    return Reply("".join(texts), end)


_ENDS = {
    "TASK_STATE_COMPLETED": "complete",
    "TASK_STATE_INPUT_REQUIRED": "input_required",
    "TASK_STATE_FAILED": "failed",
}


class Case:
    """What a client does, with requests and messages that it repeats after a death."""

    texts: Sequence[str]

    def __init__(self, folder: Path, door: Callable[[Sequence[str]], Door]) -> None:
        self.effects = folder / "effects"
        self.effects.touch()
        self.door = door(self.texts)

    def act(self, peer: Peer) -> list[Reply]:
        """Return the answers; sends everything, whether or not it was sent before."""
        raise NotImplementedError

    def check(self, replies: list[Reply]) -> None:
        """Check that everything was delivered once, in order."""
        raise NotImplementedError

    @property
    def done(self) -> list[str]:
        """What the agents have done, in all processes."""
        return self.effects.read_text().splitlines()


class Approval(Case):
    """A question, and the answer to it."""

    texts = ("go", "yes")

    def act(self, peer: Peer) -> list[Reply]:
        return [self.door.ask(peer, "go"), self.door.ask(peer, "yes", answers="go")]

    def check(self, replies: list[Reply]) -> None:
        asked, answered = replies
        question = 'planned. May I call pay with {"euros":40}?'
        assert asked == (question, "input_required")
        if answered.end in ("step_uncertain", "failed"):  # nobody knows whether it took effect
            assert self.done in ([], ["pay True"])
        else:
            assert (answered, self.done) == (("paid.", "complete"), ["pay True"])


class Inbox(Case):
    """Messages to an agent that repeats them."""

    texts = ("listen",)

    def act(self, peer: Peer) -> list[Reply]:
        self.door.begin(peer, "listen")
        for word in ("a", "b", "stop"):
            self.door.tell(peer, "listen", word)
        return [self.door.read(peer, "listen")]

    def check(self, replies: list[Reply]) -> None:
        assert replies == [("ready a b stop ", "complete")]


class InboxApproval(Case):
    """A message to an agent, sent again after it has asked, and the answer to its question."""

    texts = ("go", "no")

    def act(self, peer: Peer) -> list[Reply]:
        self.door.begin(peer, "go")
        self.door.tell(peer, "go", "yes")
        asked = self.door.read(peer, "go")
        self.door.tell(peer, "go", "yes")
        return [asked, self.door.ask(peer, "no", answers="go")]

    def check(self, replies: list[Reply]) -> None:
        asked = ('May I call pay with {"for":"yes"}?', "input_required")
        assert replies == [asked, ("paid.", "complete")]
        assert set(self.done) == {"pay for yes: False"}


class Turns(Case):
    """Two messages that wait for the one before them."""

    texts = ("first", "second", "third")

    def act(self, peer: Peer) -> list[Reply]:
        for text in self.texts:
            self.door.begin(peer, text)
        self.effects.with_name("effects-gate").touch()
        return [self.door.read(peer, text) for text in self.texts]

    def check(self, replies: list[Reply]) -> None:
        said: list[str] = []
        for text, reply in zip(self.texts, replies, strict=True):
            assert reply == (f"{text} after {said}", "complete")
            said += [text, reply.text]
        assert sorted(set(self.done), key=self.done.index) == [*self.texts]


class PlainTurns(Turns):
    """Turns of an agent that is not durable: one that has begun may be lost."""

    def check(self, replies: list[Reply]) -> None:
        for text, reply in zip(self.texts, replies, strict=True):
            assert self.done.count(text) <= 1
            if reply.end == "complete":
                assert self.done.count(text) == 1
                assert reply.text.startswith(f"{text} after ")
            else:
                assert reply.end in ("producer_lost", "failed")
        assert self.done == [text for text in self.texts if text in self.done]
        assert sum(reply.end != "complete" for reply in replies) <= 1


DOORS: dict[str, Callable[[Sequence[str]], Door]] = {"cap": CAP, "a2a": A2A}
CASES: dict[str, Callable[..., Case]] = {
    "approval": Approval,
    "inbox": Inbox,
    "inbox-approval": InboxApproval,
    "turns-durable": Turns,
    "turns-late": Turns,
    "turns-plain": PlainTurns,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("door", "kind"), list(product(DOORS, CASES)))
def test_each_is_delivered_once_wherever_the_process_dies(
    door: str, kind: str, tmp_path: Path
) -> None:
    deaths, lived = 0, False
    while not lived:
        deaths += 1
        assert deaths < 100
        folder = tmp_path / str(deaths)
        folder.mkdir()
        case = CASES[kind](folder, DOORS[door])
        with (
            _process(door, kind, folder, deaths) as peer,
            suppress(httpx2.TransportError, IndexError),
        ):
            case.act(peer)
            lived = True
        with _process(door, kind, folder, 0) as peer:
            case.check(case.act(peer))
    assert deaths > 8


@contextmanager
def _process(door: str, kind: str, folder: Path, deaths: int) -> Iterator[Peer]:
    """Run a server that dies before so many writes, counted from 1; 0 lets it live."""
    paths = str(folder / "log.db"), str(folder / "effects")
    arguments = [door, kind, *paths, str(deaths)]
    process = PipedProcess(["-c", PROGRAM, *arguments], libraries=LIBRARIES)
    try:
        url = process.line() or "http://127.0.0.1:9"  # where nobody is: it has died before
        with closing(Peer(url)) as peer:
            yield peer
    finally:
        process.close(LIMIT)
