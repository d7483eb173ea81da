"""The faults of A2A servers: one small script each, found by name in ``A2A_FAULTS``.

A script answers the first ``times`` calls of the kind that it is made for (``on``); every other
call is answered by the task as it truly is.  Where ``on`` is the subscription, the stream before
it is lost.  ``after`` is the number of events that precede the fault, ``meanwhile`` the number
that happen before the client asks again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tests.faults import (
    BOM,
    MIB,
    PIECE,
    Fault,
    FaultExchange,
    FaultServer,
    Run,
    block,
    compact,
    plain_log,
)

from .model import CONTEXT_ID, METHODS, PATHS, REASONS, TASK_ID, Dialect, Json, Model, counting

How = Literal["fin", "rst", "end"]
Script = Callable[..., Awaitable[None]]

ALL: Final = 10**6
SEPARATORS: Final = "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\ufeff"
UNKNOWN_CODE: Final = -31999
UNKNOWN_DATA: Final[Json] = {"why": ["because", {"of": "this"}]}
FRESH_TOKEN: Final = "fresh"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class A2AFault:
    """A script, the kind of call that suffers from it, and how often."""

    name: str
    summary: str
    script: Script
    on: str
    times: int
    subscribes: bool = False  # made for subscriptions alone


A2A_FAULTS: Final[dict[str, A2AFault]] = {}


def a2a_fault(
    *, on: str = "stream", times: int = 1, subscribes: bool = False
) -> Callable[[Script], Script]:
    """Enter a script into ``A2A_FAULTS`` under its own name."""

    def enter(script: Script) -> Script:
        name = script.__name__
        summary = (script.__doc__ or "").strip()
        A2A_FAULTS[name] = A2AFault(name, summary, script, on, times, subscribes)
        return script

    return enter


class TaskRun:
    """One task under one fault, and the record of what its client did."""

    def __init__(self, run: Run, model: Model, fault: A2AFault, options: Json) -> None:
        options = dict(options)
        self.on = options.pop("on", fault.on)
        if self.on == "subscribe" and model.dialect == "0.3" and not fault.subscribes:
            self.on = "get"  # which is how a stream of 0.3 goes on
        self.times = options.pop("times", fault.times)
        allowed = set(inspect.signature(fault.script).parameters) - {"call"}
        if unknown := sorted(set(options) - allowed):
            message = f"{fault.name} takes {sorted(allowed)}, not {unknown}"
            raise TypeError(message)
        self.run = run
        self.model = model
        self.fault = fault
        self.options = options
        self.calls: list[str] = []

    @property
    def url(self) -> str:
        """The address of the interface."""
        return f"{self.run.base_url}/rpc"

    @property
    def text(self) -> str:
        """The text that a client must have printed at the end."""
        return self.model.text

    def card(self) -> Json:
        """Return the card."""
        return self.model.card(self.url)

    async def answer(self, exchange: FaultExchange) -> None:
        """Answer one request, with the fault if it is to suffer."""
        call = Call(self, exchange)
        self.calls.append(call.kind)
        if call.kind == self.on and self.calls.count(call.kind) <= self.times:
            await self.fault.script(call, **self.options)
        elif call.kind == "stream" and self.on in ("subscribe", "get"):
            await cut(call)
        else:
            await call.correct()


class Call:
    """One call of a client, and the means to answer it, well or badly."""

    def __init__(self, run: TaskRun, exchange: FaultExchange) -> None:
        self.model = run.model
        self.exchange = exchange
        self.run = run
        self.request: Json = json.loads(exchange.request.body or b"{}")
        self.id = self.request.get("id")
        self.method = str(self.request.get("method"))
        self.is_rest = self.model.dialect == "rest"
        self.kind = self._kind()

    def _kind(self) -> str:
        path = self.exchange.request.path
        if path.endswith("agent-card.json"):
            return "card"
        if self.is_rest:
            return PATHS.get(path.removeprefix("/rpc"), "unknown")
        return METHODS[self.model.dialect].get(self.method, "unknown")

    @property
    def streams(self) -> bool:
        """True if the answer is a stream."""
        return self.kind in ("stream", "subscribe")

    # The pieces of an answer.

    def envelope(self, result: object, **more: object) -> bytes:
        """Return a result as the answer to this call."""
        if self.is_rest:
            return compact(result)
        return compact({"jsonrpc": "2.0", "id": self.id, "result": result} | more)

    def failure(self, code: int, message: str, data: object = None) -> bytes:
        """Return an error as the answer to this call."""
        if self.is_rest:
            status, word, reason = REASONS[code]
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
            problem = {"code": status, "status": word, "message": message, "details": [info]}
            return compact({"error": problem})
        error: Json = {"code": code, "message": message}
        error |= {} if data is None else {"data": data}
        return compact({"jsonrpc": "2.0", "id": self.id, "error": error})

    def event(self, number: int) -> bytes:
        """Return an event of the task, counted from 1, as SSE."""
        return block(self.envelope(self.model.event(number)))

    async def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a whole answer."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.exchange.respond(status, body, content_type=JSON, headers=fields)

    async def fail(self, code: int, message: str) -> None:
        """Answer with an error."""
        status = REASONS[code][0] if self.is_rest else 200
        await self.reply(self.failure(code, message), status)

    async def events(self, first: int, last: int) -> None:
        """Send the events from one to another."""
        for number in range(first, min(last, len(self.model.happenings)) + 1):
            await self.exchange.chunk(self.event(number))

    async def send(self, data: bytes) -> None:
        """Send one event with this data."""
        await self.exchange.chunk(block(data))

    async def until(self, after: int) -> None:
        """Send a head and what precedes the fault."""
        await self.exchange.head()
        await self.start(after)

    async def start(self, after: int) -> None:
        """Send what precedes the fault: of a stream that goes on, a snapshot takes its place."""
        if self.kind == "subscribe":
            await self.send(self.envelope(self.model.wrap("task", self.model.task())))
            await self.events(self.model.happened + 1, self.model.happened + after)
        else:
            await self.events(1, after)

    async def rest(self) -> None:
        """Send all events that have not happened, and end."""
        await self.events(self.model.happened + 1, ALL)
        await self.exchange.end()

    # The whole answers of a server that does everything right.

    async def correct(self) -> None:
        """Answer as the task truly is."""
        answers: dict[str, Callable[[], Awaitable[None]]] = {
            "stream": self.stream,
            "subscribe": self.subscribe,
            "send": self.finish,
            "get": self.get,
            "cancel": self.get,
            "card": self.card,
            "unknown": self.refuse,
        }
        await answers[self.kind]()

    async def stream(self) -> None:
        """Send every event."""
        await self.exchange.head()
        await self.rest()

    async def subscribe(self) -> None:
        """Send a snapshot and every event after it, or say that there is nothing to wait for."""
        if not self.model.finished:
            await self.until(0)
            await self.rest()
            return
        words = f"task {TASK_ID} is finished"
        if self.model.dialect != "0.3":
            await self.fail(-32004, words)
        else:
            await self.exchange.head()
            await self.send(self.failure(-32004, words))
            await self.exchange.end()

    async def finish(self) -> None:
        """Answer with the finished task."""
        self.model.go_on(ALL)
        await self.get(wrapped=True)

    async def get(self, *, wrapped: bool = False) -> None:
        """Answer with the task as it is."""
        task = self.model.task()
        await self.reply(self.envelope(self.model.wrap("task", task) if wrapped else task))
        self.model.go_on(self.model.pace)

    async def card(self) -> None:
        """Answer with the card."""
        await self.reply(compact(self.run.card()))

    async def refuse(self) -> None:
        """Answer that there is no such method."""
        await self.reply(self.failure(-32601, f"no method {self.method}"))


def start(
    server: FaultServer,
    name: str,
    *,
    dialect: Dialect = "1.0",
    events: int = 20,
    word: Callable[[int], str] = "w{} ".format,
    end: str = "completed",
    **options: Any,
) -> TaskRun:
    """Register a task of so many events under a fault."""
    # A task of 0.3 is fetched, and goes on between two questions.
    model = Model(dialect, counting(events, word, end), pace=4 if dialect == "0.3" else 0)
    fault = A2A_FAULTS[name]
    # The server looks names up among the faults of CAP streams: we take the plainest of these,
    # and have its requests answered by our own script.
    run = server.run("correct")
    task_run = TaskRun(run, model, fault, options)
    run.fault = Fault(name, fault.summary, task_run.answer, plain_log, always=True)
    return task_run


# Nothing wrong.


@a2a_fault()
async def correct(call: Call) -> None:
    """Answer everything as it should be."""
    await call.correct()


@a2a_fault()
async def separators(call: Call) -> None:
    """Have characters in the text that are line ends elsewhere, but not in SSE."""
    call.model.happenings = [
        replace(item, text=item.text and item.text + SEPARATORS) for item in call.model.happenings
    ]
    await call.correct()


@a2a_fault()
async def comments(call: Call) -> None:
    """Send keep-alive comments between the events, and CRLF at the ends of their lines."""
    await call.exchange.head()
    for number in range(1, len(call.model.happenings) + 1):
        await call.exchange.chunk(b": ping\r\n\r\n")
        await call.exchange.chunk(call.event(number).replace(b"\n", b"\r\n"))
    await call.exchange.end()


@a2a_fault()
async def bom(call: Call) -> None:
    """Begin the stream with a byte order mark."""
    await call.exchange.head()
    await call.exchange.chunk(BOM)
    await call.rest()


@a2a_fault(on="unknown", times=ALL)
async def old_server(call: Call) -> None:
    """Know only the methods of the other dialect."""
    await call.refuse()


# Lost connections.


@a2a_fault()
async def cut(call: Call, *, after: int = 8, how: How = "fin", meanwhile: int = 0) -> None:
    """Lose the connection in the middle of the next event, or end the body before it."""
    await call.until(after)
    if how != "end" and after < len(call.model.happenings):
        event = call.event(after + 1)  # it happens, though nobody hears of it
        await call.exchange.part(event, len(event) // 2)
    call.model.go_on(meanwhile)
    await call.exchange.stop(how)


@a2a_fault(on="subscribe", times=ALL)
async def cut_again_and_again(call: Call, *, every: int = 2, how: How = "fin") -> None:
    """Lose every stream after a snapshot and some events."""
    if call.model.finished:
        await call.correct()
        return
    await call.until(every)
    await call.exchange.stop(how)


@a2a_fault()
async def finished_meanwhile(call: Call, *, after: int = 8, how: How = "fin") -> None:
    """Lose the connection, and let the task finish before the client asks again."""
    await call.until(after)
    call.model.go_on(ALL)
    await call.exchange.stop(how)


@a2a_fault()
async def idle(call: Call, *, after: int = 8, meanwhile: int = 0) -> None:
    """Fall silent for longer than the client reads, and keep the connection."""
    await call.until(after)
    call.model.go_on(meanwhile)
    await call.exchange.hang()


@a2a_fault(on="subscribe", times=5)
async def idle_again_and_again(call: Call) -> None:
    """Show that the task is still running, and fall silent, for longer than any patience."""
    await call.until(0)
    await call.exchange.hang()


@a2a_fault(on="get")
async def silence(call: Call) -> None:
    """Never answer, and keep the connection."""
    await call.exchange.hang()


@a2a_fault(on="subscribe", times=ALL)
async def gone(call: Call, *, how: Literal["fin", "rst"] = "fin") -> None:
    """Close every connection without an answer."""
    await call.exchange.stop(how)


# Other ways to go on.


@a2a_fault(on="subscribe")
async def joined_snapshot(call: Call) -> None:
    """Send a snapshot that is cut into other parts than the events were."""
    call.model.joined = True
    await call.correct()


@a2a_fault(on="subscribe", subscribes=True)
async def replay(call: Call) -> None:
    """Send everything again, from the first event on."""
    await call.exchange.head()
    await call.events(1, ALL)
    await call.exchange.end()


@a2a_fault(on="subscribe", subscribes=True)
async def no_snapshot(call: Call, *, meanwhile: int = 4) -> None:
    """Send only what happens next, and not what was missed; then the task is finished soon."""
    call.model.go_on(meanwhile)
    event = call.event(call.model.happened + 1)
    call.model.go_on(ALL)  # before the client can ask
    await call.exchange.head()
    await call.exchange.chunk(event)
    await call.exchange.end()


@a2a_fault(on="subscribe", subscribes=True)
async def cannot_subscribe(call: Call, *, code: int = -32004) -> None:
    """Refuse to stream a task that is still running."""
    call.model.pace = 4
    await call.fail(code, "there is nothing to subscribe to")


@a2a_fault(on="subscribe", subscribes=True)
async def no_such_page(call: Call, *, status: int = 404) -> None:
    """Have nothing where one subscribes."""
    call.model.pace = 4
    await call.exchange.respond(status, b"<h1>No</h1>", content_type="text/html")


@a2a_fault(on="subscribe", times=ALL, subscribes=True)
async def doubling(call: Call) -> None:
    """Store each event once more for a subscriber, and show no snapshot, as a2a-sdk 0.3 does."""
    if call.model.finished:
        await call.exchange.head()
        await call.send(call.failure(-32602, f"Task {TASK_ID} is in terminal state: completed"))
        await call.exchange.end()
        return
    happened = call.model.happened
    rest = call.model.happenings[happened:]
    # What happens from now on is in the store twice, and in the stream once.
    call.model.happenings[happened:] = [
        again for item in rest for again in ([item] if item.state else [item, item])
    ]
    await call.exchange.head()
    for number, item in enumerate(call.model.happenings[happened:], happened + 1):
        twice = call.model.happenings[number - 2] is item
        event = call.event(number)
        if not twice:
            await call.exchange.chunk(event)
    await call.exchange.end()


@a2a_fault(on="subscribe", subscribes=True)
async def short_snapshot(call: Call) -> None:
    """Send a snapshot that is behind what was sent before, and go on as if it were not."""
    happened = call.model.happened
    call.model.pace = 4  # a client that leaves meets a task that goes on
    call.model.happened = 4
    await call.until(0)
    call.model.happened = happened
    # All of it has happened before a client can leave and ask for the task.
    numbers = range(happened + 1, len(call.model.happenings) + 1)
    for event in [call.event(number) for number in numbers]:
        await call.exchange.chunk(event)
    await call.exchange.end()


@a2a_fault(on="subscribe", times=3, subscribes=True)
async def same_snapshot(call: Call) -> None:
    """Show the same snapshot and close, again and again."""
    await call.until(0)
    await call.exchange.end()


@a2a_fault(on="subscribe", subscribes=True)
async def says_message(call: Call) -> None:
    """Answer a subscription with a message."""
    call.model.pace = 4
    await call.exchange.head()
    role = "agent" if call.model.dialect == "0.3" else "ROLE_AGENT"
    message = {"messageId": "m", "role": role, "parts": []}
    await call.send(call.envelope(call.model.wrap("message", message)))
    await call.exchange.end()


# Streams that stay open.


@a2a_fault()
async def open_end(call: Call) -> None:
    """Send everything, and keep the connection with pings."""
    await call.exchange.head()
    await call.events(1, ALL)
    await ping(call)


@a2a_fault()
async def silent_end(call: Call, *, after: int = 8) -> None:
    """Fall silent but for pings, while the task goes on to its end."""
    await call.until(after)
    call.model.go_on(ALL)
    await ping(call)


@a2a_fault()
async def other_pings(call: Call) -> None:
    """Send pings as events, and a mark at the end, as other protocols do."""
    await call.exchange.head()
    for number in range(1, len(call.model.happenings)):
        await call.exchange.chunk(b"event: ping\ndata: {}\n\n")
        await call.exchange.chunk(call.event(number))
    await call.exchange.chunk(b"data: [DONE]\n\n")
    await call.exchange.chunk(call.event(len(call.model.happenings)))
    await call.exchange.end()


async def ping(call: Call) -> None:
    """Send pings until the client is gone, or for half a minute."""
    for _ in range(600):
        await call.exchange.chunk(b": ping\n\n")
        await asyncio.sleep(0.05)


# Refusals.


@a2a_fault(on="subscribe")
async def busy(call: Call, *, status: int = 503, retry_after: str = "0.1") -> None:
    """Say that the server is busy, and for how long."""
    await call.reply(b'{"detail":"busy"}', status, Retry_After=retry_after)


@a2a_fault(times=ALL)
async def unauthorized(call: Call) -> None:
    """Accept nothing but a fresh token."""
    if call.exchange.request.headers.get("authorization") == f"Bearer {FRESH_TOKEN}":
        await call.correct()
    else:
        await call.reply(b'{"detail":"who?"}', 401, WWW_Authenticate='Bearer realm="agents"')


@a2a_fault(on="subscribe")
async def unknown_task(call: Call) -> None:
    """Have forgotten the task."""
    call.model.pace = 4
    await call.fail(-32001, "no such task")


@a2a_fault()
async def html(call: Call) -> None:
    """Answer 200 with a page."""
    await call.exchange.respond(200, b"<h1>Sign in</h1>", content_type="text/html")


@a2a_fault()
async def unknown_code(call: Call, *, after: int = 8, event: bool = False) -> None:
    """Send an error with a code that the protocol does not know, and data."""
    failure = call.failure(UNKNOWN_CODE, "odd", UNKNOWN_DATA)
    if after == 0 and not event:
        await call.reply(failure)
        return
    await call.until(after)
    name = b"event: error\n" if event else b""
    await call.exchange.chunk(name + block(failure))
    await call.exchange.end()


# Bent streams.


@a2a_fault()
async def wrong_id(call: Call, *, after: int = 8) -> None:
    """Answer a call that nobody made."""
    if not call.streams:
        await call.reply(call.envelope(call.model.task(), id="somebody else's"))
        return
    await call.until(after)
    await call.send(call.envelope(call.model.event(after + 1), id="somebody else's"))
    await call.rest()


@a2a_fault()
async def bad_json(call: Call, *, after: int = 8) -> None:
    """Send half of an object as a whole event, or as a whole answer."""
    half = call.envelope(call.model.task())[:-20]
    if not call.streams:
        await call.reply(half)
        return
    await call.until(after)
    await call.send(half)
    await call.rest()


@a2a_fault()
async def empty_result(call: Call, *, after: int = 8) -> None:
    """Send an answer with neither a result nor an error."""
    nothing = compact({} if call.is_rest else {"jsonrpc": "2.0", "id": call.id})
    if not call.streams:
        await call.reply(nothing)
        return
    await call.until(after)
    await call.send(nothing)
    await call.rest()


@a2a_fault()
async def nonsense(call: Call, *, after: int = 8) -> None:
    """Send an event whose members have the wrong types."""
    await call.until(after)
    odd: Json = {"kind": ["task"]} if call.model.dialect == "0.3" else {"task": ["task"]}
    await call.send(call.envelope(odd))
    await call.rest()


@a2a_fault()
async def unknown_payload(call: Call, *, after: int = 8) -> None:
    """Send an event of a kind that is not known yet."""
    await call.until(after)
    await call.send(call.envelope(call.model.wrap("weather-report", {"sky": "blue"})))
    await call.rest()


@a2a_fault()
async def unknown_state(call: Call, *, after: int = 8) -> None:
    """Send a state that is not known yet."""
    await call.until(after)
    body = {"taskId": TASK_ID, "contextId": CONTEXT_ID, "status": call.model.status("dreaming")}
    await call.send(call.envelope(call.model.wrap("status-update", body)))
    await call.rest()


@a2a_fault()
async def unknown_fields(call: Call) -> None:
    """Add fields that are not known yet to every event."""
    await call.exchange.head()
    for number in range(1, len(call.model.happenings) + 1):
        result = call.model.event(number)
        inner = result if call.model.dialect == "0.3" else next(iter(result.values()))
        inner["novelty"] = {"number": number}
        await call.send(call.envelope(result, traceId=number))
    await call.exchange.end()


@a2a_fault()
async def mixed_shapes(call: Call) -> None:
    """Wrap the first event as 1.0 does, and send all others bare, as 0.3 does."""
    old = Model("0.3", call.model.happenings)
    await call.exchange.head()
    for number in range(1, len(call.model.happenings) + 1):
        result = call.model.event(number) if number == 1 else old.event(number)
        await call.send(call.envelope(result))
    await call.exchange.end()


@a2a_fault()
async def id_as_text(call: Call) -> None:
    """Send the number of the call as a string."""
    await call.exchange.head()
    for number in range(1, len(call.model.happenings) + 1):
        await call.send(call.envelope(call.model.event(number), id=str(call.id)))
    await call.exchange.end()


@a2a_fault()
async def null_status(call: Call, *, after: int = 8) -> None:
    """Send a status update without a status."""
    await call.until(after)
    body = {"taskId": TASK_ID, "contextId": CONTEXT_ID, "status": None}
    await call.send(call.envelope(call.model.wrap("status-update", body)))
    await call.rest()


@a2a_fault()
async def other_task(call: Call, *, after: int = 8) -> None:
    """Send the end of another task in the middle of the stream."""
    await call.until(after)
    body = {"taskId": "other", "contextId": CONTEXT_ID, "status": call.model.status("completed")}
    await call.send(call.envelope(call.model.wrap("status-update", body)))
    await call.rest()


@a2a_fault()
async def more_after_the_end(call: Call) -> None:
    """Send another piece of text in the chunk that holds the end."""
    await call.exchange.head()
    last = len(call.model.happenings)
    await call.events(1, last - 1)
    await call.exchange.chunk(call.event(last) + call.event(last - 1))
    await call.exchange.end()


@a2a_fault()
async def error_as_text(call: Call, *, after: int = 8) -> None:
    """Send an error that is a string."""
    await call.until(after)
    await call.send(compact({"jsonrpc": "2.0", "id": call.id, "error": "out of paper"}))
    await call.exchange.end()


@a2a_fault()
async def bare_task(call: Call, *, after: int = 8) -> None:
    """Send the task without its artifacts in the middle of the stream."""
    await call.until(after)
    task = call.model.task(with_artifacts=False)
    await call.send(call.envelope(call.model.wrap("task", task)))
    await call.rest()


@a2a_fault()
async def huge_line(call: Call, *, after: int = 8, size: int = 200 * MIB) -> None:
    """Send a line that does not end."""
    await call.until(after)
    await call.exchange.chunk(b'data: {"jsonrpc":"2.0","result":"')
    for _ in range(size // PIECE):
        await call.exchange.chunk(b"x" * PIECE)
    await call.exchange.chunk(b'"}\n\n')
    await call.rest()
