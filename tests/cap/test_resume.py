"""Each rule of the resume machine by itself, through the sync and the async shell."""

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
    CAPProtocolError,
    CAPRuntimeError,
    CAPStreamReset,
    CAPTimeoutError,
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
    Server,
    failure,
    machine_for,
    status,
)
from tests.faults.wire import Packet, block, sse

A = "0a0a0a0a-0000-4000-8000-00000000000a"
B = "0b0b0b0b-0000-4000-8000-00000000000b"

Play = Callable[..., Outcome]


@pytest.fixture(params=SHELLS)
def play(request: pytest.FixtureRequest) -> Play:
    run = SHELLS[request.param]

    def play(*connections: Connection | Server, **options: Any) -> Outcome:
        first = connections[0]
        network = Network(first if callable(first) else connections)  # type: ignore[arg-type]
        return run(machine_for(clock=network.clock, **options), network)

    return play


def delta(seq: int, text: str = "w", stream: str = A) -> Packet:
    return Packet(stream, seq, "DELTA", text)


def close(seq: int, stream: str = A) -> Packet:
    return Packet(stream, seq, "CLOSE", {"reason": "done"})


def error(seq: int, severity: str, stream: str = A, **details: Any) -> Packet:
    fields = {"code": "busy", "message": "too much", "severity": severity}
    return Packet(stream, seq, "ERROR", fields | ({"details": details} if details else {}))


def words(*seqs: int, stream: str = A) -> list[Packet]:
    return [delta(seq, f"w{seq} ", stream) for seq in seqs]


def sends(
    *packets: Packet, end: Any = None, with_id: bool = True, extra: bytes = b""
) -> Connection:
    return Connection([sse(p, with_id=with_id) for p in packets] + [extra], end)


LOST = failure()
NOTHING = Connection(end=LOST)


def raised(outcome: Outcome, kind: type[CAPError]) -> CAPError:
    assert type(outcome.error) is kind, repr(outcome.error)
    return outcome.error


# The way of a stream


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


@pytest.mark.proves("RFC004-3.2-first-seq", "R15k")
@pytest.mark.parametrize("first", [0, 1, 7, 10**12])
def test_a_stream_may_start_at_any_number(play: Play, first: int) -> None:
    outcome = play(sends(delta(first), close(first + 1)))
    assert outcome.seqs == [first, first + 1]
    assert len(outcome.network.requests) == 1


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


@pytest.mark.proves("R06b", "RES1-clean-end")
def test_an_end_of_body_before_close_is_a_lost_connection(play: Play) -> None:
    outcome = play(sends(*words(1, 2)), sends(*words(3), close(4)))
    assert outcome.seqs == [1, 2, 3, 4]


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


# Budget and delays


@pytest.mark.proves(
    "R07a", "R07d", "R07e", "RFC004-5-connection", "RFC004-3.2-backoff", "RES1-accept-and-close"
)
def test_the_budget_counts_losses_in_a_row(play: Play) -> None:
    outcome = play(sends(*words(1, 2)), *[NOTHING] * 5, max_retries=5)
    problem = raised(outcome, CAPConnectionError)
    assert outcome.network.delays == [0.5, 1, 2, 4, 8]
    assert problem.attempts == 6
    assert problem.position == Position(stream_id=UUID(A), seq=2, cursor=f"{A}:2")
    assert problem.__cause__ is LOST.__cause__
    assert "reset" in str(problem)


@pytest.mark.proves("R07e", "RFC004-3.2-backoff", "RFC004-3.2-first-delay")
def test_delays_double_up_to_thirty_seconds(play: Play) -> None:
    outcome = play(*[NOTHING] * 10, max_retries=9)
    assert outcome.network.delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_no_retries_means_no_reconnect(play: Play) -> None:
    outcome = play(sends(*words(1)), max_retries=0)
    assert raised(outcome, CAPConnectionError).attempts == 1
    assert outcome.network.delays == []


@pytest.mark.proves("R07b", "R07k", "RFC004-3.2-delay-reset")
def test_a_new_packet_refills_the_budget_and_resets_the_delay(play: Play) -> None:
    outcome = play(
        NOTHING,
        NOTHING,
        sends(*words(1)),
        NOTHING,
        NOTHING,
        sends(*words(2), close(3)),
        max_retries=3,
    )
    assert outcome.seqs == [1, 2, 3]
    assert outcome.network.delays == [0.5, 1, 0.5, 1, 2]


