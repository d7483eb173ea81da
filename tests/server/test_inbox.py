"""Messages to a running stream: delivered once, in order, also to an agent that was restarted."""

import asyncio
import threading
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client import AsyncCAPClient, CAPClient, CAPRuntimeError
from coreason_client._context import current_stream
from coreason_client.server import (
    AgentApp,
    AgentStream,
    InboxMessage,
    LogUnavailable,
    ServiceRequest,
    SQLiteStreamLog,
    StepFailed,
    StreamCancelled,
    SyncAgentStream,
    running,
)
from coreason_client.server._names import ANONYMOUS, full_principal
from coreason_client.server.durable._notes import Begun, Done, Note, Started, dump_note
from coreason_client.server.engine import _inbox
from coreason_client.server.engine._conversation import dump_request
from coreason_client.server.engine._inbox import MAX_MESSAGES, MAX_TEXT, Inbox, InboxStore
from coreason_client.server.engine._steps import Steps
from coreason_client.server.log import MemoryStreamLog, NewStream
from coreason_client.server.log.base import AgentVersion, Conversation, Notes

from .aio import aio
from .conftest import Serve
from .durable.simulated import MortalLog, survive
from .durable.test_properties import valid_packets as valid
from .log.backends import BACKENDS, Clock
from .peer import LIMIT, Gate, Peer, envelope, wait_for
from .test_replicas import Fleet, fleet

__all__ = ["fleet"]


async def talking(_: ServiceRequest, stream: AgentStream) -> None:
    """Repeat each message, until one says "stop"."""
    await stream.write("ready ")
    async for message in stream.inbox:
        await stream.write(f"{message.text} ")
        if message.text == "stop":
            return


def send(peer: Peer, stream_id: object, text: str, name: str | None = None) -> Any:
    body = {"id": name or text, "text": text}
    return peer.http.post(f"/streams/{stream_id}/messages", json=body)


@pytest.mark.parametrize("log", list(BACKENDS))
def test_messages_are_delivered_once_and_in_order(serve: Serve, log: str, tmp_path: Path) -> None:
    peer = serve(talking, log=BACKENDS[log](Clock(), tmp_path), inbox=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        words = [f"{number}" for number in range(5)]
        for word in [*words, "1", "stop", "3"]:  # some are sent again
            sent = send(peer, answer.stream_id, word)
            assert (sent.status_code, sent.json()) == (202, {"id": word, "status": "stored"})
        answer.rest()
    assert answer.text == f"ready {' '.join(words)} stop "
    assert answer.last.p == {"reason": "complete"}
    assert send(peer, answer.stream_id, "2").status_code == 202  # it was accepted before the end
    refused = send(peer, answer.stream_id, "late")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "The stream has ended: send a new request.",
    )


def test_a_client_hears_that_an_agent_has_no_inbox(serve: Serve) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        await gate.wait()

    gate = Gate()
    peer = serve(agent)
    with peer.open(envelope()) as answer, CAPClient(str(peer.http.base_url), "k") as client:
        answer.until(1)
        with pytest.raises(CAPRuntimeError, match="The agent takes no messages while it answers"):
            client.send(str(answer.stream_id), "hello")
        with pytest.raises(CAPRuntimeError, match="does not exist"):
            client.send(uuid4(), "hello")
        gate.open()
        answer.rest()


def test_a_message_through_another_replica_arrives(fleet: Fleet) -> None:
    one, two = (fleet.replica(talking, inbox=True) for _ in range(2))
    with one.open(envelope()) as answer:
        answer.until(1)
        for word in ("a", "b", "stop"):
            assert send(two, answer.stream_id, word).status_code == 202
        answer.rest()
    assert answer.text == "ready a b stop "


def test_an_agent_looks_without_waiting(serve: Serve) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        while not (found := await stream.inbox.waiting()):  # noqa: ASYNC110 - it is the point
            await asyncio.sleep(0.01)
        assert await stream.inbox.waiting() == []
        await stream.write(repr(found))

    def plain(_: ServiceRequest, stream: SyncAgentStream) -> None:
        assert stream.inbox.waiting() == []  # nobody knows the stream yet
        stream.write("ready ")
        stream.write(repr([next(iter(stream.inbox))]))

    for one in (agent, plain):
        peer = serve(one, inbox=True)
        with peer.open(envelope()) as answer:
            answer.until(1)
            send(peer, answer.stream_id, "hello", "1")
            answer.rest()
        assert answer.text == f"ready {[InboxMessage('1', 'hello')]!r}"


