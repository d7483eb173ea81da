"""The resubscribe machine, rule by rule, through both shells."""

from collections.abc import Callable
from typing import Any

import pytest

from coreason_client._http._types import FailureKind, Request
from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AConnectionError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    A2AStreamClosedError,
    InternalError,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskNotFoundError,
    TaskStatusUpdateEvent,
    UnknownEvent,
    UnsupportedOperationError,
)
from coreason_client.a2a._assemble import Assembly
from coreason_client.a2a._call import Settings
from tests.a2a.paper import (
    SHELLS,
    TASK,
    UNSUPPORTED,
    Outcome,
    answer,
    broken,
    chunk,
    machine_for,
    method_of,
    route_to,
    sse,
    status,
    task,
)
from tests.cap.scripted import Connection, Network, failure
from tests.cap.scripted import status as http_status

Step = Callable[[Request], Connection]


def tells(*events: Any, end: Any = None, event_ids: bool = False, version: str = "1.0") -> Step:
    """A connection that tells events and ends, cleanly if `end` is None."""

    def connect(request: Request) -> Connection:
        pieces = [
            sse(request, event, version=version, event_id=f"e{i}" if event_ids else "")
            for i, event in enumerate(events)
        ]
        return Connection(pieces, end=end)

    return connect


def says(**members: Any) -> Step:
    return lambda request: answer(request, **members)


def gives(connection: Connection) -> Step:
    return lambda request: connection