@pytest.mark.proves("R07j", "RES1-accept-and-close")
@pytest.mark.parametrize(
    "empty",
    [
        Connection(),
        Connection([b": hello\n\n"]),
        Connection([b"id: x\n\n"]),
        sends(*words(1)),  # known already
    ],
    ids=["nothing", "a comment", "an id", "a duplicate"],
)
def test_a_mere_200_does_not_refill_the_budget(play: Play, empty: Connection) -> None:
    outcome = play(sends(*words(1)), empty, empty, empty, max_retries=3)
    raised(outcome, CAPConnectionError)
    assert outcome.network.delays == [0.5, 1, 2]


@pytest.mark.proves("R07c", "R14d")
@pytest.mark.parametrize("severity", ["WARNING", "TRANSIENT"])
def test_an_error_packet_never_refills_the_budget(play: Play, severity: str) -> None:
    outcome = play(
        sends(*words(1)),
        sends(error(2, severity)),
        sends(error(3, severity)),
        sends(error(4, severity)),
        max_retries=3,
    )
    raised(outcome, CAPConnectionError)
    assert outcome.network.delays == [0.5, 1, 2]


@pytest.mark.proves("R07g")
def test_the_retry_field_is_the_shortest_delay_from_then_on(play: Play) -> None:
    outcome = play(
        sends(*words(1), extra=b"retry: 1500\n", end=LOST),
        NOTHING,
        NOTHING,
        sends(close(2)),
        max_retries=3,
    )
    assert outcome.network.delays == [1.5, 1.5, 2]


@pytest.mark.proves("R07h", "RES1-busy")
@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after_ms": "2500"}, 2.5),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:09 GMT"}, 9.0),
        ({"retry_after": "soon"}, 1.0),
        ({"retry_after": "-5"}, 1.0),
        ({}, 1.0),
    ],
)
def test_retry_after_is_the_shortest_delay(
    play: Play, headers: dict[str, str], delay: float
) -> None:
    outcome = play(sends(*words(1)), status(503, b"", **headers), sends(close(2)))
    assert outcome.seqs == [1, 2]
    assert outcome.network.delays == [0.5, delay]


@pytest.mark.proves("R07i")
@pytest.mark.parametrize(("wish", "delay"), [(3, 3.0), ("4", 4.0), (-1, 0.5), ("x", 0.5)])
def test_details_retry_after_is_the_shortest_delay(play: Play, wish: Any, delay: float) -> None:
    outcome = play(sends(*words(1), error(2, "TRANSIENT", retry_after=wish)), sends(close(3)))
    assert outcome.network.delays == [delay]


@pytest.mark.proves("R07f")
@pytest.mark.parametrize(
    "asks",
    [
        status(429, retry_after="61"),
        sends(error(2, "TRANSIENT", retry_after=61)),
        Connection([b"retry: 61000\n\n"]),
    ],
    ids=["header", "packet", "field"],
)
def test_a_wish_beyond_the_cap_is_an_error_instead(play: Play, asks: Connection) -> None:
    outcome = play(sends(*words(1)), asks)
    problem = raised(outcome, CAPConnectionError)
    assert problem.retry_after == 61
    assert "61 s" in str(problem)
    assert outcome.network.delays == [0.5]


def test_a_wish_at_the_cap_is_granted(play: Play) -> None:
    outcome = play(sends(*words(1)), status(503, retry_after="60"), sends(close(2)))
    assert outcome.network.delays == [0.5, 60]


def test_jitter_shortens_a_delay_but_not_a_wish(play: Play) -> None:
    outcome = play(
        sends(*words(1)), NOTHING, status(503, retry_after="2"), sends(close(2)), jitter=1.0
    )
    assert outcome.network.delays == [0.25, 0.5, 2]


@pytest.mark.proves("R07l")
def test_exhausted_by_statuses_carries_the_last_status(play: Play) -> None:
    busy = status(503, b'{"detail": "restarting"}', retry_after="1")
    outcome = play(sends(*words(1)), busy, busy, busy)
    problem = raised(outcome, CAPConnectionError)
    assert (problem.status_code, problem.retry_after) == (503, 1)
    assert problem.headers is not None
    assert problem.headers["Retry-After"] == "1"
    assert problem.body == b'{"detail": "restarting"}'
    assert "restarting" in str(problem)


@pytest.mark.proves("R07l")
def test_exhausted_by_error_packets_carries_the_last_error(play: Play) -> None:
    outcome = play(*[sends(error(n, "TRANSIENT")) for n in (1, 2, 3, 4)])
    problem = raised(outcome, CAPConnectionError)
    assert problem.stream_error is not None
    assert problem.stream_error.code == "busy"
    assert problem.position is not None
    assert problem.position.seq == 4


