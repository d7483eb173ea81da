"""A conversation that is followed: its answers one after the other, whoever asked for them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest

from coreason_client import (
    AsyncCAPClient,
    AsyncConversationStream,
    CAPClient,
    CAPConnectionError,
    CAPRuntimeError,
    Position,
)
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from coreason_client.server import (
    AgentApp,
    AgentStream,
    RunningServer,
    ServiceRequest,
    SQLiteStreamLog,
    running,
)
from coreason_client.testing import ChaosProxy, ConnectionPlan
from coreason_manifest.definitions.presentation import ClosePacket, DeltaPacket, ErrorPacket, Packet

from .aio import aio
from .balancer import Balancer
from .conftest import Serve
from .log.backends import BACKENDS, Clock
from .peer import LIMIT, Gate, Peer, envelope
from .test_on_busy import LOGS
from .test_replicas import Fleet, fleet

__all__ = ["fleet"]

ID = "a/b c"  # a path must quote it
PATH = "/conversations/a/b%20c/events"


async def speak(_: ServiceRequest, stream: AgentStream) -> None:
    """Answer in two pieces; "boom" fails after the first one."""
    await stream.write(f"{stream.question} ")
    if stream.question == "boom":
        await stream.fail("boom", "It broke.")
        return
    await stream.progress("on it", 50)
    await stream.write("done")


def client_of(peer: Peer, key: str = "k", **options: Any) -> AsyncCAPClient:
    return AsyncCAPClient(str(peer.http.base_url), key, **options)


def texts(packets: Sequence[Packet]) -> list[str]:
    """Return the text of each answer, with the code of its error if it failed."""
    found: dict[object, str] = {}
    for packet in packets:
        text = found.setdefault(packet.stream_id, "")
        if isinstance(packet, DeltaPacket):
            found[packet.stream_id] = text + packet.p
        elif isinstance(packet, ErrorPacket):
            found[packet.stream_id] = f"{text}! {packet.p.code}"
    return list(found.values())


def messages(packets: Sequence[Packet]) -> list[str]:
    """Return the message that each answer begins with."""
    events: list[Any] = [packet.p for packet in packets if not packet.seq]
    assert {event["type"] for event in events} == {"USER_MESSAGE"}
    return [event["data"]["text"] for event in events]


async def answers(following: AsyncConversationStream, number: int) -> list[Packet]:
    """Read so many answers."""
    packets: list[Packet] = []
    async for packet in following:
        packets.append(packet)
        number -= isinstance(packet, ClosePacket | ErrorPacket)
        if not number:
            break
    return packets


async def asked(client: AsyncCAPClient, *words: str) -> Position:
    """Ask one question after the other; return the position after the last answer."""
    position = None
    for word in words:
        chat = client.chat(word, ID)
        try:
            async for _ in chat:
                pass
        except CAPRuntimeError:
            if word != "boom":
                raise
        position = chat.position
    assert position is not None
    return position


@pytest.mark.parametrize("log", LOGS)
@aio
async def test_answers_come_one_after_the_other(serve: Serve, log: str, tmp_path: Path) -> None:
    peer = serve(speak, log=BACKENDS[log](Clock(), tmp_path), on_busy="wait")
    async with client_of(peer) as client, client_of(peer) as other:
        first = await asked(client, "zero")
        async with client.follow_conversation(ID, first) as following:
            reading = asyncio.ensure_future(answers(following, 3))
            await asked(other, "one", "boom", "three")
            packets = await reading
            assert following.position is not None
            assert following.position.stream_id == packets[-1].stream_id
    assert texts(packets) == ["one done", "boom ! boom", "three done"]
    assert [packet.seq for packet in packets] == [*range(5), *range(3), *range(5)]
    assert messages(packets) == ["one", "boom", "three"]


@aio
async def test_a_follower_of_an_empty_conversation_misses_none_of_many_answers(
    serve: Serve,
) -> None:
    """They are written while it is not connected."""
    peer = serve(speak, on_busy="wait")
    nothing_yet = {"Last-Event-ID": f"{UUID(int=0)}:1"}
    async with client_of(peer) as client:
        await asked(client, *map(str, range(21)))
    first = await asyncio.to_thread(peer.http.get, PATH, headers=nothing_yet)
    assert '"text":"0"' in first.text


@aio
async def test_it_begins_with_the_answer_that_is_being_written(serve: Serve) -> None:
    gate = Gate()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(f"{stream.question} ")
        if stream.question == "hold":
            await gate.wait()
        await stream.write("done")

    peer = serve(agent, on_busy="wait")
    async with client_of(peer) as client:
        await asked(client, "before")
        asking = asyncio.ensure_future(asked(client, "hold"))
        await asyncio.to_thread(gate.seen)
        async with client.follow_conversation(ID) as following:
            packets = [await anext(following)]
            waiting = asyncio.ensure_future(asked(client, "after"))
            gate.open()
            packets += await answers(following, 2)
        await asyncio.gather(asking, waiting)
    assert texts(packets) == ["hold done", "after done"]


@aio
async def test_the_messages_of_answers_are_those_that_the_agent_got(serve: Serve) -> None:
    """Also those that another agent did not read; a long one is cut."""
    gate = Gate()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("begun")
        if stream.question == "deaf":
            await gate.wait()

    peer = serve(agent, on_busy="wait", inbox=True)
    async with client_of(peer) as client, client.follow_conversation(ID) as following:
        chat = client.chat("deaf", ID)
        assert await anext(chat) == "begun"
        packets = [await anext(following)]
        assert chat.stream_id is not None
        for word in ("a", "b"):
            await client.send(chat.stream_id, word)
        gate.open()
        assert [text async for text in chat] == []
        await asked(client, "x" * 5_000)
        packets += await answers(following, 3)
    assert messages(packets) == ["deaf", "a\n\nb", "x" * 3_999 + "…"]


@pytest.mark.parametrize("words", [(), ("old",)])
def test_it_waits_for_the_next_answer(serve: Serve, words: Sequence[str]) -> None:
    """Also in a conversation without any; comments keep the connection open."""
    peer = serve(speak, on_busy="wait", heartbeat=0.05)
    with CAPClient(str(peer.http.base_url), "k") as client:
        for word in words:
            client.ask(word, ID)
        with peer.http.stream("GET", PATH) as response:
            chunks = response.iter_text()
            assert next(chunks).startswith("id: ")
            assert next(chunks).startswith(":\n\n")
            client.ask("new", ID)
            body = "".join(chunks)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert ('"p":"new "' in body, "old" in body) == (True, False)


@pytest.mark.parametrize("words", [(), ("old",)])
def test_no_answer_is_missed_between_two_connections(serve: Serve, words: Sequence[str]) -> None:
    """A client that has read nothing yet connects again, after an answer has begun and ended."""
    peer = serve(speak, on_busy="wait", heartbeat=0.05)
    with CAPClient(str(peer.http.base_url), "k") as client:
        for word in words:
            client.ask(word, ID)
        with peer.http.stream("GET", PATH) as response:
            first = next(response.iter_text()).partition("\n")[0]
        assert first.startswith("id: ")
        client.ask("missed", ID)
        again = peer.http.get(PATH, headers={"Last-Event-ID": first.removeprefix("id: ")}).text
    assert ('"p":"missed "' in again, "old" in again) == (True, False)


def test_a_client_that_waits_misses_no_answer_at_a_restart(tmp_path: Path) -> None:
    def server() -> AbstractContextManager[RunningServer]:
        log = SQLiteStreamLog(tmp_path / "log.db")
        return running(AgentApp(speak, log=log, on_busy="wait", heartbeat=0.05))

    with ExitStack() as first, ThreadPoolExecutor(1) as threads:
        before = first.enter_context(server())
        with (
            Balancer(port_of(before)) as balancer,
            CAPClient(f"http://127.0.0.1:{balancer.port}", "k") as client,
            client.follow_conversation(ID) as following,
        ):
            packet = threads.submit(next, following)
            balancer.until_reached()
            sleep(1.0)  # until it has the position
            first.close()
            with server() as after:
                with CAPClient(after.url, "k") as other:
                    other.ask("missed", ID)
                balancer.send_to(port_of(after))
                shown: Any = packet.result(LIMIT)
    assert shown.p["data"]["text"] == "missed"


def port_of(server: RunningServer) -> int:
    return int(server.url.rpartition(":")[2])


def test_the_position_continues_in_another_client(serve: Serve) -> None:
    """Also within an answer."""
    peer = serve(speak, on_busy="wait")
    with CAPClient(str(peer.http.base_url), "k") as client:
        chat = client.chat("zero", ID)
        assert "".join(chat) == "zero done"
        client.ask("one", ID)
        with pytest.raises(CAPRuntimeError):
            client.ask("boom", ID)
        client.ask("three", ID)
        position = chat.position
    packets: list[Packet] = []
    while len(packets) < 13:
        with (
            CAPClient(str(peer.http.base_url), "k") as another,
            another.follow_conversation(ID, position) as following,
        ):
            packets.append(next(following))
            position = following.position
    assert texts(packets) == ["one done", "boom ! boom", "three done"]


@pytest.mark.parametrize("fault", ["cut", "reset"])
@aio
async def test_cuts_change_nothing(
    serve: Serve, fault: Literal["cut", "reset"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections are cut, after each thirteenth byte; the message comes once too."""
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    peer = serve(speak, on_busy="wait")
    async with client_of(peer) as client:
        first = await asked(client, "zero")
        await asked(client, "one", "boom", "three")
        async with client.follow_conversation(ID, first) as following:
            whole = await answers(following, 3)
    assert len(whole) == 13
    for after in range(1, 1_300, 13):
        plan = [ConnectionPlan(fault=fault, after=after) for _ in range(2)]
        with ChaosProxy(str(peer.http.base_url), plan=plan) as proxy:
            client = AsyncCAPClient(proxy.url, "k")
            async with client, client.follow_conversation(ID, first) as following:
                read = await answers(following, 3)
        assert [_shown(one) for one in read] == [_shown(one) for one in whole], after


