"""Rules of the resume machine that only Python has, through the sync and the async shell.

The rules of the wire are in `tests/cap/cases`, which `test_wire_cases.py` and the tests of the
JavaScript client run.
"""

import json
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from coreason_client._http._types import (
    FINAL_FAILURES,
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    Timeouts,
)
from coreason_client._retry import Backoff
from coreason_client.cap._resume import ResumeMachine
from coreason_client.cap.errors import (
    CAPConnectionError,
    CAPError,
    CAPRuntimeError,
)
from coreason_client.cap.position import Position
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    StreamPacket,
)
from tests.cap.scripted import (
    KEY,
    SHELLS,
    URL,
    Connection,
    Network,
    Outcome,
    failure,
    machine_for,
    status,
)
from tests.faults import Packet, sse

A = "0a0a0a0a-0000-4000-8000-00000000000a"

Play = Callable[..., Outcome]


@pytest.fixture(params=SHELLS)
def play(request: pytest.FixtureRequest) -> Play:
    run = SHELLS[request.param]

    def play(*connections: Connection, **options: Any) -> Outcome:
        network = Network(connections)
        return run(machine_for(clock=network.clock, **options), network)

    return play


def delta(seq: int, text: str = "w") -> Packet:
    return Packet(A, seq, "DELTA", text)


def close(seq: int) -> Packet:
    return Packet(A, seq, "CLOSE", {"reason": "done"})


def error(seq: int, severity: str) -> Packet:
    fields = {"code": "busy", "message": "too much", "severity": severity}
    return Packet(A, seq, "ERROR", fields)


def words(*seqs: int) -> list[Packet]:
    return [delta(seq, f"w{seq} ") for seq in seqs]


def sends(*packets: Packet, end: Any = None, extra: bytes = b"") -> Connection:
    return Connection([sse(p) for p in packets] + [extra], end)


LOST = failure()


def raised(outcome: Outcome, kind: type[CAPError]) -> CAPError:
    assert type(outcome.error) is kind, repr(outcome.error)
    return outcome.error


# The course of a stream


@pytest.mark.proves(
    "RFC004-3.2-first-cursor", "RFC004-3.2-parse", "RFC004-3.2-close", "RFC004-3.2-loop"
)
def test_a_stream_is_read_to_its_close_and_no_further(play: Play) -> None:
    outcome = play(sends(*words(1, 2), close(3), *words(4)))
    assert outcome.seqs == [1, 2, 3]
    assert isinstance(outcome.packets[-1], ClosePacket)
    assert all(isinstance(packet, StreamPacket) for packet in outcome.packets)
    assert outcome.network.cursors == [None]
    assert outcome.error is None


@pytest.mark.proves(
    "RFC004-2.2-transparency",
    "RFC004-3.2-loss",
    "RFC004-3.2-last-event-id",
    "RFC004-3.2-new-packet",
    "R06a",
    "RES1-loss-mid-event",
)
@pytest.mark.parametrize("kind", sorted(set(FailureKind) - FINAL_FAILURES))
def test_every_transport_failure_is_a_lost_connection(play: Play, kind: FailureKind) -> None:
    cut = sse(delta(3))[:25]
    outcome = play(sends(*words(1, 2), extra=cut, end=failure(kind)), sends(*words(3, 4), close(5)))
    assert outcome.seqs == [1, 2, 3, 4, 5]
    assert outcome.network.cursors == [None, f"{A}:2"]
    assert outcome.network.delays == [0.5]


@pytest.mark.proves("R06c")
@pytest.mark.parametrize("kind", sorted(FINAL_FAILURES - {FailureKind.CLOSED}))
def test_what_no_retry_mends_is_an_error_at_once(play: Play, kind: FailureKind) -> None:
    outcome = play(Connection(refused=failure(kind, "certificate has expired")))
    problem = raised(outcome, CAPConnectionError)
    assert "certificate has expired" in str(problem)
    assert problem.__cause__ is not None
    assert outcome.network.delays == []


def test_a_client_closed_during_a_wait_ends_the_stream() -> None:
    machine = machine_for()
    machine.next_step()
    machine.lost(LOST)
    machine.next_step()  # the wait
    with pytest.raises(CAPConnectionError, match="closed"):
        machine.lost(failure(FailureKind.CLOSED, "the client was closed"))


@pytest.mark.parametrize("stop_after", [1, 2])
def test_a_packet_is_handed_out_before_the_next_is_looked_at(stop_after: int) -> None:
    machine = machine_for()
    machine.next_step()
    assert machine.accepts(ResponseHead(200, Headers([("Content-Type", "text/event-stream")])))
    packets = machine.receive(b"".join(sse(p) for p in words(1, 2, 3)))
    for _ in range(stop_after):
        next(packets)
    assert machine.position == Position(
        stream_id=UUID(A), seq=stop_after, cursor=f"{A}:{stop_after}"
    )


# The deadline of an answer


def test_a_request_has_no_limit_beyond_the_deadline(play: Play) -> None:
    outcome = play(Connection([sse(delta(1))], end=LOST, seconds=4), sends(close(2)), deadline=10)
    first, second = outcome.network.requests
    assert first.timeouts == Timeouts(10, 10, 10, 10)
    assert second.timeouts == Timeouts(5.5, 5.5, 5.5, 5.5)
    assert (first.deadline, second.deadline) == (10, 10)


def test_without_a_deadline_a_request_keeps_its_limits(play: Play) -> None:
    [request] = play(sends(close(1))).network.requests
    assert (request.timeouts, request.deadline) == (None, None)


# What an error says