@pytest.mark.proves("R07g")
@pytest.mark.parametrize(("header", "delay"), [("1", 1.5), ("3", 3.0)])
def test_of_two_delays_the_longer_one_counts(play: Play, header: str, delay: float) -> None:
    outcome = play(
        sends(*words(1), extra=b"retry: 1500\n", end=LOST),
        status(503, retry_after=header),
        sends(close(2)),
    )
    assert outcome.network.delays == [1.5, delay]


# How long a stream that has begun keeps trying


@pytest.mark.proves("R35a")
def test_a_stream_that_has_begun_is_tried_for_some_time(play: Play) -> None:
    outcome = play(sends(*words(1)), *[NOTHING] * 20, max_retries=3, reconnect_for=30)
    problem = raised(outcome, CAPConnectionError)
    assert outcome.network.delays == [0.5, 1, 2, 4, 8, 14.5]  # the last attempt is at 30 s
    assert problem.attempts == 7


@pytest.mark.proves("R35a")
def test_a_restart_of_the_server_is_survived(play: Play) -> None:
    down = Connection(refused=LOST)
    outcome = play(sends(*words(1)), *[down] * 5, sends(close(2)), max_retries=3, reconnect_for=30)
    assert outcome.seqs == [1, 2]
    assert sum(outcome.network.delays) == 30


@pytest.mark.proves("R35a")
def test_the_time_begins_with_the_first_loss_after_a_packet(play: Play) -> None:
    slow = Connection([sse(delta(2))], end=LOST, seconds=500)
    outcome = play(
        *[sends(*words(1)), NOTHING, slow, *[NOTHING] * 20], max_retries=1, reconnect_for=5
    )
    raised(outcome, CAPConnectionError)
    assert outcome.network.delays == [0.5, 1, 0.5, 1, 2, 1.5]


@pytest.mark.proves("R35a")
def test_max_retries_counts_even_when_the_time_is_over(play: Play) -> None:
    slow = Connection(refused=LOST, seconds=60)
    outcome = play(sends(*words(1)), *[slow] * 9, max_retries=3, reconnect_for=30)
    assert raised(outcome, CAPConnectionError).attempts == 4


@pytest.mark.proves("R35a")
def test_a_stream_that_has_not_begun_is_not_tried_longer(play: Play) -> None:
    outcome = play(*[NOTHING] * 9, max_retries=2, reconnect_for=30)
    assert raised(outcome, CAPConnectionError).attempts == 3


@pytest.mark.proves("R35a")
def test_a_resumed_stream_has_begun(play: Play) -> None:
    position = Position(stream_id=UUID(A), seq=3)
    outcome = play(*[NOTHING] * 9, max_retries=1, reconnect_for=3, position=position)
    assert raised(outcome, CAPConnectionError).attempts == 4


def test_the_server_may_ask_for_more_than_what_is_left_of_the_time(play: Play) -> None:
    busy = status(503, retry_after="50")
    outcome = play(sends(*words(1)), busy, sends(close(2)), max_retries=1, reconnect_for=30)
    assert outcome.network.delays == [0.5, 50]


DRAINS = Connection([b"retry: 200\n\n"])


@pytest.mark.proves("R35d")
def test_a_draining_server_costs_no_budget(play: Play) -> None:
    outcome = play(sends(*words(1), extra=b"retry: 200\n\n"), *[DRAINS] * 9, sends(close(2)))
    assert outcome.seqs == [1, 2]
    assert outcome.network.delays == [0.5] * 10


@pytest.mark.proves("R35d")
def test_a_server_that_only_drains_is_given_up(play: Play) -> None:
    outcome = play(sends(*words(1)), *[DRAINS] * 20, max_retries=2)
    problem = raised(outcome, CAPConnectionError)
    assert len(outcome.network.requests) == 1 + 10 + 2
    assert problem.attempts == 3


@pytest.mark.proves("R35d")
def test_a_new_packet_lets_a_server_drain_again(play: Play) -> None:
    drains = [DRAINS] * 10
    outcome = play(
        sends(*words(1)), *drains, sends(*words(2), extra=b"retry: 1\n\n"), *drains[:9],
        sends(close(3)), max_retries=1,
    )  # fmt: skip
    assert outcome.seqs == [1, 2, 3]


@pytest.mark.parametrize("end", [LOST, None])
def test_only_a_clean_end_after_retry_is_a_drain(play: Play, end: Any) -> None:
    outcome = play(sends(*words(1), extra=b"retry: 1\n", end=end), *[NOTHING] * 3, max_retries=1)
    assert raised(outcome, CAPConnectionError).attempts == 2
    assert len(outcome.network.requests) == (2 if end else 3)