def _shown(packet: Packet) -> tuple[object, ...]:
    """Return a packet without its time: the client makes the packet of an error itself."""
    return packet.stream_id, packet.seq, packet.op, packet.p


@aio
async def test_answers_of_another_replica_come_too(fleet: Fleet) -> None:
    one, two = (fleet.replica(speak, on_busy="wait") for _ in range(2))
    async with client_of(one) as client, client_of(two) as other:
        first = await asked(client, "zero")
        async with client.follow_conversation(ID, first) as following:
            reading = asyncio.ensure_future(answers(following, 2))
            await asked(other, "one", "two")
            assert texts(await reading) == ["one done", "two done"]


# Refusals, and the end of the server.


@aio
async def test_what_cannot_be_followed_is_refused(serve: Serve) -> None:
    parallel, peer = serve(speak), serve(speak, on_busy="wait")
    position = Position(stream_id=uuid4(), seq=3)
    async with client_of(parallel) as client, client_of(peer) as other:
        with pytest.raises(CAPRuntimeError, match="have no order: start it with on_busy") as caught:
            await anext(client.follow_conversation(ID))
        assert caught.value.status_code == 404
        with pytest.raises(CAPRuntimeError, match="have been deleted") as caught:
            await anext(other.follow_conversation(ID, position))
        assert caught.value.status_code == 410
        elsewhere = await asked(other, "one")
        with pytest.raises(CAPRuntimeError, match="have been deleted"):
            await anext(other.follow_conversation("another", elsewhere))