def test_the_history_has_the_messages_that_the_agent_got(serve: Serve) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        earlier = [message.text for message in await stream.history()]
        await stream.write(f"{earlier}")
        if not earlier:
            await anext(stream.inbox)
            await gate.wait()

    gate = Gate()
    peer = serve(agent, inbox=True)
    with peer.open(envelope("question")) as answer:
        answer.until(1)
        for word in ("got", "unread"):
            assert send(peer, answer.stream_id, word).status_code == 202
        gate.open()
        answer.rest()
    assert peer.ask(envelope("next")).text == "['question', 'got', '[]']"


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("way", ["returns", "raises", "asks", "fails", "closes"])
def test_what_was_not_read_is_named_at_the_end(
    serve: Serve, way: str, durable: bool, tmp_path: Path
) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        first = await anext(stream.inbox)
        await asyncio.to_thread(wait_for, sent)
        await stream.write(first.text)
        if way == "raises":
            raise ValueError("as told")
        if way == "asks":
            await stream.ask("More?")
        elif way == "fails":
            await stream.fail("enough", "That is enough.", details={"read": 1})
        elif way == "closes":
            await stream.write_packet("CLOSE", "bye")

    sent = threading.Event()
    log = BACKENDS["sqlite"](Clock(), tmp_path)
    peer = serve(agent, inbox=True, log=log, durable=durable)
    with peer.open(envelope()) as answer:
        answer.until(1)
        for word in "abc":
            send(peer, answer.stream_id, word)
        sent.set()
        answer.rest()
    end = answer.last.p.details if way in ("raises", "fails") else answer.last.p
    before: dict[str, dict[str, Any]] = {
        "returns": {"reason": "complete"},
        "asks": {"reason": "input_required", "question": "More?"},
        "fails": {"read": 1},
        "closes": {"reason": "bye"},
    }
    assert end == {**before.get(way, {}), "not_delivered": ["b", "c"]}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ([], 400, "must be a JSON object"),
        ({"id": "1"}, 400, "text must be text"),
        ({"id": "1", "text": ""}, 400, "text must be text"),
        ({"text": "a"}, 400, "id must be text of 1 to 255"),
        ({"id": "x" * 256, "text": "a"}, 400, "id must be text of 1 to 255"),
        ({"id": "1", "text": "x" * (MAX_TEXT + 1)}, 413, "at most 65536 characters"),
    ],
)
def test_a_wrong_message_is_refused(serve: Serve, body: Any, status: int, words: str) -> None:
    peer = serve(talking, inbox=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        refused = peer.http.post(f"/streams/{answer.stream_id}/messages", json=body)
        assert (refused.status_code, words in refused.json()["detail"]) == (status, True)
        send(peer, answer.stream_id, "stop")
        answer.rest()


@pytest.mark.parametrize("sync", [False, True])
def test_both_clients_send(serve: Serve, sync: bool) -> None:
    peer = serve(talking, inbox=True)
    url = str(peer.http.base_url)

    async def talk() -> str:
        async with AsyncCAPClient(url, "key") as client:
            stream = client.chat("hi")
            async with stream:
                said = [await anext(stream)]
                for word in ("a", "b", "stop"):
                    await client.send(stream.stream_id or "", word, message_id=word)
                await client.send(stream.stream_id or "", "a", message_id="a")
                said += [text async for text in stream]
            with pytest.raises(CAPRuntimeError) as caught:
                await client.send(stream.stream_id or "", "late")
            assert caught.value.status_code == 409
        return "".join(map(str, said))

    def talk_sync() -> str:
        with CAPClient(url, "key") as client, client.chat("hi") as stream:
            said = [next(stream)]
            for word in ("a", "b", "stop"):
                client.send(stream.stream_id or "", word)
            return "".join(map(str, [*said, *stream]))

    said = talk_sync() if sync else asyncio.run(talk())
    assert said == "ready a b stop "


def test_only_the_owner_may_send_and_only_where_the_agent_listens() -> None:
    with running(AgentApp(talking, api_keys=["a", "b"], inbox=True)) as server:
        peers = [Peer(server.url, key) for key in "ab"]
        with peers[0].open(envelope()) as answer:
            answer.until(1)
            assert send(peers[1], answer.stream_id, "x").status_code == 404
            send(peers[0], answer.stream_id, "stop")
            answer.rest()
        assert answer.text == "ready stop "
        for peer in peers:
            peer.close()


def test_an_agent_without_an_inbox_says_so(serve: Serve) -> None:
    peer = serve(talking)
    answer = peer.ask()
    assert answer.last.p.code == "agent_error"
    assert send(peer, answer.stream_id, "x").status_code == 404


def new_stream() -> NewStream:
    return NewStream(uuid4(), "p", uuid4(), "f")


@aio
async def test_a_full_inbox_takes_no_more() -> None:
    log = MemoryStreamLog()
    store = InboxStore(log, (await log.open(new_stream(), "me")).meta)
    for number in range(MAX_MESSAGES):
        assert await store.put(InboxMessage(str(number), "x")) == "stored"
    assert await store.put(InboxMessage("more", "x")) == "full"
    assert await store.put(InboxMessage("7", "x")) == "stored"


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("letter", ["x", '"', "\N{GRINNING FACE}"])
def test_no_accepted_message_is_lost_because_of_its_size(
    backend: str, letter: str, tmp_path: Path
) -> None:
    @aio
    async def run() -> None:
        log = BACKENDS[backend](Clock(), tmp_path)
        await log.start("me")
        store = InboxStore(log, (await log.open(new_stream(), "me")).meta)
        sent = [InboxMessage(str(number), letter * MAX_TEXT) for number in range(20)]
        results = [await store.put(message) for message in sent]
        accepted = results.count("stored")
        assert 0 < accepted < 20
        assert results == ["stored"] * accepted + ["full"] * (20 - accepted)
        assert await store.messages() == sent[:accepted]
        await log.stop("me")

    run()


@aio
async def test_of_many_messages_at_once_the_accepted_ones_are_delivered(tmp_path: Path) -> None:
    log = MemoryStreamLog()
    store = InboxStore(log, (await log.open(new_stream(), "me")).meta)
    with patch.object(log, "turns", late(log.turns)):
        sent = [InboxMessage(str(number), "x") for number in range(300)]
        results = await asyncio.gather(*map(store.put, sent))
    delivered = [message.id for message in await store.messages()]
    accepted = [one.id for one, result in zip(sent, results, strict=True) if result == "stored"]
    assert sorted(delivered) == sorted(accepted)
    assert len(delivered) == MAX_MESSAGES
    assert set(results) == {"stored", "full"}


def late(turns: Any) -> Any:
    """Answer when all others have asked."""

    async def read(*arguments: Any) -> Any:
        found = await turns(*arguments)
        await asyncio.sleep(0.01)
        return found

    return read


def test_another_message_with_the_same_id_is_refused(serve: Serve) -> None:
    peer = serve(talking, inbox=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        assert send(peer, answer.stream_id, "a", "1").status_code == 202
        refused = send(peer, answer.stream_id, "b", "1")
        assert send(peer, answer.stream_id, "stop").status_code == 202
        assert answer.rest().text == "ready a stop "
    assert (refused.status_code, "message-conflict" in refused.json()["type"]) == (409, True)


@aio
async def test_messages_are_delivered_after_the_list_of_earlier_ones_has_expired() -> None:
    """A list of a log expires when nothing was added to it for the final retention."""
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    meta = (await log.open(new_stream(), "me")).meta
    store = InboxStore(log, meta)
    inbox = Inbox(store, Steps(meta.stream_id), {})
    for text in ("a", "b"):
        await store.put(InboxMessage(text, text))
        assert (await anext(inbox)).text == text
    log._store.conversations.clear()  # as it is then
    await store.put(InboxMessage("c", "c"))
    assert [one.text for one in await inbox.waiting()] == ["c"]
    inbox.name_unread = AsyncMock(return_value={})
    await inbox.seal()
    assert [*inbox.taken.values()] == ["a", "b", "c"]


def test_a_plain_agent_that_waits_for_messages_ends_when_it_is_cancelled(serve: Serve) -> None:
    ended = threading.Event()

    def agent(_: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write("ready ")
        try:
            for message in stream.inbox:
                stream.write(message.text)
        except StreamCancelled:
            ended.set()
            raise

    peer = serve(agent, inbox=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        peer.cancel(answer.stream_id)
        answer.rest()
    wait_for(ended)


def test_a_sender_learns_that_the_inbox_is_full(serve: Serve) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        await gate.wait()
        await stream.write(f"{len(await stream.inbox.waiting())}")

    gate = Gate()
    peer = serve(agent, inbox=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        codes = [
            send(peer, answer.stream_id, str(number)).status_code for number in range(MAX_MESSAGES)
        ]
        refused = send(peer, answer.stream_id, "more")
        gate.open()
        answer.rest()
    assert set(codes) == {202}
    assert (refused.status_code, "inbox-full" in refused.json()["type"]) == (429, True)
    assert answer.text == f"ready {MAX_MESSAGES}"


@pytest.mark.parametrize("durable", [False, True])
def test_one_task_reads_at_a_time_and_none_where_its_reads_cannot_be_repeated(
    serve: Serve, durable: bool, tmp_path: Path
) -> None:
    """The error comes in the first run too, so nobody meets it only after a restart."""

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        first = asyncio.ensure_future(anext(stream.inbox))
        await asyncio.sleep(0)  # it waits now
        with pytest.raises(RuntimeError, match="only one may read at a time"):
            await stream.inbox.waiting()
        await stream.write((await first).text)
        with pytest.raises(StepFailed, match="cannot be read in a step"):
            await stream.step("look", stream.inbox.waiting, on_restart="resume")

    log = BACKENDS["sqlite"](Clock(), tmp_path)
    peer = serve(agent, inbox=True, log=log, durable=durable)
    with peer.open(envelope()) as answer:
        answer.until(1)
        send(peer, answer.stream_id, "hello")
        answer.rest()
    assert (answer.text, answer.last.p) == ("ready hello", {"reason": "complete"})


@pytest.mark.parametrize("backend", list(BACKENDS))
@aio
async def test_a_message_is_accepted_or_refused_and_nothing_between(
    backend: str, tmp_path: Path
) -> None:
    """Senders race with the end: the seal has exactly those that were accepted."""
    log = BACKENDS[backend](Clock(), tmp_path)
    await log.start("me")
    try:

        async def put(number: int) -> tuple[str, str]:
            return str(number), await store.put(InboxMessage(str(number), "x"))

        async def end() -> None:
            await store.seal()
            await log.close(stream_id, 1, 1, [b"end"], "complete")

        store = InboxStore(log, (await log.open(new_stream(), "me")).meta)
        stream_id = store._stream_id
        results = await asyncio.gather(*map(put, range(10)), end(), *map(put, range(10, 20)))
        stored = {one[0] for one in results if isinstance(one, tuple) and one[1] == "stored"}
        assert {one.id for one in await store.messages()} == stored
        assert await store.put(InboxMessage("late", "x")) == "ended"
    finally:
        await log.stop("me")


@pytest.mark.parametrize("backend", list(BACKENDS))
@aio
async def test_a_producer_that_has_lost_its_stream_does_not_seal_it(
    backend: str, tmp_path: Path
) -> None:
    """It was frozen, and ends its agent while another process goes on."""
    clock = Clock()
    log = BACKENDS[backend](clock, tmp_path)
    await log.start("me")
    try:
        stale = InboxStore(log, (await log.open(new_stream(), "me")).meta)
        await stale.put(InboxMessage("0", "x"))
        clock.now += log.lease + 1
        [claim] = await log.claim_lost("heir", 10)
        await stale.seal()
        owner = InboxStore(log, await log.meta(claim.stream_id))
        for number in ("1", "2"):
            assert await owner.put(InboxMessage(number, "x")) == "stored"
        assert [one.id for one in await owner.messages()] == ["0", "1", "2"]
        assert [one.id for one in await owner.seal()] == ["0", "1", "2"]
        late = asyncio.ensure_future(owner.put(InboxMessage("3", "x")))
        await log.close(claim.stream_id, claim.epoch, 1, [b"end"], "complete")
        assert await late == "ended"
        assert [one.id for one in await owner.messages()] == ["0", "1", "2"]
    finally:
        await log.stop("me")


def test_messages_of_before_an_approval_belong_to_the_stream_that_asked(
    serve: Serve, tmp_path: Path
) -> None:
    """The turn that answers does not store them again, and its own may have the same ids."""

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        if stream.question == "later":
            await stream.write(f"{[message.text for message in await stream.history()]}")
            return
        await stream.write("ready. ")
        first = await anext(stream.inbox)
        await stream.approve("pay", {"for": first.text})
        await stream.write("paid for ")
        async with asyncio.timeout(LIMIT):
            second = await anext(stream.inbox)
        await stream.write(f"{first.text}{second.text}")

    peer = serve(agent, inbox=True, durable=True, log=SQLiteStreamLog(tmp_path / "log.db"))
    texts = []
    for question, word in (("go", "a"), ("yes", "b")):
        with peer.open(envelope(question)) as answer:
            answer.until(1)
            assert send(peer, answer.stream_id, word, "1").status_code == 202
            texts.append(answer.rest().text)
    assert texts == ['ready. May I call pay with {"for":"a"}?', "paid for ab"]
    history = ["go", "a", texts[0], "yes", "b", texts[1]]
    assert peer.ask(envelope("later")).text == f"{history}"


class Away(SQLiteStreamLog):
    """A log that does not answer the first look of some runs into their inbox."""

    left = 0

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        is_look = conversation.session_id.startswith("inbox:")
        if is_look and current_stream() is not None and self.left:
            self.left -= 1
            raise LogUnavailable("not now")
        return await super().turns(conversation, limit)


def test_messages_of_a_durable_agent_that_cannot_go_on_are_named(
    serve: Serve, tmp_path: Path
) -> None:
    """Its restarts are used up, so another process ends its stream: it knows what was read."""
    stream_id, body = uuid4(), ServiceRequest.model_validate(envelope())
    version, principal = AgentVersion("a", "1"), full_principal("a", ANONYMOUS)

    async def leave_behind() -> None:
        log = SQLiteStreamLog(tmp_path / "log.db")
        await log.start("me")
        question = dump_request(principal, body, {})
        new = NewStream(stream_id, principal, body.request_id, "f", question, version)
        store = InboxStore(log, (await log.open(new, "me")).meta)
        for name in ("got", "unread"):
            assert await store.put(InboxMessage(name, "x")) == "stored"
        look = {"messages": [["got", "x"]]}
        notes: list[Note] = [
            *(Begun("inbox@1", "rerun", _inbox._LOOK, ""), Done("inbox@1", "result", look)),
            # A step of the agent, which reads another inbox.
            *(Begun("inbox@ann", "rerun", "read", ""), Done("inbox@ann", "result", "a letter")),
        ]
        stored = [dump_note(note) for note in (*notes, Started(2, 0), Started(3, 0))]
        await log.append(stream_id, 1, 1, [], Notes(1, stored))
        await log.release(stream_id, 1)
        await log.stop("me")

    asyncio.run(leave_behind())
    log = SQLiteStreamLog(tmp_path / "log.db")
    known = {"agent_id": version.agent_id, "version": version.version}
    peer = serve(talking, log=log, durable=True, inbox=True, max_restarts=1, **known)
    text = peer.http.get(f"/streams/{stream_id}").text
    assert ('"code":"producer_lost"' in text, '"not_delivered":["unread"]' in text) == (True, True)


@pytest.mark.parametrize(("runs", "end"), [(1, "complete"), (2, "complete"), (9, "producer_lost")])
def test_a_durable_agent_goes_on_after_the_log_was_away(
    serve: Serve, runs: int, end: str, tmp_path: Path
) -> None:
    log = Away(tmp_path / "log.db")
    log.left = runs
    peer = serve(talking, log=log, inbox=True, durable=True)
    with peer.open(envelope()) as answer:
        answer.until(1)
        assert send(peer, answer.stream_id, "stop").status_code == 202
        answer.rest()
    last = answer.last.p
    assert (last["reason"] if isinstance(last, dict) else last.code) == end
    assert answer.text == ("ready stop " if end == "complete" else "ready ")


# Restarted agents.

WORDS = ["a", "b", "c"]


async def listening(_: ServiceRequest, stream: AgentStream) -> None:
    """Read in the body and in a step, with and without waiting."""
    await stream.write("ready ")
    first = await anext(stream.inbox)
    await stream.write(f"{first.text} ")

    async def two() -> str:
        return (await anext(stream.inbox)).text

    await stream.write(f"{await stream.step('two', two)} ")
    await stream.step("pause", _nothing)
    rest = await stream.inbox.waiting()
    await stream.write(f"{[one.text for one in rest]} ")
    await stream.write(f"{len(await stream.inbox.waiting())} done")


async def _nothing() -> None:
    """Do nothing."""


def test_a_restarted_agent_gets_the_same_messages_at_the_same_places() -> None:
    """Messages are there from the beginning; the process dies at every append, once and twice."""

    async def run(deaths: Sequence[tuple[int, bool]]) -> str:
        log = _TalkativeLog(deaths)
        answer = await survive(
            listening, ServiceRequest.model_validate(envelope()), deaths, log=log
        )
        assert answer.outcome == "complete"
        return "".join(p for op, p in valid(answer.packets) if op == "DELTA")

    async def go() -> None:
        expected = await run([])
        for number, stored in product(range(12), (False, True)):
            assert await asyncio.wait_for(run([(number, stored)]), 20) == expected
            assert await asyncio.wait_for(run([(number, stored), (1, stored)]), 20) == expected

    asyncio.run(go())


class _TalkativeLog(MortalLog):
    """A log in which each new stream gets its messages at once."""

    async def open(self, stream: NewStream, owner: str) -> Any:
        opened = await super().open(stream, owner)
        for word in WORDS:
            await InboxStore(self, opened.meta).put(InboxMessage(word, word))
        return opened


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=3),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_messages_at_any_time_are_delivered_once_and_in_order(
    deaths: list[tuple[int, bool]], arrivals: list[int]
) -> None:
    """Each message arrives after some appends, whichever process runs then."""

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        for _number in range(3):
            async with asyncio.timeout(10):
                message = await anext(stream.inbox)
            await stream.step("pause", _nothing)
            await stream.write(f"{message.text} ")

    async def go() -> None:
        log = _LateLog(deaths, sorted(arrivals))
        answer = await survive(agent, ServiceRequest.model_validate(envelope()), deaths, log=log)
        assert answer.outcome == "complete"
        text = "".join(p for op, p in valid(answer.packets) if op == "DELTA")
        assert text == "".join(f"{word} " for word in WORDS)

    with patch.object(_inbox, "_POLL_SECONDS", 0.001):
        asyncio.run(asyncio.wait_for(go(), 30))


def test_a_restarted_agent_sees_no_message_earlier_than_before() -> None:
    """The first look found nothing, and a message has arrived since."""

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(f"{len(await stream.inbox.waiting())} ")
        await stream.step("pause", _nothing)
        await stream.write((await anext(stream.inbox)).text)

    async def go() -> None:
        for number, stored in product(range(4), (False, True)):
            log = _LateLog([(number, stored)], [1, 50, 50])
            asked = ServiceRequest.model_validate(envelope())
            answer = await survive(agent, asked, [(number, stored)], log=log)
            text = "".join(p for op, p in valid(answer.packets) if op == "DELTA")
            # Unless nothing of the first run was stored, it looks as it did then.
            assert answer.outcome == "complete"
            assert text == "0 a" if number or stored else text in ("0 a", "1 b")

    with patch.object(_inbox, "_POLL_SECONDS", 0.001):
        asyncio.run(asyncio.wait_for(go(), 60))


class _LateLog(MortalLog):
    """A log whose stream gets its messages after some reads of its inbox."""

    def __init__(self, deaths: Sequence[tuple[int, bool]], arrivals: list[int]) -> None:
        super().__init__(deaths)
        self._arrivals = list(zip(arrivals, WORDS, strict=True))
        self._reads = 0
        self._is_sending = False
        self._meta: Any = None

    async def open(self, stream: NewStream, owner: str) -> Any:
        opened = await super().open(stream, owner)
        self._meta = opened.meta
        return opened

    async def turns(self, conversation: Any, limit: int) -> Sequence[bytes]:
        is_look = conversation.session_id.startswith("inbox:")
        if is_look and not self._is_sending:  # to send a message reads too
            self._is_sending = True
            self._reads += 1
            while self._arrivals and self._arrivals[0][0] < self._reads:
                _, word = self._arrivals.pop(0)
                await InboxStore(self, self._meta).put(InboxMessage(word, word))
            self._is_sending = False
        return await super().turns(conversation, limit)