def test_who_wants_no_retries_gets_none_from_a_draining_server_either(play: Play) -> None:
    outcome = play(sends(*words(1), extra=b"retry: 1\n\n"), max_retries=0)
    raised(outcome, CAPConnectionError)
    assert outcome.network.delays == []


# The deadline of an answer


def test_heartbeats_do_not_extend_the_deadline(play: Play) -> None:
    beats = Connection([sse(delta(1)), b": heartbeat\n\n", sse(delta(2))], seconds=10)
    outcome = play(beats, deadline=10)
    problem = raised(outcome, CAPTimeoutError)
    assert isinstance(problem, TimeoutError)
    assert outcome.seqs == [1]
    assert problem.position is not None
    assert "deadline of 10 s" in str(problem)


def test_what_arrived_is_handed_out_before_the_deadline_counts(play: Play) -> None:
    late = Connection([sse(delta(1)) + sse(delta(2)) + sse(close(3))], seconds=10)
    outcome = play(late, deadline=10)
    assert outcome.seqs == [1, 2, 3]
    assert outcome.error is None


def test_no_attempt_is_planned_beyond_the_deadline(play: Play) -> None:
    outcome = play(sends(*words(1)), *[NOTHING] * 9, max_retries=9, deadline=8)
    problem = raised(outcome, CAPTimeoutError)
    assert outcome.network.delays == [0.5, 1, 2, 4]
    assert problem.__cause__ is LOST.__cause__
    assert "reset" in str(problem)


@pytest.mark.parametrize("retries", [0, 3])
def test_a_read_that_waits_until_the_deadline_is_a_timeout(play: Play, retries: int) -> None:
    silent = Connection([sse(delta(1))], end=failure(FailureKind.TIMEOUT), seconds=4.995)
    raised(play(silent, deadline=5, max_retries=retries), CAPTimeoutError)


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


# Statuses


@pytest.mark.parametrize("seq", [1, 7])
def test_204_for_a_saved_position_means_that_nothing_follows_it(play: Play, seq: int) -> None:
    position = Position(stream_id=UUID(A), seq=seq)
    outcome = play(Connection(refused=LOST), status(204), position=position)
    assert (outcome.packets, outcome.error) == ([], None)
    assert outcome.machine.complete


def test_204_after_a_packet_of_a_resumed_stream_is_final(play: Play) -> None:
    position = Position(stream_id=UUID(A), seq=1)
    outcome = play(sends(*words(2)), status(204), position=position)
    assert raised(outcome, CAPRuntimeError).status_code == 204


ERRORS = [400, 401, 403, 404, 408, 409, 410, 418, 422, 425, 429, 500, 501, 502, 503, 504, 599]
RETRIED = [408, 425, 429, 500, 502, 503, 504]


@pytest.mark.proves(
    "R08a", "R08d", "RFC004-3.2-http-status", "RFC004-5-runtime-status", "RES1-final-first"
)
@pytest.mark.parametrize("code", [*ERRORS, 204, 301, 302])
def test_any_other_status_on_the_first_attempt_is_an_error_at_once(play: Play, code: int) -> None:
    outcome = play(status(code, b'{"title": "No"}', retry_after="9"))
    problem = raised(outcome, CAPRuntimeError)
    assert problem.status_code == code
    assert problem.retry_after == 9
    assert problem.body == b'{"title": "No"}'
    assert problem.headers is not None
    assert problem.headers["retry-after"] == "9"
    assert problem.stream_error is None
    assert str(code) in str(problem)
    assert outcome.network.delays == []


@pytest.mark.proves("R08b", "RES1-busy")
@pytest.mark.parametrize("code", RETRIED)
def test_some_statuses_on_a_reconnect_are_one_more_loss(play: Play, code: int) -> None:
    outcome = play(sends(*words(1)), status(code), status(code), sends(close(2)))
    assert outcome.seqs == [1, 2]
    assert outcome.network.delays == [0.5, 1, 2]


def test_a_status_after_a_refused_connection_is_a_reconnect(play: Play) -> None:
    outcome = play(Connection(refused=LOST), status(503), sends(close(1)))
    assert outcome.seqs == [1]