@aio
async def test_another_principal_follows_only_its_own(serve: Serve) -> None:
    keys = {"a": "anna", "b": "bob"}
    peer = serve(speak, on_busy="wait", api_keys=keys)
    async with client_of(peer, "a") as anna, client_of(peer, "b") as bob:
        position = await asked(anna, "secret")
        with pytest.raises(CAPRuntimeError, match="have been deleted"):
            await anext(bob.follow_conversation(ID, position))


@aio
async def test_closing_between_two_answers_ends_it(serve: Serve) -> None:
    """It does not begin to wait for the next answer."""
    peer = serve(speak, on_busy="wait")
    with CAPClient(str(peer.http.base_url), "k") as sync:
        position = sync.chat("zero", ID)
        assert list(position)
        await asyncio.to_thread(sync.ask, "one", ID)
        last = sync.follow_conversation(ID, position.position)
        while not next(last).is_last:
            pass
        last.close()
        with pytest.raises(CAPConnectionError, match="closed; use follow_conversation") as closed:
            next(last)
        assert closed.value.position == last.position
    async with client_of(peer) as client:
        following = client.follow_conversation(ID, position.position)
        await answers(following, 1)
        await following.aclose()
        with pytest.raises(CAPConnectionError, match="the conversation was closed"):
            await asyncio.wait_for(anext(following), LIMIT)


def test_a_reader_that_waits_counts(serve: Serve) -> None:
    peer = serve(speak, on_busy="wait", max_readers_per_key=1, heartbeat=0.05)
    with peer.http.stream("GET", PATH) as response:
        chunks = response.iter_text()
        assert next(chunks).startswith("id: ")
        refused = peer.http.get(PATH)
    assert (refused.status_code, "too-many-readers" in refused.text) == (429, True)
    until = monotonic() + LIMIT
    while (
        peer.ask(envelope("one")).status != 200
    ):  # until the server knows that the reader has left
        assert monotonic() < until


def test_a_server_that_stops_ends_the_wait() -> None:
    with running(AgentApp(speak, on_busy="wait", heartbeat=0.05)) as server:
        peer = Peer(server.url)
        stream = peer.http.stream("GET", PATH)
        response = stream.__enter__()
        chunks = response.iter_text()
        assert next(chunks).startswith("id: ")
    assert "retry: " in "".join(chunks)
    stream.__exit__(None, None, None)
    peer.close()
