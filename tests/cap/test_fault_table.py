"""The fault table: what each client does under every fault, against a server that has them.

A logical stream of 20 numbered packets and a CLOSE; the fault strikes after packet 8. Each row
runs through `CAPClient` and `AsyncCAPClient`; the table of what happened is printed at the end of
the run.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx2
import pytest

from coreason_client import (
    AsyncCAPClient,
    CAPClient,
    CAPError,
    CAPRuntimeError,
    PacketStream,
    ServiceRequest,
)
from coreason_client.cap.streams import AsyncPacketStream
from coreason_client.testing import VirtualClock
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext
from tests.cap.wire_cases import load
from tests.faults import FAULTS, FaultServer, Run


@dataclass(frozen=True)
class Row:
    """A fault and what has to come of it; the rows are in `tests/cap/cases/faults.json`."""

    name: str
    fault: str
    options: dict[str, Any] = field(default_factory=dict)
    error: str | None = None  # None: exactly the whole stream
    delivered: int | None = None  # how many packets before the error
    reconnects: int | None = None
    requests: int | None = None  # exactly so many, redirects included
    browser: dict[str, Any] = field(default_factory=dict)  # what is different there, and why


OPTIONS: dict[str, Any] = {"timeout": 0.5, "max_retries": 3, "deadline": 20}
"""Of every client; the one row that needs a shorter deadline has its own."""

ROWS = [Row(**row) for row in load("faults")["cases"]]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


# The waits of the real back-off are shown elsewhere; here they would only take time.
pytestmark = pytest.mark.usefixtures("coreason_clock")


def make_request() -> ServiceRequest:
    return ServiceRequest(
        context=SessionContext(user_id="user_123", session_id="sess_abc"),
        payload=AgentRequest(messages=[ChatMessage.user("Count.")]),
    )


@dataclass
class Result:
    packets: list[Packet]
    error: CAPError | None
    stream: PacketStream | AsyncPacketStream


def options_for(run: Run) -> dict[str, Any]:
    return OPTIONS | ({"deadline": 0.7} if run.fault.name == "hung_with_heartbeats" else {})


def read_sync(run: Run) -> Result:
    packets: list[Packet] = []
    error: CAPError | None = None
    with CAPClient(run.base_url, "sk_secret", **options_for(run)) as client:
        stream = client.assist(make_request())
        try:
            packets.extend(stream)
        except CAPError as raised:
            error = raised
    return Result(packets, error, stream)


def read_async(run: Run) -> Result:
    async def main() -> Result:
        packets: list[Packet] = []
        error: CAPError | None = None
        async with AsyncCAPClient(run.base_url, "sk_secret", **options_for(run)) as client:
            stream = client.assist(make_request())
            try:
                async for packet in stream:
                    packets.append(packet)  # noqa: PERF401 - those before an error count
            except CAPError as raised:
                error = raised
        return Result(packets, error, stream)

    return asyncio.run(main())


CLIENTS: dict[str, Callable[[Run], Result]] = {"CAPClient": read_sync, "AsyncCAPClient": read_async}


@pytest.mark.proves(
    "RES1-accept-and-close-wire",
    "RES1-busy-wire",
    "RES1-clean-end-wire",
    "RES1-drip-wire",
    "RES1-fin-wire",
    "RES1-final-wire",
    "RES1-garbage-wire",
    "RES1-keep-alive-wire",
    "RES1-order-wire",
    "RES1-other-stream-wire",
    "RES1-replay-wire",
    "RES1-rst-wire",
    "RES1-stall-wire",
    "RES1-too-large-wire",
)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_fault(
    row: Row, client: str, server: FaultServer, record_property: Callable[[str, object], None]
) -> None:
    run = server.run(row.fault, **row.options)
    result = CLIENTS[client](run)

    expected = [packet.seq for packet in run.packets if not is_transient(packet)]
    seqs = [packet.seq for packet in result.packets]
    if row.error is None:
        assert result.error is None, repr(result.error)
        assert seqs == expected
    else:
        assert type(result.error).__name__ == row.error
        assert seqs == expected[: row.delivered]
        check_position(result, row)
    if row.reconnects is not None:
        assert result.stream.reconnects == row.reconnects
    if row.requests is not None:
        assert len(run.requests) == row.requests
    assert result.stream.complete is (row.error is None)
    check_every_attempt_is_the_same_request(run)
    assert run.wait_all_closed(), "a connection leaked"
    record_property("table: What happens under each fault", line(row, client, result))


def is_transient(packet: Any) -> bool:
    return isinstance(packet.p, dict) and packet.p.get("severity") in ("TRANSIENT", "FATAL")


def check_position(result: Result, row: Row) -> None:
    assert result.error is not None
    position = result.error.position
    if not row.delivered:
        assert position is None
        return
    assert position is not None
    assert position.stream_id == result.packets[0].stream_id
    assert position.seq >= result.packets[-1].seq


def check_every_attempt_is_the_same_request(run: Run) -> None:
    bodies = {request.body for request in run.requests}
    assert len(bodies) == 1
    [body] = bodies
    request_id = ServiceRequest.model_validate_json(body).request_id
    for request in run.requests:
        assert request.method == "POST"
        assert UUID(request.headers["x-request-id"]) == request_id
        foreign = request.origin != run.requests[0].origin
        assert ("authorization" in request.headers) is not foreign


def line(row: Row, client: str, result: Result) -> str:
    came = f"{len(result.packets)} packets, {result.stream.reconnects} reconnects"
    end = "CLOSE" if result.error is None else type(result.error).__name__
    return f"{row.name:<48} {client:<15} {came:<26} {end}"


def test_every_fault_of_the_server_has_a_row() -> None:
    assert {row.fault for row in ROWS} == set(FAULTS)


@pytest.mark.proves("RES1-half-open-wire")
@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
def test_silence_is_noticed_after_a_minute_unless_the_caller_says_otherwise(face: Any) -> None:
    # What happens then is in the rows of `stall`; nobody wants to wait for it here. So this looks
    # at the limit that reaches the transport.
    limits: list[dict[str, float]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        limits.append(dict(request.extensions["timeout"]))
        return httpx2.Response(401)

    transport = httpx2.MockTransport(answer)
    if face is CAPClient:
        with httpx2.Client(transport=transport) as http, pytest.raises(CAPRuntimeError):
            face("http://127.0.0.1", "key", http_client=http).ask("x")
    else:

        async def main() -> None:
            async with httpx2.AsyncClient(transport=transport) as http:
                with pytest.raises(CAPRuntimeError):
                    await face("http://127.0.0.1", "key", http_client=http).ask("x")

        asyncio.run(main())
    assert [limit["read"] for limit in limits] == [60.0]
    assert limits[0]["connect"] == 10.0


def test_the_server_wish_is_honoured(server: FaultServer, coreason_clock: VirtualClock) -> None:
    run = server.run("status_on_reconnect", status=503, retry_after="10")
    result = read_sync(run)
    assert result.error is None
    assert coreason_clock.waits[1] >= 10


def test_a_reconnect_costs_what_was_missed(server: FaultServer) -> None:
    run = server.run("rst_mid_event", packets=20, fault_after=8)
    assert read_sync(run).error is None
    assert run.last_event_ids == [None, f"{run.stream_id}:8"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_close_that_arrived_before_a_reset_is_not_lost(
    client: str, server: FaultServer
) -> None:
    run = server.run("burst_then_rst", packets=20, fault_after=21)
    result = CLIENTS[client](run)
    assert len(result.packets) == 21
    assert len(run.requests) == 1


def test_every_break_may_be_repeated_as_long_as_there_is_progress(server: FaultServer) -> None:
    run = server.run("rst_mid_event", packets=40, fault_after=2, times=10**6, every=2)
    result = read_sync(run)
    assert result.error is None
    assert [packet.seq for packet in result.packets] == list(range(1, 42))
    assert result.stream.reconnects > 10


def test_no_key_is_in_any_message(server: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    for row in ROWS:
        if row.error is not None and row.fault != "huge_event":
            result = read_sync(server.run(row.fault, **row.options))
            assert not re.search("sk_secret", f"{result.error!s}{result.error!r}{caplog.text}")