@pytest.mark.proves("R08c", "RES1-final-reconnect")
@pytest.mark.parametrize("code", [204, 301, *sorted(set(ERRORS) - set(RETRIED))])
def test_any_other_status_on_a_reconnect_is_final(play: Play, code: int) -> None:
    outcome = play(sends(*words(1)), status(code))
    problem = raised(outcome, CAPRuntimeError)
    assert problem.status_code == code
    assert problem.position is not None
    assert problem.position.seq == 1
    assert outcome.network.delays == [0.5]


HTML = Connection(headers={"content-type": "text/html"}, body=b"<h1>hello</h1>")


@pytest.mark.proves("R09a", "RES1-final-first")
@pytest.mark.parametrize("kind", ["text/html", "application/json", "", "text/event-streamx"])
def test_another_content_type_at_first_is_a_protocol_error(play: Play, kind: str) -> None:
    outcome = play(Connection(headers={"content-type": kind}, body=b"<h1>hello</h1>"))
    problem = raised(outcome, CAPProtocolError)
    assert problem.status_code == 200
    assert "text/event-stream" in str(problem)


@pytest.mark.proves("R09b", "RES1-busy")
def test_another_content_type_on_a_reconnect_is_one_more_loss(play: Play) -> None:
    outcome = play(sends(*words(1)), HTML, sends(close(2)))
    assert outcome.seqs == [1, 2]
    assert outcome.network.delays == [0.5, 1]


@pytest.mark.proves("SSE-charset")
@pytest.mark.parametrize(
    "kind", ["text/event-stream; charset=latin-1", "Text/Event-Stream", "text/event-stream ;x=y"]
)
def test_parameters_and_case_of_the_content_type_do_not_matter(play: Play, kind: str) -> None:
    body = [sse(delta(1, "naïve")), sse(close(2))]
    outcome = play(Connection(body, headers={"Content-Type": kind}))
    assert outcome.packets[0].p == "naïve"


# Redirects


def moved(to: str, code: int = 307) -> Connection:
    return status(code, location=to)


@pytest.mark.parametrize("code", [307, 308])
def test_a_redirect_at_the_same_origin_keeps_everything(play: Play, code: int) -> None:
    outcome = play(moved("/v2/assist", code), sends(close(1)))
    first, second = outcome.network.requests
    assert second.url == "https://agent.example/v2/assist"
    assert (
        second.method,
        second.content,
        dict(second.headers),
        second.without_client_defaults,
    ) == (
        first.method,
        first.content,
        dict(first.headers),
        False,
    )
    assert outcome.network.delays == []
    assert outcome.machine.reconnects == 0


def test_redirects_are_counted_for_each_attempt(play: Play) -> None:
    hops = [moved("/a"), moved("/b"), moved("/c")]
    outcome = play(*hops, sends(*words(1)), *hops, sends(close(2)))
    assert outcome.seqs == [1, 2]


@pytest.mark.parametrize(
    "target",
    ["https://other.example/x", "http://agent.example/assist", "https://agent.example:444/assist"],
)
def test_credentials_never_leave_the_origin(play: Play, target: str) -> None:
    back = "https://agent.example/assist"
    outcome = play(moved(target), moved(back), sends(close(1)))
    _, second, third = outcome.network.requests
    for request in (second, third):
        assert request.without_client_defaults
        assert set(request.headers) == {"Accept"}
        assert request.content == b'{"the": "request"}'
    assert third.url == back


def test_a_reconnect_starts_from_the_first_address_again(play: Play) -> None:
    outcome = play(moved("https://other.example/x"), sends(*words(1)), moved("/y"), sends(close(2)))
    urls = [request.url for request in outcome.network.requests]
    assert urls[2:] == ["https://agent.example/assist", "https://agent.example/y"]
    assert "Authorization" in outcome.network.requests[2].headers


def test_redirects_are_bounded(play: Play) -> None:
    outcome = play(lambda request: moved("/again"))
    assert raised(outcome, CAPRuntimeError).status_code == 307
    assert len(outcome.network.requests) == 6


@pytest.mark.parametrize("target", ["ftp://agent.example/x", "file:///etc/passwd"])
def test_a_redirect_to_another_scheme_is_refused(play: Play, target: str) -> None:
    outcome = play(moved(target))
    raised(outcome, CAPRuntimeError)
    assert len(outcome.network.requests) == 1


@pytest.mark.parametrize("target", ["https://agent.example:port/x", "http://[::1/x"])
def test_a_redirect_to_no_address_is_refused(play: Play, target: str) -> None:
    raised(play(moved(target)), CAPRuntimeError)


# Duplicates, streams, gaps