@pytest.mark.parametrize("proxy", [None, "http://proxy.example:3128"])
def test_a_connection_error_names_method_url_and_proxy(play: Play, proxy: str | None) -> None:
    for connection in (Connection(refused=LOST), Connection(refused=failure(FailureKind.REQUEST))):
        problem = raised(play(connection, max_retries=0, proxy=proxy), CAPConnectionError)
        assert (problem.method, problem.url, problem.proxy) == ("POST", URL, proxy)
        assert f"POST {URL}" in str(problem)
        assert ("through the proxy http://proxy.example:3128" in str(problem)) is bool(proxy)


# Gaps and positions


@pytest.mark.proves("R12b")
def test_a_gap_that_stays_is_legal_and_warned_of_once(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    gapped = [*words(1, 2, 4, 6, 8), close(10)]
    with caplog.at_level(logging.WARNING, "coreason_client"):
        outcome = play(sends(*gapped), sends(*gapped))
    assert outcome.seqs == [1, 2, 4, 6, 8, 10]
    assert len(outcome.network.requests) == 2
    assert sum("skips sequence numbers" in record.message for record in caplog.records) == 1


def test_a_position_goes_on_where_another_process_stopped(play: Play) -> None:
    began = play(sends(*words(1, 2)), max_retries=0)
    assert began.error is not None
    assert began.error.position is not None
    saved = json.dumps(began.error.position.dump())
    position = Position.model_validate_json(saved)
    outcome = play(sends(*words(2, 3), close(4)), position=position)
    assert outcome.network.cursors == [f"{A}:2"]
    assert outcome.seqs == [3, 4]


# Errors in the stream


@pytest.mark.proves("R14f", "RFC005-1-warning")
def test_a_warning_is_handed_out_and_the_stream_goes_on(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "coreason_client"):
        outcome = play(sends(*words(1), error(2, "WARNING"), *words(3), close(4)))
    assert outcome.seqs == [1, 2, 3, 4]
    assert isinstance(outcome.packets[1], ErrorPacket)
    assert "busy: too much" in caplog.text
    assert len(outcome.network.requests) == 1


# What is said and logged


def test_a_reconnect_is_one_line_with_all_that_matters(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "coreason_client"):
        play(sends(*words(1, 2), end=failure(words="reset by peer")), sends(close(3)))
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    line = record.getMessage()
    for part in ("attempt 1 of 3", "0.50 s", f"seq 2 of stream {A}", "reset by peer"):
        assert part in line


def test_no_secret_is_repeated(play: Play) -> None:
    body = json.dumps({"detail": f"Bearer {KEY} is wrong, {KEY}"}).encode()
    problem = raised(play(status(401, body)), CAPRuntimeError)
    assert "is wrong" in str(problem)
    assert KEY not in str(problem) + repr(problem)


def test_no_secret_of_a_url_is_repeated() -> None:
    def attempt(cursor: str | None) -> Request:
        return Request("POST", "https://me:pa55@agent.example/assist?token=t0k", {}, b"")

    machine = ResumeMachine(attempt, backoff=Backoff())
    machine.next_step()
    with pytest.raises(CAPRuntimeError) as caught:
        machine.refused(ResponseHead(500, Headers()), b"")
    assert "https://agent.example/assist" in str(caught.value)
    assert "pa55" not in str(caught.value)
    assert "t0k" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]", b'{"detail": 5}', b"<html>", b"null"])
def test_a_body_that_says_nothing_is_left_out(play: Play, body: bytes) -> None:
    problem = raised(play(status(500, body)), CAPRuntimeError)
    assert str(problem).endswith("HTTP 500")


def test_packets_narrow_by_type(play: Play) -> None:
    outcome = play(sends(*words(1), close(2)))
    kinds: list[str] = []
    for packet in outcome.packets:
        match packet:
            case DeltaPacket(p=text):
                kinds.append(text)
            case ClosePacket():
                kinds.append("closed")
    assert kinds == ["w1 ", "closed"]


# The next answer of a conversation


IDLE = Connection([b":\n\n"], seconds=60)
DOWN = Connection(refused=LOST)


@pytest.mark.proves("R35e")
@pytest.mark.parametrize("after", ["", f"{A}:9"])
def test_a_conversation_may_be_silent_for_long(play: Play, after: str) -> None:
    """Each response that is accepted restores the retries; the delay grows."""
    outcome = play(*[IDLE] * 6, sends(*words(1), close(2)), after=after, reconnect_for=30)
    assert outcome.seqs == [1, 2]
    assert outcome.network.cursors == [after or None] * 7
    assert outcome.network.delays == [0.5, 1, 2, 4, 8, 16]


@pytest.mark.proves("R35e")
@pytest.mark.parametrize("after", ["", f"{A}:9"])
def test_a_follower_outlives_a_restart_between_two_answers(play: Play, after: str) -> None:
    known = after or f"{A}:8"
    first = [] if after else [Connection([f"id: {known}\n\n".encode()])]
    down = [status(503), DOWN, DOWN, DOWN, DOWN]
    last = sends(*words(1), close(2))
    outcome = play(*first, *down, last, after=after, reconnect_for=30)
    assert outcome.seqs == [1, 2]
    assert outcome.network.cursors == [*([None] if first else []), *[known] * 6]


@pytest.mark.proves("R35e")
def test_a_conversation_that_was_never_reached_is_an_error(play: Play) -> None:
    assert raised(play(status(503), after=""), CAPRuntimeError).status_code == 503
    assert raised(play(*[DOWN] * 4, after="", reconnect_for=30), CAPConnectionError).attempts == 4
    gone = play(status(404), after=f"{A}:9", reconnect_for=30)
    assert raised(gone, CAPRuntimeError).status_code == 404
    refused = play(*[status(503)] * 4, after=f"{A}:9")
    assert raised(refused, CAPConnectionError).status_code == 503
