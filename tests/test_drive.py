"""The two shells take the same steps and give the same results; one is generated from the other."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import (
    MAX_BODY_BYTES,
    Action,
    BodyTooLarge,
    Flow,
    Reply,
    ReplyBody,
    SideCall,
    Step,
    Wait,
)
from coreason_client._drive_async import drive_async, run_async
from coreason_client._drive_sync import drive, run
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    Timeouts,
    TransportFailure,
)

WAYS = pytest.mark.parametrize("way", ["sync", "async"])
REQUEST = Request("GET", "http://agent.example/", {})
BROKEN = TransportFailure(FailureKind.BROKEN, "reset")


@dataclass
class Answer:
    """The response of a sender to a request; None means no response at all."""

    status: int = 200
    chunks: tuple[bytes, ...] = ()
    broken: bool = False


@dataclass
class Network:
    """Answers requests from a list and keeps what was done, for both senders."""

    answers: list[Answer | None]
    log: list[str] = field(default_factory=list)

    def take(self) -> Answer:
        self.log.append("open")
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            raise BROKEN
        return answer


class SyncResponse:
    def __init__(self, network: Network, answer: Answer) -> None:
        self._network, self._answer = network, answer
        self.head = ResponseHead(answer.status, Headers([]))

    def chunks(self) -> Generator[bytes]:
        yield from self._answer.chunks
        if self._answer.broken:
            raise BROKEN

    def collect(self, add: Callable[[bytes], None]) -> None:
        for chunk in self.chunks():
            add(chunk)

    def read(self, limit: int) -> bytes:
        self._network.log.append(f"read {limit}")
        return b"".join(self._answer.chunks)[:limit]

    def close(self) -> None:
        self._network.log.append("close")


class SyncSender:
    def __init__(self, network: Network) -> None:
        self._network = network

    def open(self, request: Request) -> SyncResponse:
        return SyncResponse(self._network, self._network.take())

    def sleep(self, seconds: float) -> None:
        self._network.log.append(f"sleep {seconds}")


class AsyncResponse:
    def __init__(self, response: SyncResponse) -> None:
        self._response = response
        self.head = response.head

    async def chunks(self) -> AsyncGenerator[bytes]:
        for chunk in self._response.chunks():
            yield chunk

    async def collect(self, add: Callable[[bytes], None]) -> None:
        self._response.collect(add)

    async def read(self, limit: int) -> bytes:
        return self._response.read(limit)

    async def aclose(self) -> None:
        self._response.close()


class AsyncSender:
    def __init__(self, network: Network) -> None:
        self._sender = SyncSender(network)

    async def open(self, request: Request) -> AsyncResponse:
        return AsyncResponse(self._sender.open(request))

    async def sleep(self, seconds: float) -> None:
        self._sender.sleep(seconds)


class Note(Action):
    """Records that it was performed, and by which shell."""

    def __init__(self) -> None:
        self.performed: list[str] = []

    def perform(self) -> None:
        self.performed.append("sync")

    async def perform_async(self) -> None:
        self.performed.append("async")


def run_on(way: str, flow: Flow[Any], network: Network, limit: int = MAX_BODY_BYTES) -> Any:
    if way == "sync":
        return run(flow, SyncSender(network), limit)
    return asyncio.run(run_async(flow, AsyncSender(network), limit))


class Machine:
    """Hands out each byte and opens another response until one ended cleanly.

    It waits after a failure, and stops reading at "!" until `go_on` is called.
    """

    def __init__(self) -> None:
        self.reading = True
        self.log: list[str] = []
        self.note = Note()
        self.steps: list[Step] = [REQUEST]

    def next_step(self) -> Step | None:
        return self.steps.pop(0) if self.steps else None

    def accepts(self, head: ResponseHead) -> bool:
        return head.status == 200

    def refused(self, head: ResponseHead, body: bytes) -> None:
        self.log.append(f"refused {head.status} {body!r}")
        self.steps = [REQUEST] if head.status == 503 else []

    def receive(self, chunk: bytes) -> Iterator[str]:
        for character in chunk.decode():
            if character == "!":
                self.reading = False
                return
            yield character

    def lost(self, failure: TransportFailure | None) -> Iterable[str]:
        self.log.append("failure" if failure else "end")
        self.steps = [Wait(1.5), REQUEST] if failure and len(self.log) < 8 else []
        return ("?",) if failure else ()


def side_call_of(machine: Machine) -> Callable[[], SideCall[str]]:
    def flow() -> Flow[Iterable[str]]:
        result = yield REQUEST
        machine.reading = isinstance(result, Reply)
        return result.body.decode() if isinstance(result, Reply) else ()

    return lambda: (flow(), 100)


def driven(way: str, answers: list[Answer | None]) -> tuple[list[str], list[str], list[str]]:
    """Return what a machine hands out, what it recorded, and what its sender did."""
    machine, network = Machine(), Network(list(answers))
    return driven_by(way, machine, network), machine.log, network.log


def driven_by(way: str, machine: Machine, network: Network) -> list[str]:
    side_call = side_call_of(machine)
    if way == "sync":
        return list(drive(machine, SyncSender(network), side_call))

    async def items() -> list[str]:
        return [item async for item in drive_async(machine, AsyncSender(network), side_call)]

    return asyncio.run(items())


@WAYS
@pytest.mark.parametrize(
    ("answers", "items", "recorded", "done"),
    [
        ([Answer(chunks=(b"a", b"bc"))], "abc", ["end"], "open, close"),
        (
            [Answer(chunks=(b"a",), broken=True), None, Answer(chunks=(b"b",))],
            "a??b",
            ["failure", "failure", "end"],
            "open, close, sleep 1.5, open, sleep 1.5, open, close",
        ),
        (
            [Answer(503, (b"busy",)), Answer(chunks=(b"a",))],
            "a",
            ["refused 503 b'busy'", "end"],
            f"open, read {MAX_BODY_BYTES}, close, open, close",
        ),
        ([Answer(404)], "", ["refused 404 b''"], f"open, read {MAX_BODY_BYTES}, close"),
        # A side call is made while the response is open, and reading goes on after it.
        (
            [Answer(chunks=(b"a!", b"b")), Answer(chunks=(b"xy",))],
            "axyb",
            ["end"],
            "open, open, close, close",
        ),
        # A side call that failed: nothing more is read.
        ([Answer(chunks=(b"a!", b"b")), None], "a", ["end"], "open, open, close"),
    ],
)
def test_a_machine_is_driven(
    way: str, answers: list[Answer | None], items: str, recorded: list[str], done: str
) -> None:
    assert driven(way, answers) == (list(items), recorded, done.split(", "))


answers = st.lists(
    st.none()
    | st.builds(
        Answer,
        st.sampled_from([200, 200, 200, 404, 503]),
        st.lists(st.sampled_from([b"a", b"bc", b"d!e", b"!", b""]), max_size=4).map(tuple),
        st.booleans(),
    ),
    max_size=6,
)


@given(answers)
def test_both_shells_do_the_same(answers: list[Answer | None]) -> None:
    assert driven("sync", answers) == driven("async", answers)


# Flows


def asking(*steps: Step) -> Flow[list[Reply | TransportFailure | None]]:
    results = []
    for step in steps:
        result = yield step
        results.append(result)
    return results


@WAYS
def test_a_flow_is_sent_replies_failures_and_nothing_for_a_wait(way: str) -> None:
    network = Network([Answer(chunks=(b"a", b"b")), None, Answer(chunks=(b"c",), broken=True)])
    flow = asking(REQUEST, Wait(2.0), REQUEST, REQUEST)
    reply, waited, missing, broken = run_on(way, flow, network)
    assert (reply.head.status, reply.body) == (200, b"ab")
    assert waited is None
    assert missing is broken is BROKEN
    assert network.log == ["open", "close", "sleep 2.0", "open", "open", "close"]


@WAYS
def test_an_action_is_performed_between_requests(way: str) -> None:
    note, network = Note(), Network([Answer(chunks=(b"a",))])
    nothing, reply = run_on(way, asking(note, REQUEST), network)
    assert nothing is None
    assert reply.body == b"a"
    assert note.performed == [way]


@WAYS
def test_a_machine_asks_for_an_action(way: str) -> None:
    machine, network = Machine(), Network([Answer(chunks=(b"a",))])
    machine.steps[:0] = [machine.note]
    assert driven_by(way, machine, network) == ["a"]
    assert machine.note.performed == [way]
    assert network.log == ["open", "close"]


@WAYS
def test_only_the_beginning_of_a_refusal_is_read(way: str) -> None:
    network = Network([Answer(300, (b"x" * MAX_BODY_BYTES, b"y"))])
    [reply] = run_on(way, asking(REQUEST), network, 1)
    assert reply.body == b"x" * MAX_BODY_BYTES
    assert network.log == ["open", f"read {MAX_BODY_BYTES}", "close"]


@WAYS
@pytest.mark.parametrize(("limit", "fits"), [(2, False), (3, True)])
def test_the_body_of_an_answer_is_limited(way: str, limit: int, fits: bool) -> None:
    network = Network([Answer(chunks=(b"ab", b"c"))])
    [result] = run_on(way, asking(REQUEST), network, limit)
    assert isinstance(result, Reply if fits else BodyTooLarge)
    assert result.head.status == 200
    assert network.log == ["open", "close"]


def test_a_body_has_to_be_complete_within_the_read_timeout() -> None:
    head = ResponseHead(200, Headers([]))
    timeouts = Timeouts(connect=1, read=1, write=1, pool=1)
    late = ReplyBody(Request("GET", "http://a/", {}, timeouts=timeouts), head, 9, start=-1e9)
    with pytest.raises(TransportFailure) as caught:
        late.add(b"a")
    assert caught.value.kind is FailureKind.TIMEOUT
    unlimited = ReplyBody(REQUEST, head, 9, start=-1e9)
    unlimited.add(b"a")
    assert unlimited.reply() == Reply(head, b"a")
