"""The fault table of A2A: what each client does under every fault, against a server that has them.

A task of 20 events: itself, its work, 17 pieces of text in two artifacts, its end. A fault strikes
after event 8 unless its row says otherwise. Each row runs in both dialects through `A2AClient` and
`AsyncA2AClient`; the table of what happened is printed at the end of the run.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AJSONRPCError,
    A2ASSEParseError,
    A2AStreamClosedError,
    A2ATimeoutError,
    AsyncA2AClient,
    Event,
    Task,
    TaskNotFoundError,
    TaskState,
    TaskStatusUpdateEvent,
    UnknownEvent,
    _options,
)
from coreason_client.testing import virtual_clock
from tests.faults import FaultServer

from .model import TASK_ID, Dialect
from .scripts import (
    A2A_FAULTS,
    FRESH_TOKEN,
    UNKNOWN_CODE,
    UNKNOWN_DATA,
    TaskRun,
    start,
)

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
RPC: tuple[Dialect, ...] = ("1.0", "0.3")
# Longer than a busy machine may take for an answer: a timeout more would be a request more.
READ_TIMEOUT = 1.0
# The same for a ping, which is due every 50 ms.
PING_TIMEOUT = 1.5
MIB = 1024 * 1024
BEFORE = "w1 w2 w3 w4 w5 w6 "  # the text of the first eight events


@dataclass(frozen=True)
class Row:
    """A fault and what has to come of it."""

    fault: str
    options: dict[str, Any] = field(default_factory=dict)
    error: type[A2AError] | None = None  # None: exactly the whole text
    text: str = ""  # what is delivered before the error
    calls: tuple[str, ...] | None = None
    dialects: tuple[Dialect, ...] = DIALECTS

    @property
    def name(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.fault}({options})" if options else self.fault


def healed(fault: str, *calls: str, **options: Any) -> Row:
    return Row(fault, options, calls=calls or None)


def fails(fault: str, error: type[A2AError], text: str, *calls: str, **options: Any) -> Row:
    return Row(fault, options, error, text, calls or None)


def only_rpc(row: Row) -> Row:
    """Parts that HTTP+JSON lacks: numbers of calls, codes of errors, answers around events."""
    return replace(row, dialects=RPC)


def no_old(row: Row) -> Row:
    """Faults of subscriptions, which streams of 0.3 do without."""
    return replace(row, dialects=("1.0", "rest"))


def only_old(row: Row) -> Row:
    """Faults while the task is fetched."""
    return replace(row, dialects=("0.3",))


def in_each(fault: str, *calls: str, old: tuple[str, ...], **options: Any) -> list[Row]:
    """Faults that other calls repair in 0.3."""
    return [
        no_old(healed(fault, *calls, **options)),
        only_old(healed(fault, *old, **options)),
    ]


def only_one(row: Row) -> Row:
    """Faults that take long and do not depend on the dialect."""
    return replace(row, dialects=("1.0",))


ONCE = ("stream",)
AGAIN = ("stream", "subscribe")
# After eight of twenty events, or nine where one was lost: four happen between two questions.
FETCHED = ("stream", *["get"] * 4)

ROWS = [
    healed("correct", *ONCE),
    healed("correct", *ONCE, end="failed"),
    healed("correct", *ONCE, end="input-required"),
    healed("separators", *ONCE),
    healed("comments", *ONCE),
    healed("bom", *ONCE),
    *[row for how in ("fin", "rst", "end") for row in in_each("cut", *AGAIN, old=FETCHED, how=how)],
    *[
        row
        for how in ("fin", "rst", "end")
        for row in in_each("cut", *AGAIN, old=FETCHED[:-1], how=how, meanwhile=4)
    ],
    *[
        row
        for how in ("fin", "end")
        for row in in_each("cut", *AGAIN, old=("stream", *["get"] * 6), how=how, after=1)
    ],
    *[healed("cut", *ONCE, how=how, after=20) for how in ("fin", "end")],
    fails("cut", A2AStreamClosedError, "", *ONCE, after=0),
    fails("cut", A2AStreamClosedError, "", *ONCE, after=0, how="end"),
    no_old(healed("cut_again_and_again")),
    no_old(healed("cut_again_and_again", every=1, how="end")),
    *[
        row
        for how in ("fin", "rst", "end")
        for after in (1, 8)
        for row in in_each(
            "finished_meanwhile", *AGAIN, "get", old=FETCHED[:2], how=how, after=after
        )
    ],
    *in_each("joined_snapshot", *AGAIN, old=FETCHED),
    no_old(healed("replay", *AGAIN)),
    no_old(healed("no_snapshot", *AGAIN, "get")),
    no_old(healed("no_snapshot", *AGAIN, "get", meanwhile=0)),
    no_old(healed("cannot_subscribe", *AGAIN, *FETCHED[1:])),
    *[
        only_one(healed("cannot_subscribe", *AGAIN, *FETCHED[1:], code=code))
        for code in (-32601, -32602, -32603, -32001)
    ],
    *[no_old(healed("no_such_page", status=status)) for status in (200, 400, 404, 500, 501)],
    only_old(healed("doubling", *FETCHED)),
    no_old(healed("short_snapshot", *AGAIN, "get")),
    no_old(healed("same_snapshot", "stream", *["subscribe"] * 4)),
    no_old(healed("says_message", *AGAIN, *FETCHED[1:])),
    *in_each("idle", *AGAIN, old=FETCHED),
    *in_each("idle", *AGAIN, old=FETCHED[:-1], meanwhile=4),
    only_one(healed("idle_again_and_again", "stream", *["subscribe"] * 6)),
    *[healed("open_end", *ONCE, end=end) for end in ("completed", "canceled", "input-required")],
    *in_each("open_end", "stream", "get", old=ONCE, end="auth-required"),  # there it is final
    healed("silent_end", "stream", "get"),
    healed("other_pings", *ONCE),
    fails("gone", A2AStreamClosedError, BEFORE),
    *[
        row
        for status in (429, 502, 503)
        for row in in_each("busy", *AGAIN, "subscribe", old=(*FETCHED, "get"), status=status)
    ],
    fails("busy", A2AHTTPError, "", *ONCE, on="stream"),
    healed("unauthorized", "stream", "stream"),
    no_old(healed("unknown_task", *AGAIN, *FETCHED[1:])),
    only_old(fails("unknown_task", TaskNotFoundError, BEFORE, "stream", "get")),
    fails("html", A2AHTTPError, "", *ONCE),
    only_rpc(fails("unknown_code", A2AJSONRPCError, BEFORE, *ONCE)),
    only_rpc(fails("unknown_code", A2AJSONRPCError, BEFORE, *ONCE, event=True)),
    only_rpc(fails("unknown_code", A2AJSONRPCError, "", *ONCE, after=0)),
    only_rpc(fails("unknown_code", A2AJSONRPCError, "", *ONCE, after=0, event=True)),
    only_rpc(fails("error_as_text", A2AJSONRPCError, BEFORE, *ONCE)),
    only_rpc(fails("wrong_id", A2ASSEParseError, BEFORE, *ONCE)),
    only_rpc(healed("id_as_text", *ONCE)),
    fails("nonsense", A2ASSEParseError, BEFORE, *ONCE),
    fails("bad_json", A2ASSEParseError, BEFORE, *ONCE),
    only_rpc(fails("empty_result", A2AEmptyResultError, BEFORE, *ONCE)),
    healed("unknown_payload", *ONCE),
    healed("unknown_state", *ONCE),
    healed("unknown_fields", *ONCE),
    healed("mixed_shapes", *ONCE),
    healed("null_status", *ONCE),
    healed("other_task", *ONCE),
    healed("more_after_the_end", *ONCE),
    healed("bare_task", *ONCE),
    fails("huge_line", A2ASSEParseError, BEFORE, *ONCE),
]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def real_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients wait as long as a server asks for; the waits of the back-off are short."""
    monkeypatch.setattr(_options, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))