@pytest.mark.proves("R10b", "RFC004-3.2-dedupe", "RES1-duplicates")
def test_duplicates_are_dropped(play: Play) -> None:
    outcome = play(sends(*words(1, 2, 2, 1, 3, 3), close(4)))
    assert outcome.seqs == [1, 2, 3, 4]
    assert len(outcome.network.requests) == 1


@pytest.mark.proves("R13c", "RES1-replay")
def test_a_replay_from_the_start_is_dropped_up_to_the_position(play: Play) -> None:
    outcome = play(sends(*words(1, 2, 3)), sends(*words(1, 2, 3, 4), close(5)))
    assert outcome.seqs == [1, 2, 3, 4, 5]


@pytest.mark.proves("R10a")
def test_numbers_are_kept_per_stream(play: Play) -> None:
    a, b = words(5, 6, 7), words(1, 2, stream=B)
    outcome = play(sends(a[0], b[0], a[1], a[0], b[1], a[2], b[0], close(8)))
    assert [(packet.stream_id, packet.seq) for packet in outcome.packets[:-1]] == [
        (UUID(stream), seq) for stream, seq in [(A, 5), (B, 1), (A, 6), (B, 2), (A, 7)]
    ]


@pytest.mark.proves("R11a", "R11b", "RES1-other-stream")
def test_another_stream_after_a_reconnect_is_never_joined(play: Play) -> None:
    outcome = play(sends(*words(1, 2)), sends(*words(1, 2, 3, stream=B), close(4, B)))
    assert outcome.seqs == [1, 2]
    problem = outcome.error
    assert isinstance(problem, CAPStreamReset)
    assert (problem.expected, problem.received) == (UUID(A), UUID(B))
    assert A in str(problem)
    assert B in str(problem)
    assert problem.position is not None
    assert (str(problem.position.stream_id), problem.position.seq) == (A, 2)


@pytest.mark.proves("R11a")
def test_another_stream_after_a_replay_is_never_joined(play: Play) -> None:
    outcome = play(sends(*words(1, 2)), sends(*words(1, 2), *words(1, stream=B)))
    assert outcome.seqs == [1, 2]
    raised(outcome, CAPStreamReset)


def test_both_streams_of_a_request_may_come_back_after_a_reconnect(play: Play) -> None:
    outcome = play(
        sends(*words(1), *words(1, stream=B)), sends(*words(2), *words(2, stream=B), close(3))
    )
    assert len(outcome.packets) == 5


def test_before_the_first_packet_any_stream_will_do(play: Play) -> None:
    outcome = play(NOTHING, sends(*words(1, stream=B), close(2, B)))
    assert outcome.seqs == [1, 2]


@pytest.mark.proves("R12a", "RES1-out-of-order")
def test_a_jump_leads_to_one_reconnect_from_the_last_good_position(play: Play) -> None:
    outcome = play(sends(*words(1, 2, 4, 3, 5)), sends(*words(3, 4, 5), close(6)))
    assert outcome.seqs == [1, 2, 3, 4, 5, 6]
    assert outcome.network.cursors == [None, f"{A}:2"]
    assert outcome.network.delays == [0.5]


@pytest.mark.proves("R12a")
def test_a_jump_across_two_connections_is_a_gap_too(play: Play) -> None:
    outcome = play(sends(*words(1, 2)), sends(*words(4)), sends(*words(3, 4), close(5)))
    assert outcome.seqs == [1, 2, 3, 4, 5]
    assert outcome.network.cursors == [None, f"{A}:2", f"{A}:2"]