@pytest.fixture(params=sorted(SHELLS))
def run(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    def run(*steps: Step, **options: Any) -> Outcome:
        script = iter(steps)
        network = Network(lambda request: next(script)(request))
        outcome = SHELLS[request.param](machine_for(**options), network)
        assert next(script, None) is None, "not all connections were made"
        return outcome

    return run


Run = Callable[..., Outcome]
START = (task(), chunk("1", append=False))
DONE = status("COMPLETED")


def methods(outcome: Outcome) -> list[str]:
    return [method_of(request) for request in outcome.network.requests]


# The end


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELED", "REJECTED"])
def test_a_terminal_state_is_the_end(run: Run, state: str) -> None:
    outcome = run(tells(*START, status(state), end=failure()))
    assert outcome.error is None
    assert outcome.states == ["SUBMITTED", state]


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED"])
@pytest.mark.parametrize("end", [None, failure()])
def test_an_interrupted_state_may_be_the_end(run: Run, state: str, end: Any) -> None:
    assert run(tells(*START, status(state), end=end)).error is None
    going_on = run(tells(*START, status(state), chunk("2"), DONE))
    assert going_on.text == "12"
    assert going_on.states[-1] == "COMPLETED"


def test_final_is_the_end(run: Run) -> None:
    outcome = run(
        tells(*START, status("WORKING", final=True), end=failure(), version="0.3"),
        route=route_to("0.3")[0],
    )
    assert outcome.error is None
    assert len(outcome.network.requests) == 1


def test_a_message_is_the_end(run: Run) -> None:
    said = {"message": {"messageId": "m", "parts": [{"text": "Said."}]}}
    outcome = run(tells(said))
    assert [type(event) for event in outcome.events] == [Message]
    assert outcome.machine.assembly.text == "Said."


# Losses


@pytest.mark.proves("A2A-error-closed")
@pytest.mark.parametrize("end", [None, failure()])
def test_before_the_first_event_there_is_nothing_to_go_on_with(run: Run, end: Any) -> None:
    outcome = run(tells(end=end))
    assert type(outcome.error) is A2AStreamClosedError
    assert outcome.error.task_id is None
    params = {"message": {"taskId": "t-9", "parts": []}}
    outcome = run(tells(end=end), params=params)
    assert type(outcome.error) is A2AStreamClosedError
    assert outcome.error.task_id == "t-9"


@pytest.mark.parametrize("end", [None, failure()])
def test_without_resume_a_loss_is_an_error(run: Run, end: Any) -> None:
    outcome = run(tells(*START, end=end), resume=False)
    assert type(outcome.error) is A2AStreamClosedError
    assert outcome.error.task_id == TASK
    assert outcome.error.text == "1"
    assert outcome.error.task == outcome.machine.assembly.task
    outcome = run(tells(end=end), resume=False, name="resubscribe")
    assert type(outcome.error) is A2AStreamClosedError


def test_a_loss_is_healed(run: Run) -> None:
    outcome = run(
        tells(*START, end=failure()),
        tells(task("WORKING", "1", "2"), chunk("3"), DONE),
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert methods(outcome) == ["SendStreamingMessage", "SubscribeToTask"]
    assert outcome.network.delays == [0.5]
    assert outcome.machine.reconnects == 1
    assert [type(event) for event in outcome.events[2:]] == [
        TaskArtifactUpdateEvent,
        TaskStatusUpdateEvent,
        TaskArtifactUpdateEvent,
        TaskStatusUpdateEvent,
    ]


def test_a_loss_without_a_task_id_cannot_be_healed(run: Run) -> None:
    outcome = run(tells({"dreamUpdate": {}}))
    assert [type(event) for event in outcome.events] == [UnknownEvent]
    assert type(outcome.error) is A2AStreamClosedError


def test_the_budget_ends(run: Run) -> None:
    settings = Settings(max_retries=2, backoff=Backoff())
    outcome = run(
        tells(*START, end=failure()),
        gives(broken()),
        gives(http_status(503, retry_after="7")),
        route=route_to(settings=settings)[0],
    )
    assert type(outcome.error) is A2AStreamClosedError
    assert (outcome.error.status, outcome.error.retry_after) == (503, 7.0)
    assert outcome.error.text == "1"
    assert outcome.network.delays == [0.5, 1.0]


def test_a_wish_is_granted_up_to_a_bound(run: Run) -> None:
    lost = tells(*START, end=failure())
    outcome = run(lost, gives(http_status(429, retry_after="9")), tells(task("COMPLETED", "1")))
    assert outcome.error is None
    assert outcome.network.delays == [0.5, 9.0]
    outcome = run(lost, gives(http_status(429, retry_after="900")))
    assert type(outcome.error) is A2AStreamClosedError


def test_a_retry_line_is_a_wish_too(run: Run) -> None:
    def first(request: Request) -> Connection:
        return Connection([b"retry: 4000\n", sse(request, task())], end=failure())

    outcome = run(first, tells(task("COMPLETED")))
    assert outcome.network.delays == [4.0]


@pytest.mark.proves("R24d")
def test_a_running_task_spends_no_budget_but_delays_grow(run: Run) -> None:
    settings = Settings(max_retries=1, backoff=Backoff())
    running = tells(task("SUBMITTED", "1"), end=failure(FailureKind.TIMEOUT))
    outcome = run(
        tells(*START, end=failure(FailureKind.TIMEOUT)),
        *[running] * 6,
        tells(task("COMPLETED", "1", "2")),
        route=route_to(settings=settings)[0],
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


def test_news_resets_the_delays(run: Run) -> None:
    outcome = run(
        tells(*START, end=failure()),
        gives(broken()),
        tells(task("SUBMITTED", "1", "2"), end=failure()),
        tells(task("COMPLETED", "1", "2")),
    )
    assert outcome.network.delays == [0.5, 1.0, 0.5]


@pytest.mark.parametrize("kind", [FailureKind.CERTIFICATE, FailureKind.CLOSED, FailureKind.REQUEST])
def test_some_failures_are_final(run: Run, kind: FailureKind) -> None:
    outcome = run(tells(*START, end=failure()), gives(broken(failure(kind))))
    assert type(outcome.error) is A2AConnectionError
    assert outcome.error.task_id == TASK


def test_a_subscription_may_be_asked_for_again(run: Run) -> None:
    outcome = run(
        gives(broken()),
        gives(http_status(503)),
        gives(Connection(headers={"content-type": "text/html"})),
        tells(task("COMPLETED", "1")),
        name="resubscribe",
    )
    assert (outcome.error, outcome.text) == (None, "1")


@pytest.mark.parametrize("code", [400, 404, 410])
def test_other_statuses_are_final(run: Run, code: int) -> None:
    outcome = run(tells(*START, end=failure()), gives(http_status(code)))
    assert type(outcome.error) is A2AHTTPError
    assert (outcome.error.status, outcome.error.task_id) == (code, TASK)


def test_a_first_answer_of_another_type_is_an_error(run: Run) -> None:
    outcome = run(gives(Connection(headers={"content-type": "text/html"}, body=b"<p>")))
    assert type(outcome.error) is A2AHTTPError
    assert outcome.error.body == b"<p>"


# The cursor


@pytest.mark.proves("A2A-sse-id", "R25")
def test_ids_feed_the_cursor(run: Run) -> None:
    outcome = run(
        tells(*START, end=failure(), event_ids=True),
        tells(chunk("2"), DONE),  # from there on, without a snapshot
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.cursors == [None, "e1"]


def test_an_id_that_no_header_can_carry_is_not_sent(run: Run) -> None:
    def first(request: Request) -> Connection:
        return Connection([b"id:  e \n" + sse(request, task())], end=failure())

    outcome = run(first, tells(task("COMPLETED")))
    assert outcome.network.cursors == [None, None]


# Fetching


@pytest.mark.parametrize("code", [-32004, -32601])
@pytest.mark.parametrize("streamed", [True, False])
def test_the_task_is_fetched_when_it_cannot_be_subscribed_to(
    run: Run, code: int, streamed: bool
) -> None:
    error = {"code": code, "message": "no"}

    def refuses(request: Request) -> Connection:
        if not streamed:
            return answer(request, error=error)
        body = answer(request, error=error)
        return Connection([b"event: error\ndata: ", *body.chunks, b"\n\n"])

    outcome = run(
        tells(*START, end=failure()), refuses, says(result=task("COMPLETED", "12", "3")["task"])
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert methods(outcome) == ["SendStreamingMessage", "SubscribeToTask", "GetTask"]
    assert outcome.states == ["SUBMITTED", "COMPLETED"]


def test_a_fetched_task_that_is_running_is_fetched_again(run: Run) -> None:
    outcome = run(
        says(error=UNSUPPORTED),
        says(result=task("WORKING", "1")["task"]),
        says(result=task("WORKING", "1")["task"]),
        gives(broken()),
        says(result=task("COMPLETED", "1", "2")["task"]),
        name="resubscribe",
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.delays == [0.5, 1.0, 2.0]


def test_a_body_without_a_length_is_read_to_its_end(run: Run) -> None:
    def unsized(**members: Any) -> Step:
        def connect(request: Request) -> Connection:
            found = answer(request, **members)
            return Connection(found.chunks, headers={"content-type": "application/json"})

        return connect

    outcome = run(
        tells(*START, end=failure()),
        unsized(error=UNSUPPORTED),
        unsized(result=task("WORKING", "1", "2")["task"]),
        unsized(result=task("COMPLETED", "1", "2", "3")["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert outcome.states == ["SUBMITTED", "WORKING", "COMPLETED"]


def test_a_subscription_that_leaves_a_gap_is_not_trusted(run: Run) -> None:
    outcome = run(
        tells(*START, end=failure()),
        tells(chunk("3"), DONE),  # what of 2?
        says(result=task("COMPLETED", "1", "2", "3")["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "123")
    outcome = run(
        tells(*START, end=failure()),
        tells(status("WORKING"), DONE),
        says(result=task("COMPLETED", "1", "2")["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "12")


def test_an_answer_that_is_no_stream_may_be_the_event(run: Run) -> None:
    outcome = run(says(result=task("COMPLETED", "1")))
    assert (outcome.error, outcome.text) == (None, "1")


def test_bodies_are_bounded_and_checked(run: Run) -> None:
    settings = Settings(max_body_bytes=100)
    outcome = run(
        gives(Connection([b" " * 101], headers={"content-type": "application/json"})),
        route=route_to(settings=settings)[0],
    )
    assert type(outcome.error) is A2AResponseTooLargeError
    outcome = run(gives(Connection([b"{"], headers={"content-type": "application/json"})))
    assert type(outcome.error) is A2AJSONError
    outcome = run(
        gives(Connection([b"{"], end=failure(), headers={"content-type": "application/json"}))
    )
    assert type(outcome.error) is A2AStreamClosedError


# Errors


def test_errors_are_raised_with_what_was_assembled(run: Run) -> None:
    outcome = run(tells(*START, end=failure()), says(error={"code": -32001, "message": "gone"}))
    assert type(outcome.error) is TaskNotFoundError
    assert outcome.error.task is not None
    assert outcome.error.task.text == "1"
    assert type(run(says(error={"code": -32603})).error) is InternalError
    refused = run(says(error=UNSUPPORTED), name="resubscribe", resume=False)
    assert type(refused.error) is UnsupportedOperationError
    sent = run(says(error=UNSUPPORTED))  # of a message: the agent does not stream
    assert type(sent.error) is UnsupportedOperationError


# Dialects, redirects


def test_the_dialect_changes_before_the_first_event(run: Run) -> None:
    route = route_to("1.0", "0.3")[0]
    unknown = {"code": -32601, "message": "?"}
    outcome = run(
        says(error=unknown), tells(*START, status("COMPLETED"), version="0.3"), route=route
    )
    assert (outcome.error, outcome.text) == (None, "1")
    assert methods(outcome) == ["SendStreamingMessage", "message/stream"]
    assert route.channel.dialect.version == "0.3"
    done = {"kind": "task", "id": TASK, "status": {"state": "completed"}}
    later = run(
        tells(*START, end=failure(), version="0.3"),
        says(error=UNSUPPORTED),
        says(result=done),
        route=route,
    )
    assert methods(later) == ["message/stream", "tasks/resubscribe", "tasks/get"]


def test_redirects(run: Run) -> None:
    away = gives(http_status(307, location="https://other.example/x"))
    outcome = run(away, tells(*START, DONE))
    assert outcome.error is None
    assert [request.url for request in outcome.network.requests] == [
        "https://agent.example/a2a",
        "https://other.example/x",
    ]
    assert outcome.network.requests[1].bare
    assert type(run(*[away] * 6).error) is A2AHTTPError
    assert type(run(gives(http_status(308, location="ftp://x"))).error) is A2AHTTPError


# Assembling


def news(*events: Any, again: tuple[Any, ...] = ()) -> tuple[list[Any], Assembly]:
    from coreason_client.a2a._wire import FROM_PYTHON, event_of

    assembly = Assembly()
    found: list[Any] = []
    for event in events:
        found += assembly.take(event_of(FROM_PYTHON["event"](event)))
    if again:
        assembly.reconnected(from_cursor=False)
        found = []
    for event in again:
        found += assembly.take(event_of(FROM_PYTHON["event"](event)))
    return found, assembly


def test_append_adds_and_its_absence_replaces() -> None:
    _, assembly = news(task(), chunk("1", append=False), chunk("2"), chunk("x", append=False))
    assert assembly.text == "x"
    assert assembly.complete == set()
    _, assembly = news(task(), chunk("1"), chunk("2", last=True), chunk("b", artifact="b"))
    assert assembly.text == "12b"
    assert assembly.complete == {"a"}


def test_a_task_in_the_middle_tells_only_what_is_new() -> None:
    found, assembly = news(*START, task("WORKING"), task("WORKING", "1", "2"), DONE)
    assert [event.text for event in found] == ["", "1", "", "2", ""]
    assert assembly.text == "12"


def test_what_contradicts_is_told_as_a_rewrite() -> None:
    found, assembly = news(*START, chunk("2"), again=(task("WORKING", "1x"), chunk("y")))
    rewrite = found[0]
    assert isinstance(rewrite, TaskArtifactUpdateEvent)
    assert (rewrite.text, rewrite.append) == ("1x", False)
    assert assembly.text == "1xy"


def test_a_snapshot_that_lags_behind_is_caught_up_with() -> None:
    found, assembly = news(
        *START, chunk("2"), chunk("3"), again=(task("WORKING", "1"), chunk("23"), chunk("4"))
    )
    assert [event.text for event in found] == ["", "4"]
    assert assembly.text == "1234"


def test_parts_that_are_no_text_are_matched_too() -> None:
    def files(*urls: str) -> dict[str, Any]:
        parts = [{"text": "a"}, *({"url": url} for url in urls), {"text": "b"}]
        update = {"taskId": TASK, "artifact": {"artifactId": "f", "parts": parts}}
        return {"artifactUpdate": update}

    found, _ = news(task(), files("x"), again=(task(), files("x")))
    assert found == []
    found, assembly = news(task(), files("x"), again=(task(), files("y")))
    assert [event.append for event in found] == [False]
    found, assembly = news(task(), files("x"), again=(task(), files()))
    assert assembly.text == "ab"


def test_metadata_and_names_are_taken_over() -> None:
    later = chunk("2")
    later["artifactUpdate"]["artifact"] |= {"name": "N", "metadata": {"k": 1}}
    _, assembly = news(*START, later)
    assert assembly.task is not None
    [artifact] = assembly.task.artifacts
    assert (artifact.name, artifact.metadata, artifact.text) == ("N", {"k": 1}, "12")


def test_a_status_is_told_once() -> None:
    working, other = status("WORKING", "Hm."), status("WORKING", "Ah.")
    found, _ = news(task(), working, working)
    assert len(found) == 3  # on one connection all is news
    found, _ = news(task(), working, again=(task(), working, other, DONE))
    assert [event.text for event in found if event.text] == ["Ah."]


def test_a_message_in_the_middle_is_told_once() -> None:
    said = {"message": {"messageId": "m", "taskId": TASK, "parts": [{"text": "By the way"}]}}
    found, assembly = news(task(), said, again=(task(), said))
    assert found == []
    assert assembly.message is not None
    assert isinstance(assembly.task, Task)


def test_events_before_any_task_make_one() -> None:
    _, assembly = news(chunk("1", append=False), status("WORKING"))
    assert assembly.task is not None
    assert (assembly.task.id, assembly.task.context_id) == (TASK, "context-1")