@pytest.fixture(autouse=True)
def impatient(request: pytest.FixtureRequest) -> Iterator[None]:
    """The waits of clients are shown elsewhere; here they would only take time."""
    with nullcontext() if "real_waits" in request.fixturenames else virtual_clock():
        yield


class Tokens:
    """A credential that has gone stale until it is asked for again."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        return "stale" if self.asked == 1 else FRESH_TOKEN


@dataclass
class Result:
    """The result of a client that has read a stream."""

    events: list[Event]
    error: A2AError | None
    stream: Any

    @property
    def text(self) -> str:
        """The text that a user has printed."""
        return "".join(event.text for event in self.events)


def options(run: TaskRun) -> dict[str, Any]:
    return {"stream_timeout": silence(run), "timeout": 10.0, "auth": Tokens()}


def silence(run: TaskRun) -> float:
    """Return the read timeout: short only where the test waits for it to pass."""
    if run.fault.name.startswith("idle"):
        return READ_TIMEOUT
    if run.fault.name.startswith(("open_end", "silent_end")):
        return PING_TIMEOUT
    return 10.0


def read_sync(run: TaskRun, **more: Any) -> Result:
    events: list[Event] = []
    error: A2AError | None = None
    with A2AClient.from_agent_card(run.card(), **options(run)) as client:
        stream = client.send_message_stream("count", **more)
        try:
            events.extend(stream)
        except A2AError as raised:
            error = raised
    return Result(events, error, stream)


def read_async(run: TaskRun, **more: Any) -> Result:
    # Not returned by the coroutine: at its end `asyncio.run` makes a text of what that returns.
    made: list[Result] = []

    async def main() -> None:
        events: list[Event] = []
        error: A2AError | None = None
        async with AsyncA2AClient.from_agent_card(run.card(), **options(run)) as client:
            stream = client.send_message_stream("count", **more)
            try:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - those before an error count
            except A2AError as raised:
                error = raised
        made.append(Result(events, error, stream))

    asyncio.run(main())
    return made[0]


CLIENTS: dict[str, Callable[..., Result]] = {"A2AClient": read_sync, "AsyncA2AClient": read_async}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("row", "dialect"),
    [pytest.param(row, way, id=f"{row.name}-{way}") for row in ROWS for way in row.dialects],
)
def test_fault(
    row: Row,
    dialect: Dialect,
    client: str,
    server: FaultServer,
    record_property: Callable[[str, object], None],
) -> None:
    run = start(server, row.fault, dialect=dialect, **row.options)
    result = CLIENTS[client](run)

    if row.error is None:
        assert result.error is None, repr(result.error)
        assert result.text == result.stream.text == result.stream.task.text == run.text
        assert result.stream.task.status.state == state_at_the_end(row)
    else:
        assert isinstance(result.error, row.error), repr(result.error)
        assert result.text == result.stream.text == row.text
        check_position(result)
    if row.calls is not None:
        assert tuple(run.calls) == row.calls
    check_requests(run)
    assert run.run.wait_all_closed(), "a connection leaked"
    title = "table: What happens to A2A streams under each fault"
    record_property(title, line(row, dialect, client, run, result))


def state_at_the_end(row: Row) -> TaskState:
    end: str = row.options.get("end", "completed")
    return TaskState["_".join(end.upper().split("-"))]


def check_position(result: Result) -> None:
    """An error says how far the task had come."""
    error = result.error
    assert error is not None
    if not result.events:
        assert error.task_id is None
        return
    assert error.task_id == TASK_ID
    assert error.task is not None
    assert error.task.text == result.text


def check_requests(run: TaskRun) -> None:
    """A message is the same whenever it is sent; each call has its own number."""
    requests = run.run.requests
    bodies = [json.loads(request.body or b"{}") for request in requests]
    if run.model.dialect != "rest":
        ids = [body["id"] for body in bodies]
        assert len(set(ids)) == len(ids) or run.fault.name == "unauthorized"
        bodies = [body["params"] for body in bodies]
    messages = [body["message"]["messageId"] for body in bodies if "message" in body]
    assert len(set(messages)) == 1
    for request, body, kind in zip(requests, bodies, run.calls, strict=True):
        assert request.headers["a2a-version"] == run.model.version
        if kind in ("subscribe", "get"):
            assert TASK_ID in (request.path if run.model.dialect == "rest" else body["id"])


def line(row: Row, dialect: Dialect, client: str, run: TaskRun, result: Result) -> str:
    calls = " ".join(f"{run.calls.count(kind)}x{kind}" for kind in dict.fromkeys(run.calls))
    came = f"{len(result.events)} events, {len(result.text)}/{len(run.text)} characters"
    end = "whole" if result.error is None else type(result.error).__name__
    return f"{row.name:<44} {dialect:<4} {client:<15} {calls:<31} {came:<31} {end}"


def test_every_fault_of_the_server_has_a_row() -> None:
    assert {row.fault for row in ROWS} == set(A2A_FAULTS) - {"old_server", "silence"}


# What a row cannot say.


def fifty(dialect: Dialect, server: FaultServer, **options: Any) -> TaskRun:
    return start(server, "cut", dialect=dialect, events=50, **options)


def every_other_place(how: str, client: str) -> range:
    """Return the events of one client; the other one has the rest, since both have one rule.

    A reset swaps them, so that in 1.0 each client breaks at each place.
    """
    return range(1 + ((client == "A2AClient") ^ (how == "rst")), 51, 2)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("how", "dialect"),
    # In 0.3 the task is fetched, however the connection was lost.
    [("fin", "1.0"), ("rst", "1.0"), ("end", "1.0"), ("rst", "0.3"), ("fin", "rest")],
)
def test_a_cut_after_any_event_yields_the_same_text(
    how: str, dialect: Dialect, client: str, server: FaultServer
) -> None:
    text = "".join(f"w{number} " for number in range(1, 48))
    for after in every_other_place(how, client):
        # Now and then the task has gone on before the client is back.
        run = fifty(dialect, server, after=after, how=how, meanwhile=after % 4)
        result = CLIENTS[client](run)
        assert result.error is None, (after, result.error)
        assert result.text == result.stream.text == result.stream.task.text == text, after
        assert result.stream.task.status.state is TaskState.COMPLETED
        if dialect == "0.3":
            assert set(run.calls[1:]) <= {"get"}
        else:
            assert run.calls == ["stream", "subscribe", "get"][: len(run.calls)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_is_not_to_be_resumed_says_where_it_broke(
    dialect: Dialect, client: str, server: FaultServer
) -> None:
    run = start(server, "cut", dialect=dialect, how="end")
    result = CLIENTS[client](run, resume=False)
    assert type(result.error) is A2AStreamClosedError
    assert result.error.task_id == TASK_ID
    assert result.error.text == result.text == BEFORE
    assert run.calls == ["stream"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", RPC)
@pytest.mark.parametrize("after", [0, 8])
def test_an_unknown_code_keeps_all_that_came_with_it(
    after: int, dialect: Dialect, client: str, server: FaultServer
) -> None:
    error = CLIENTS[client](start(server, "unknown_code", dialect=dialect, after=after)).error
    assert type(error) is A2AJSONRPCError
    assert (error.code, error.message, error.data) == (UNKNOWN_CODE, "odd", UNKNOWN_DATA)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refusal_keeps_all_that_came_with_it(
    dialect: Dialect, client: str, server: FaultServer
) -> None:
    run = start(server, "busy", dialect=dialect, on="stream", retry_after="7")
    error = CLIENTS[client](run).error
    assert type(error) is A2AHTTPError
    assert error.status == 503
    assert error.retry_after == 7.0
    assert error.headers is not None
    assert error.headers["Retry-After"] == "7"
    assert error.body == b'{"detail":"busy"}'


@pytest.mark.usefixtures("real_waits")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_server_wish_is_honoured(dialect: Dialect, client: str, server: FaultServer) -> None:
    run = start(server, "busy", dialect=dialect, retry_after="0.3")
    assert CLIENTS[client](run).error is None
    assert run.run.delays[1] >= 0.3


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_line_without_an_end_is_not_read_to_its_end(
    dialect: Dialect, client: str, server: FaultServer
) -> None:
    run = start(server, "huge_line", dialect=dialect)
    error = CLIENTS[client](run).error
    assert type(error) is A2ASSEParseError
    assert 0 < len(error.data) <= 1000
    assert run.run.wait_all_closed()
    assert run.run.bytes_sent < 32 * MIB  # ours and what the kernel holds


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_unknown_is_kept(dialect: Dialect, client: str, server: FaultServer) -> None:
    read = CLIENTS[client]
    events = read(start(server, "unknown_payload", dialect=dialect)).events
    [unknown] = [event for event in events if isinstance(event, UnknownEvent)]
    assert "sky" in str(unknown.payload)

    events = read(start(server, "unknown_state", dialect=dialect)).events
    states = [event.status.state for event in events if isinstance(event, TaskStatusUpdateEvent)]
    assert states[1] == ("dreaming" if dialect == "0.3" else "TASK_STATE_DREAMING")

    events = read(start(server, "unknown_fields", dialect=dialect)).events
    extras = [(event.model_extra or {}).get("novelty") for event in events]
    assert extras == [{"number": number} for number in range(1, 21)]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_old_server_is_found_out_once(client: str, server: FaultServer) -> None:
    run = start(server, "old_server", dialect="0.3")

    async def main() -> str:
        async with AsyncA2AClient(run.url) as agent:
            stream = agent.send_message_stream("count")
            text = "".join([event.text async for event in stream])
            return text + (await agent.get_task(TASK_ID)).text

    if client == "AsyncA2AClient":
        text = asyncio.run(main())
    else:
        with A2AClient(run.url) as agent:
            text = "".join(event.text for event in agent.send_message_stream("count"))
            text += agent.get_task(TASK_ID).text
    assert text == run.text * 2
    assert run.calls == ["unknown", "stream", "get"]


# Calls with one answer.

CALLS: dict[str, Callable[[Any], Any]] = {
    "send": lambda agent: agent.send_message("count"),
    "get": lambda agent: agent.get_task(TASK_ID),
    "cancel": lambda agent: agent.cancel_task(TASK_ID),
}


def ask(client: str, run: TaskRun, kind: str, **more: Any) -> Any:
    """Make one call, and return its result or its error."""
    given = options(run) | more

    async def main() -> Any:
        async with AsyncA2AClient.from_agent_card(run.card(), **given) as agent:
            return await CALLS[kind](agent)

    try:
        if client == "AsyncA2AClient":
            return asyncio.run(main())
        with A2AClient.from_agent_card(run.card(), **given) as agent:
            return CALLS[kind](agent)
    except A2AError as error:
        return error


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_call_is_made_again_only_where_that_does_no_harm(
    kind: str, dialect: Dialect, client: str, server: FaultServer
) -> None:
    run = start(server, "gone", dialect=dialect, on=kind, times=1)
    answer = ask(client, run, kind)
    if kind == "send":
        assert isinstance(answer, A2AConnectionError)
        assert run.calls == ["send"]
    else:
        assert isinstance(answer, Task)
        assert run.calls == [kind, kind]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize(
    ("fault", "expected", "dialect"),
    [
        *[("wrong_id", A2AJSONError, dialect) for dialect in RPC],
        *[("bad_json", A2AJSONError, dialect) for dialect in DIALECTS],
        *[("empty_result", A2AEmptyResultError, dialect) for dialect in DIALECTS],
        *[("html", A2AJSONError, dialect) for dialect in DIALECTS],
    ],
)
def test_an_answer_that_is_none_is_an_error(
    fault: str,
    expected: type[A2AError],
    kind: str,
    dialect: Dialect,
    client: str,
    server: FaultServer,
) -> None:
    run = start(server, fault, dialect=dialect, on=kind)
    assert isinstance(ask(client, run, kind), expected)
    assert run.calls == [kind]


@pytest.mark.usefixtures("real_waits")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_refused_call_is_made_again_when_the_server_asks_for_it(
    kind: str, client: str, server: FaultServer
) -> None:
    run = start(server, "busy", on=kind)
    answer = ask(client, run, kind)
    if kind == "send":
        assert isinstance(answer, A2AHTTPError)
        assert answer.retry_after == 0.1
    else:
        assert isinstance(answer, Task)
        assert run.run.delays[0] >= 0.1


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_token_is_refreshed_once(kind: str, client: str, server: FaultServer) -> None:
    run = start(server, "unauthorized", on=kind)
    assert isinstance(ask(client, run, kind), Task)
    assert run.calls == [kind, kind]
    sent = [request.headers["authorization"] for request in run.run.requests]
    assert sent == ["Bearer stale", f"Bearer {FRESH_TOKEN}"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_call_has_a_limit(kind: str, client: str, server: FaultServer) -> None:
    run = start(server, "silence", on=kind)
    error = ask(client, run, kind, timeout=0.2, max_retries=0)
    assert type(error) is A2ATimeoutError
    assert run.calls == [kind]
    assert run.run.wait_all_closed(), "a connection leaked"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_took_too_long_is_made_again_only_where_that_does_no_harm(
    kind: str, client: str, server: FaultServer
) -> None:
    run = start(server, "silence", on=kind)
    answer = ask(client, run, kind, timeout=0.2, stream_timeout=60.0)
    if kind == "send":
        assert type(answer) is A2ATimeoutError
        assert run.calls == ["send"]
    else:
        assert isinstance(answer, Task)
        assert run.calls == [kind, kind]