@pytest.mark.proves("R12b")
def test_a_gap_that_stays_is_legal_and_warned_of_once(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    gapped = [*words(1, 2, 4, 6, 8), close(10)]
    with caplog.at_level(logging.WARNING, "coreason_client"):
        outcome = play(sends(*gapped), sends(*gapped))
    assert outcome.seqs == [1, 2, 4, 6, 8, 10]
    assert len(outcome.network.requests) == 2
    assert sum("numbers with gaps" in record.message for record in caplog.records) == 1


@pytest.mark.proves("R34a")
@pytest.mark.parametrize(
    ("numbers", "delivered"),
    [
        ([1, 2, 5, 3, 4, 6], [1, 2, 5]),
        ([1, 2, 999, 4, 5, 6], [1, 2, 999]),
        ([1, 2, 4, 6, 5], [1, 2, 4, 6]),
        ([1, 2, 4, 6, 3], [1, 2, 4, 6]),
        ([7, 8, 5], [7, 8]),
    ],
)
def test_a_late_packet_is_never_taken_for_a_duplicate(
    play: Play, numbers: list[int], delivered: list[int]
) -> None:
    server = [*words(*numbers), close(max(numbers) + 1)]
    outcome = play(sends(*server), sends(*server))
    problem = raised(outcome, CAPProtocolError)
    assert "out of order" in str(problem)
    assert outcome.seqs == delivered
    assert problem.position is not None
    assert problem.position.seq == delivered[-1]


@pytest.mark.proves("R34a")
def test_duplicates_around_a_legal_gap_are_dropped(play: Play) -> None:
    gapped = [*words(1, 2, 5, 2, 5, 1, 9, 5, 9), close(10)]
    outcome = play(sends(*gapped), sends(*gapped))
    assert outcome.seqs == [1, 2, 5, 9, 10]


@pytest.mark.proves("R34a")
def test_the_gaps_of_a_stream_are_kept_while_another_is_read(play: Play) -> None:
    server = [*words(1), *words(1, stream=B), *words(3), *words(2, stream=B), *words(2), close(4)]
    outcome = play(sends(*server), sends(*server))
    raised(outcome, CAPProtocolError)
    assert [packet.p for packet in outcome.packets] == ["w1 ", "w1 ", "w3 ", "w2 "]


def test_a_gap_is_remembered_across_a_failed_reconnect(play: Play) -> None:
    outcome = play(sends(*words(1, 3)), status(503), sends(*words(3), close(4)))
    assert outcome.seqs == [1, 3, 4]


def test_each_new_gap_gets_its_own_reconnect(play: Play) -> None:
    outcome = play(sends(*words(1, 3)), sends(*words(2, 3, 5)), sends(*words(4, 5), close(6)))
    assert outcome.seqs == [1, 2, 3, 4, 5, 6]


@pytest.mark.proves("R12c")
def test_strict_sequence_makes_a_gap_that_stays_an_error(play: Play) -> None:
    outcome = play(sends(*words(1, 3)), sends(*words(3), close(4)), strict_sequence=True)
    assert raised(outcome, CAPProtocolError).position == Position(
        stream_id=UUID(A), seq=1, cursor=f"{A}:1"
    )
    assert outcome.seqs == [1]


def test_strict_sequence_accepts_a_gap_that_was_mended(play: Play) -> None:
    outcome = play(sends(*words(1, 3)), sends(*words(2, 3), close(4)), strict_sequence=True)
    assert outcome.seqs == [1, 2, 3, 4]


@pytest.mark.proves("R34b")
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_close_is_handed_out_whatever_its_number(play: Play, number: int) -> None:
    outcome = play(sends(*words(1, 2, 3), close(number), *words(4)))
    assert outcome.seqs == [1, 2, 3, number]
    assert outcome.error is None
    assert outcome.machine.complete
    assert outcome.machine.position == Position(stream_id=UUID(A), seq=3, cursor=f"{A}:3")


def test_a_close_that_is_repeated_ends_a_resumed_stream(play: Play) -> None:
    position = Position(stream_id=UUID(A), seq=3, cursor=None)
    outcome = play(sends(*words(1, 2), close(3)), position=position)
    assert outcome.seqs == [3]
    assert outcome.error is None


def test_a_fatal_error_that_is_told_again_is_raised_again(play: Play) -> None:
    position = Position(stream_id=UUID(A), seq=2)
    raised(play(sends(*words(1), error(2, "FATAL")), position=position), CAPRuntimeError)


# Cursor


@pytest.mark.proves("R13a")
def test_the_cursor_is_the_last_id_of_a_complete_event(play: Play) -> None:
    unfinished = b"id: unfinished\ndata: {}\n"
    outcome = play(sends(*words(1, 2), extra=unfinished), sends(close(3)))
    assert outcome.network.cursors == [None, f"{A}:2"]


@pytest.mark.proves("R13b")
def test_without_ids_the_cursor_is_the_stream(play: Play) -> None:
    outcome = play(sends(*words(1, 2), with_id=False), sends(*words(1, 2), close(3)))
    assert outcome.network.cursors == [None, A]
    assert outcome.seqs == [1, 2, 3]


@pytest.mark.proves("RES1-id-only-cursor")
def test_the_cursor_follows_an_id_without_data(play: Play) -> None:
    outcome = play(sends(*words(1), extra=b"id: further\n\n"), sends(close(2)))
    assert outcome.network.cursors == [None, "further"]


def test_an_id_stays_in_force_across_connections(play: Play) -> None:
    outcome = play(sends(*words(1)), sends(*words(2), with_id=False), sends(*words(2, 3), close(4)))
    assert outcome.network.cursors == [None, f"{A}:1", f"{A}:1"]
    assert outcome.seqs == [1, 2, 3, 4]


def test_an_empty_id_takes_the_cursor_back(play: Play) -> None:
    outcome = play(sends(*words(1), extra=b"id\n\n"), sends(close(2)))
    assert outcome.network.cursors == [None, A]


@pytest.mark.parametrize("awkward", ["a\x01b", " a", "a\t", "a\x7f"])
def test_an_id_that_no_header_can_carry_gives_way_to_the_stream(play: Play, awkward: str) -> None:
    data = delta(1).json()
    first = Connection([b"id: " + awkward.encode() + b"\ndata: " + data + b"\n\n"])
    outcome = play(first, sends(close(2)))
    assert outcome.network.cursors == [None, A]


def test_an_id_may_be_any_text(play: Play) -> None:
    first = Connection([block(delta(1).json(), "плюс 7")])
    assert play(first, sends(close(2))).network.cursors == [None, "плюс 7"]


def test_a_position_goes_on_where_another_process_stopped(play: Play) -> None:
    began = play(sends(*words(1, 2)), max_retries=0)
    assert began.error is not None
    assert began.error.position is not None
    saved = json.dumps(began.error.position.dump())
    position = Position.model_validate_json(saved)
    outcome = play(sends(*words(2, 3), close(4)), position=position)
    assert outcome.network.cursors == [f"{A}:2"]
    assert outcome.seqs == [3, 4]


def test_a_position_guards_against_another_stream(play: Play) -> None:
    position = Position(stream_id=UUID(A), seq=2)
    raised(play(sends(*words(1, stream=B)), position=position), CAPStreamReset)


# Errors in the stream


@pytest.mark.proves("R14a", "RFC005-1-fatal", "RFC004-5-runtime-packet")
def test_a_fatal_error_raises_and_is_not_retried(play: Play) -> None:
    outcome = play(sends(*words(1), error(2, "FATAL", retry_after=5), *words(3)))
    problem = raised(outcome, CAPRuntimeError)
    assert outcome.seqs == [1]
    assert problem.stream_error is not None
    assert problem.stream_error.details == {"retry_after": 5}
    assert problem.retry_after == 5
    assert problem.status_code is None
    assert "too much" in str(problem)
    assert outcome.network.delays == []


@pytest.mark.proves("R14b", "R14c", "R14e", "RFC005-1-transient")
def test_a_transient_error_is_a_loss_that_moves_the_cursor(play: Play) -> None:
    outcome = play(
        sends(*words(1), error(2, "TRANSIENT"), *words(3)),
        sends(*words(1), error(2, "TRANSIENT"), *words(3), close(4)),
    )
    assert outcome.seqs == [1, 3, 4]
    assert outcome.network.cursors == [None, f"{A}:2"]
    assert outcome.network.delays == [0.5]


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


INVALID = {
    "json": b'{"stream_id": ',
    "fields": json.dumps({"stream_id": A, "seq": 2, "op": "DELTA", "p": "x"}).encode(),
    "op": Packet(A, 2, "PING", "x").json(),
    "string error": Packet(A, 2, "ERROR", "went wrong").json(),
    "utf-8": delta(2, "naïve").json().replace(b"\xc3\xaf", b"\xc3"),
    "seq": delta(2).json().replace(b'"seq":2', b'"seq":"2"'),
    "empty": b"",
}


@pytest.mark.proves(
    "RFC004-2.1-fail-fast",
    "RFC004-5-protocol-json",
    "RFC004-5-protocol-fields",
    "RFC004-5-protocol-op",
    "R14i",
    "RES1-invalid-utf8",
)
@pytest.mark.parametrize("case", INVALID)
def test_what_is_no_packet_is_a_protocol_error_and_not_retried(play: Play, case: str) -> None:
    outcome = play(Connection([sse(delta(1)), block(INVALID[case]), sse(close(3))]))
    problem = raised(outcome, CAPProtocolError)
    assert outcome.seqs == [1]
    assert problem.position is not None
    assert problem.position.seq == 1
    assert outcome.network.delays == []


@pytest.mark.proves("RES1-too-large-typed")
def test_a_too_large_event_is_a_protocol_error_after_what_came_before(play: Play) -> None:
    chunk = sse(delta(1)) + sse(delta(2, "x" * 500))
    outcome = play(Connection([chunk]), max_event_bytes=400)
    problem = raised(outcome, CAPProtocolError)
    assert outcome.seqs == [1]
    assert "400 bytes" in str(problem)
    assert outcome.network.delays == []


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
