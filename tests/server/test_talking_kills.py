"""Kill -9 before each write to the log: answers, messages and turns arrive once, in order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from tests.preloaded import PROJECT, PipedProcess

from .peer import LIMIT, Answer, Peer, envelope
from .test_inbox import send

PROGRAM = """
import asyncio, os, pathlib, signal, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running

kind, place, effects, deaths = sys.argv[1:]
left = int(deaths)
WRITES = {"open", "append", "begin_append", "close", "add_turn", "tasks"}

class Mortal(SQLiteStreamLog):
    def __getattribute__(self, name):
        global left
        if name in WRITES and left:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)

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

async def taking_turns(request, stream):
    note(stream.question)
    earlier = [message.text for message in await stream.history()]
    await stream.write(f"{stream.question} after {earlier}")
    while stream.question == "first" and not pathlib.Path(f"{effects}-gate").exists():
        await asyncio.sleep(0.01)

agents = {"approval": approving, "inbox": listening}
app = AgentApp(
    agents.get(kind, taking_turns), log=Mortal(place), durable=kind != "turns-plain",
    inbox=kind == "inbox", on_busy="wait" if kind.startswith("turns") else "parallel",
    agent_id="a", version="1", drain_timeout=0.0, cancel_grace=0.1,
)
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class Case:
    """What a client does, with requests and messages that it repeats after a death."""

    def __init__(self, folder: Path) -> None:
        self.effects = folder / "effects"
        self.effects.touch()
        self.bodies = [envelope(text) for text in self.texts]

    texts: Sequence[str]

    def act(self, peer: Peer) -> list[Answer]:
        """Return the answers; sends everything, whether or not it was sent before."""
        raise NotImplementedError

    def check(self, answers: list[Answer]) -> None:
        """Check that everything was delivered once, in order."""
        raise NotImplementedError

    @property
    def done(self) -> list[str]:
        """What the agents have done, in all processes."""
        return self.effects.read_text().splitlines()


class Approval(Case):
    """A question, and the answer to it."""

    texts = ("go", "yes")

    def act(self, peer: Peer) -> list[Answer]:
        return [peer.ask(body) for body in self.bodies]

    def check(self, answers: list[Answer]) -> None:
        asked, answered = answers
        assert asked.text == 'planned. May I call pay with {"euros":40}?'
        assert asked.last.p["reason"] == "input_required"
        if answered.last.op == "ERROR":  # nobody knows whether the call took effect
            assert answered.last.p.code == "step_uncertain"
            assert self.done in ([], ["pay True"])
        else:
            assert (answered.text, self.done) == ("paid.", ["pay True"])


class Inbox(Case):
    """Messages to an agent that repeats them."""

    texts = ("listen",)

    def act(self, peer: Peer) -> list[Answer]:
        with peer.open(self.bodies[0]) as answer:
            answer.until(1)
            for word in ("a", "b", "stop"):
                assert send(peer, answer.stream_id, word).status_code == 202
            return [answer.rest()]

    def check(self, answers: list[Answer]) -> None:
        assert answers[0].text == "ready a b stop "
        assert answers[0].last.p == {"reason": "complete"}


class Turns(Case):
    """Two messages that wait for the one before them."""

    texts = ("first", "second", "third")

    def act(self, peer: Peer) -> list[Answer]:
        for body in self.bodies:
            with peer.open(body) as answer:
                assert answer.status == 200
        self.effects.with_name("effects-gate").touch()
        return [peer.ask(body) for body in self.bodies]

    def check(self, answers: list[Answer]) -> None:
        said: list[str] = []
        for text, answer in zip(self.texts, answers, strict=True):
            assert (answer.text, answer.last.op) == (f"{text} after {said}", "CLOSE")
            said += [text, answer.text]
        assert sorted(set(self.done), key=self.done.index) == [*self.texts]


class PlainTurns(Turns):
    """Turns of an agent that is not durable: one that has begun may be lost."""

    def check(self, answers: list[Answer]) -> None:
        for text, answer in zip(self.texts, answers, strict=True):
            assert self.done.count(text) <= 1
            if answer.last.op == "CLOSE":
                assert self.done.count(text) == 1
                assert answer.text.startswith(f"{text} after ")
            else:
                assert answer.last.p.code == "producer_lost"
        assert self.done == [text for text in self.texts if text in self.done]
        assert sum(answer.last.op == "ERROR" for answer in answers) <= 1


CASES: dict[str, Callable[[Path], Case]] = {
    "approval": Approval,
    "inbox": Inbox,
    "turns-durable": Turns,
    "turns-plain": PlainTurns,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", list(CASES))
def test_each_is_delivered_once_wherever_the_process_dies(kind: str, tmp_path: Path) -> None:
    deaths, lived = 0, False
    while not lived:
        deaths += 1
        assert deaths < 100
        folder = tmp_path / str(deaths)
        folder.mkdir()
        case = CASES[kind](folder)
        with _process(kind, folder, deaths) as peer, suppress(httpx2.TransportError, IndexError):
            case.act(peer)
            lived = True
        with _process(kind, folder, 0) as peer:
            case.check(case.act(peer))
    assert deaths > 8


@contextmanager
def _process(kind: str, folder: Path, deaths: int) -> Iterator[Peer]:
    """Run a server that dies before so many writes, counted from 1; 0 lets it live."""
    arguments = [kind, str(folder / "log.db"), str(folder / "effects"), str(deaths)]
    process = PipedProcess(["-c", PROGRAM, *arguments], libraries=PROJECT)
    try:
        url = process.line()
        if url:  # otherwise it has died before
            peer = Peer(url)
            yield peer
            peer.close()
        else:
            yield Peer("http://127.0.0.1:9")
    finally:
        process.close(LIMIT)
