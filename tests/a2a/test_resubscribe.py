"""The resubscribe machine, rule by rule, through both shells."""

from collections.abc import Callable
from typing import Any

import pytest

from coreason_client._http._types import FINAL_FAILURES, FailureKind, Request
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
from coreason_client.a2a._bindings import JsonRpcChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import V10
from coreason_client.a2a._route import AgentRoute, Interface
from coreason_client.server.a2a._v03._conversions import task_to_v03
from tests.a2a.paper import (
    SHELLS,
    TASK,
    UNSUPPORTED,
    URL,
    Outcome,
    answer,
    broken,
    chunk,
    machine_for,
    method_of,
    number_of,
    numbered,
    route_to,
    sse,
    status,
    task,
)
from tests.cap.scripted import Connection, Network, failure
from tests.cap.scripted import status as http_status

Step = Callable[[Request], Connection]


def tells(
    *events: Any,
    end: Any = None,
    event_ids: bool | list[str] = False,
    version: str = "1.0",
    seconds: float = 0.0,
) -> Step:
    """A connection that tells events and ends, cleanly if `end` is None."""
    numbers = range(len(events))
    ids = event_ids or [""] * len(events)
    ids = [f"e{number}" for number in numbers] if ids is True else ids

    def connect(request: Request) -> Connection:
        pieces = [
            sse(request, event, version=version, event_id=event_id)
            for event, event_id in zip(events, ids, strict=True)
        ]
        return Connection(pieces, end=end, seconds=seconds)

    return connect


def says(**members: Any) -> Step:
    return lambda request: answer(request, **members)


def gives(connection: Connection) -> Step:
    return lambda request: connection


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(shell: str) -> Callable[..., Outcome]:
    def run(*steps: Step, **options: Any) -> Outcome:
        script = iter(steps)
        network = Network(lambda request: next(script)(request))
        outcome = SHELLS[shell](machine_for(**options), network)
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


def test_an_agent_may_go_on_after_a_sign_in_but_not_after_a_question(run: Run) -> None:
    going_on = run(tells(*START, status("AUTH_REQUIRED"), chunk("2"), DONE))
    assert going_on.text == "12"
    assert going_on.states[-1] == "COMPLETED"
    asking = run(tells(*START, status("INPUT_REQUIRED"), chunk("2"), DONE))
    assert asking.text == "1"
    assert asking.states[-1] == "INPUT_REQUIRED"


def test_the_first_task_of_a_reply_may_still_have_the_state_that_is_replied_to(run: Run) -> None:
    params = {"message": {"taskId": TASK, "parts": [{"text": "blue"}]}}
    outcome = run(
        tells(task("INPUT_REQUIRED"), chunk("1", append=False), DONE, end=failure()), params=params
    )
    assert (outcome.error, outcome.text) == (None, "1")
    assert outcome.states == ["INPUT_REQUIRED", "COMPLETED"]


ENDS = [
    status("COMPLETED"),
    status("INPUT_REQUIRED"),
    status("WORKING", final=True),
    {"message": {"messageId": "m", "parts": [{"text": "Said."}]}},
]


@pytest.mark.parametrize("end", ENDS, ids=["terminal", "question", "final", "message"])
def test_what_follows_the_end_in_the_same_chunk_is_not_read(run: Run, end: Any) -> None:
    events = [end] if "message" in end else [*START, end]

    def together(request: Request) -> Connection:
        pieces = [sse(request, event, version="0.3") for event in (*events, chunk("never"))]
        return Connection([b"".join(pieces), b": ping\n\n"], end=failure())

    outcome = run(together, route=route_to("0.3")[0])
    assert outcome.error is None
    assert len(outcome.events) == len(events)
    assert "never" not in outcome.machine.assembly.text


def test_a_message_is_the_end(run: Run) -> None:
    said = {"message": {"messageId": "m", "parts": [{"text": "Said."}]}}
    outcome = run(tells(said, said))
    assert [type(event) for event in outcome.events] == [Message]
    assert outcome.machine.assembly.text == "Said."


def test_messages_that_belong_to_a_task_are_not_the_end(run: Run) -> None:
    said = {"message": {"messageId": "m", "taskId": TASK, "parts": [{"text": "Said."}]}}
    outcome = run(tells(said, said, end=failure()))
    assert outcome.error is None
    assert [type(event) for event in outcome.events] == [Message, Message]
    assert outcome.machine.assembly.text == "Said.Said."


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


def test_the_field_retry_is_a_server_delay_and_stays_in_force(run: Run) -> None:
    def first(request: Request) -> Connection:
        return Connection([b"retry: 4000\n", sse(request, task())], end=failure())

    outcome = run(first, gives(broken()), tells(task("COMPLETED")))
    assert outcome.network.delays == [4.0, 4.0]


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


@pytest.mark.parametrize("kind", sorted(FINAL_FAILURES))
def test_some_failures_are_final(run: Run, kind: FailureKind) -> None:
    outcome = run(tells(*START, end=failure()), gives(broken(failure(kind))))
    assert type(outcome.error) is A2AConnectionError
    assert outcome.error.task_id == TASK


def test_a_subscription_may_be_asked_for_again(run: Run) -> None:
    outcome = run(
        gives(broken()),
        gives(http_status(503)),
        tells(task("COMPLETED", "1")),
        name="resubscribe",
    )
    assert (outcome.error, outcome.text) == (None, "1")


@pytest.mark.parametrize("kind", [FailureKind.CONNECT, FailureKind.CONNECT_TIMEOUT])
def test_a_loss_lets_every_interface_be_tried_again(run: Run, kind: FailureKind) -> None:
    settings = Settings(backoff=Backoff())
    ids = iter(range(1, 100))
    places = [Interface(JsonRpcChannel(URL, V10, settings, ids)) for _ in range(2)]
    was_never_sent = broken(failure(kind))
    outcome = run(
        gives(was_never_sent),
        tells(*START, end=failure()),
        gives(was_never_sent),
        tells(task("COMPLETED", "1", "2")),
        route=AgentRoute(places, settings),
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.delays == [0.5]  # only after the loss


@pytest.mark.parametrize("code", [401, 403])
def test_some_statuses_are_final(run: Run, code: int) -> None:
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
        tells(task("WORKING", "1"), chunk("2"), DONE),
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.cursors == [None, "e1"]


def test_a_cursor_is_not_proof_that_the_agent_honours_it(run: Run) -> None:
    outcome = run(
        tells(*START, end=failure(), event_ids=True),
        tells(chunk("3"), DONE),  # without a snapshot, and 2 was missed
        says(result=task("COMPLETED", "1", "2", "3")["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert outcome.network.cursors == [None, "e1", None]


def test_an_id_that_no_header_can_carry_is_not_sent(run: Run) -> None:
    def first(request: Request) -> Connection:
        return Connection([b"id:  e \n" + sse(request, task())], end=failure())

    outcome = run(first, tells(task("COMPLETED")))
    assert outcome.network.cursors == [None, None]


# Numbered events

COUNTED = [
    numbered(event, number)
    for number, event in enumerate(
        [task("WORKING"), chunk("1", append=False), chunk("2"), chunk("", last=True)], 1
    )
]
IDS = ["a", "b", "c", ""]


def test_a_repeated_event_is_dropped_by_its_number(run: Run) -> None:
    """The cut is between two events that have one id."""
    outcome = run(
        tells(*COUNTED, end=failure(), event_ids=IDS),
        tells(
            numbered(task("WORKING", "12"), 3),
            COUNTED[3],
            numbered(DONE, 5),
            event_ids=[*IDS[2:], "d"],
        ),
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.cursors == [None, "c"]
    events: list[Any] = outcome.events
    assert [event.metadata["generation"] for event in events] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("number", [3, 4])
def test_a_connection_continues_without_the_artifacts_of_the_task(run: Run, number: int) -> None:
    outcome = run(
        tells(*COUNTED, end=failure(), event_ids=IDS),
        tells(
            numbered(task("WORKING"), number),
            *COUNTED[number:],
            numbered(chunk("3"), 5),
            numbered(chunk("1", append=False), 6),  # shorter than before
            numbered(DONE, 7),
        ),
    )
    assert outcome.error is None
    assert methods(outcome) == ["SendStreamingMessage", "SubscribeToTask"]
    assert outcome.text == "1231"
    assert outcome.machine.assembly.text == "1"


def test_a_number_that_is_skipped_is_a_gap(run: Run) -> None:
    outcome = run(
        tells(*COUNTED, end=failure()),
        tells(numbered(task("WORKING", "12"), 4), numbered(chunk("4"), 6), DONE),
        says(result=numbered(task("COMPLETED", "1234"), 7)["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "1234")
    assert methods(outcome)[-1] == "GetTask"


def test_a_newer_task_with_a_shorter_artifact_replaces_it(run: Run) -> None:
    outcome = run(
        tells(*COUNTED, end=failure()),
        tells(numbered(task("WORKING", "1"), 6), numbered(chunk("x"), 7), numbered(DONE, 8)),
    )
    assert outcome.error is None
    assert outcome.machine.assembly.text == "1x"
    updates = [event for event in outcome.events if isinstance(event, TaskArtifactUpdateEvent)]
    assert [(event.text, event.append) for event in updates[3:]] == [("1", False), ("x", True)]


def test_after_a_connection_that_only_repeats_no_cursor_is_sent(run: Run) -> None:
    """Every connection ends after its first event; only the whole task brings something new."""
    at_cursor = tells(COUNTED[0], event_ids=["a"])
    outcome = run(
        tells(COUNTED[0], event_ids=["a"]),
        at_cursor,
        tells(numbered(task("WORKING", "1"), 2), event_ids=["b"]),
        tells(numbered(task("WORKING", "1"), 2), event_ids=["b"]),
        tells(numbered(task("COMPLETED", "12"), 9), event_ids=["z"]),
        route=route_to(settings=Settings(max_retries=2, backoff=Backoff()))[0],
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.network.cursors == [None, "a", None, "b", None]


def test_a_connection_without_an_event_does_not_change_the_cursor(run: Run) -> None:
    outcome = run(
        tells(*COUNTED, end=failure(), event_ids=IDS),
        gives(broken()),
        tells(end=failure()),
        tells(numbered(task("COMPLETED", "12"), 9)),
    )
    assert outcome.error is None
    assert outcome.network.cursors == [None, "c", "c", "c"]


def test_a_message_is_not_repeated_on_a_connection_that_continues(run: Run) -> None:
    said = {"message": {"messageId": "m", "taskId": TASK, "parts": [{"text": "By the way"}]}}
    outcome = run(
        tells(*COUNTED, said, end=failure()),
        tells(numbered(task("WORKING", "12"), 4), said, numbered(DONE, 5)),
    )
    assert outcome.error is None
    assert [type(event) for event in outcome.events].count(Message) == 1


# Fetching


@pytest.mark.parametrize("code", [-32004, -32601, -32602, -32603, -32001, -31999])
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


HTML = Connection(headers={"content-type": "text/html"}, body=b"<p>")


@pytest.mark.parametrize(
    "refusals",
    [
        *[[http_status(code)] for code in (400, 404, 405, 410, 500, 501)],
        [HTML],
        [Connection([b"{}"], headers={"content-type": "application/json"})],
        [Connection([b"data: nonsense\n\n"])],
        [http_status(503), http_status(503)],
    ],
    ids=["400", "404", "405", "410", "500", "501", "html", "empty", "nonsense", "503 twice"],
)
def test_the_task_is_fetched_whatever_refuses_the_subscription(
    run: Run, refusals: list[Connection]
) -> None:
    lost = tells(*START, end=failure())
    outcome = run(lost, *map(gives, refusals), says(result=task("COMPLETED", "1", "2")["task"]))
    assert (outcome.error, outcome.text) == (None, "12")
    assert methods(outcome)[-1] == "GetTask"
    refused = run(lost, *map(gives, refusals), says(error={"code": -32001, "message": "gone"}))
    assert type(refused.error) is TaskNotFoundError


def test_a_message_in_reply_to_a_subscription_does_not_loop(run: Run) -> None:
    def says_something(number: int) -> Step:
        return tells({"message": {"messageId": f"m-{number}", "parts": [{"text": "Hm."}]}})

    outcome = run(
        tells(*START, end=failure()),
        says_something(1),
        says(result=task("COMPLETED", "1")["task"]),
    )
    assert outcome.error is None
    assert methods(outcome)[1:] == ["SubscribeToTask", "GetTask"]
    outcome = run(
        says_something(1), says(result=task("COMPLETED", "1")["task"]), name="resubscribe"
    )
    assert outcome.error is None
    assert outcome.machine.assembly.task is not None
    assert outcome.machine.assembly.task.text == "1"


def same_each_time(kind: str) -> list[Step]:
    """Return a first connection and a further one, which shows nothing new however often."""
    if kind == "generation":
        started = tells(numbered(task("WORKING"), 1), numbered(chunk("1", append=False), 2))
        return [started, tells(numbered(task("WORKING", "1"), 2))]
    if kind == "generation, older":
        words = [numbered(chunk(text, append=text > "1"), int(text) + 1) for text in "123"]
        started = tells(numbered(task("WORKING"), 1), *words, event_ids=["a", "b", "c", ""])
        return [started, tells(numbered(task("WORKING", "12"), 3), words[2], event_ids=["c", ""])]
    if kind == "event":
        return [tells(*START, status("WORKING")), tells(task("WORKING", "1"), status("WORKING"))]
    if kind == "time":

        def now(request: Request) -> Connection:
            update, snapshot = status("WORKING"), task("WORKING", "1")
            for content in (update["statusUpdate"], snapshot["task"]):
                content["status"]["timestamp"] = f"2026-01-01T00:00:{number_of(request):02}Z"
            return Connection([sse(request, snapshot), sse(request, update)])

        return [tells(*START, status("WORKING")), now]
    if kind == "empty":
        last = chunk("", last=True)
        return [tells(*START, last), tells(task("SUBMITTED", "1"), last)]
    if kind == "void":
        void = chunk("", append=False, artifact="void")
        snapshot = task("SUBMITTED", "1")
        snapshot["task"]["artifacts"].append(void["artifactUpdate"]["artifact"])
        return [tells(*START, void), tells(snapshot)]
    if kind == "body":
        return [tells(*START), says(result=task("SUBMITTED", "1"))]
    return [tells(*START), tells(task("SUBMITTED", "1"))]


@pytest.mark.parametrize(
    "kind", ["task", "event", "time", "empty", "void", "body", "generation", "generation, older"]
)
@pytest.mark.parametrize("max_retries", [0, 1, 5])
def test_connections_that_bring_nothing_new_use_up_the_budget(
    run: Run, kind: str, max_retries: int
) -> None:
    started, same = same_each_time(kind)
    settings = Settings(max_retries=max_retries, backoff=Backoff())
    outcome = run(started, *[same] * max_retries, route=route_to(settings=settings)[0])
    assert type(outcome.error) is A2AStreamClosedError
    assert outcome.network.delays == [0.5, 1.0, 2.0, 4.0, 8.0][:max_retries]
    assert outcome.error.text == outcome.machine.assembly.text
    assert outcome.text == outcome.error.text


@pytest.mark.parametrize("seconds", [4.9, 5.0])
@pytest.mark.parametrize("end", [None, failure()])
def test_a_connection_that_stays_open_with_a_running_task_uses_no_retry(
    shell: str, seconds: float, end: Any
) -> None:
    """As behind a proxy that ends connections on which nothing is sent."""
    settings = Settings(max_retries=1, backoff=Backoff())
    script = iter(
        [
            tells(*START, end=end),
            *[tells(task("SUBMITTED", "1"), end=end, seconds=seconds)] * 4,
            tells(task("COMPLETED", "1", "2")),
        ]
    )
    network = Network(lambda request: next(script)(request))
    machine = machine_for(route_to(settings=settings)[0], clock=network.clock)
    outcome = SHELLS[shell](machine, network)
    if seconds < 5:
        assert type(outcome.error) is A2AStreamClosedError
        assert outcome.network.delays == [0.5]
    else:
        assert (outcome.error, outcome.text) == (None, "12")
        assert outcome.network.delays == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_a_connection_that_stays_open_without_an_event_uses_a_retry(run: Run) -> None:
    settings = Settings(max_retries=1, backoff=Backoff())
    outcome = run(
        tells(*START),
        tells(end=failure(FailureKind.TIMEOUT)),
        route=route_to(settings=settings)[0],
    )
    assert type(outcome.error) is A2AStreamClosedError


def test_a_fetched_task_that_never_changes_is_asked_for_ever_more_slowly(run: Run) -> None:
    def same(request: Request) -> Connection:
        snapshot = task("WORKING", "1")["task"]
        snapshot["status"]["timestamp"] = f"2026-01-01T00:00:{number_of(request):02}Z"
        return answer(request, result=snapshot)

    outcome = run(
        tells(*START),
        says(error=UNSUPPORTED),
        *[same] * 9,
        gives(broken()),
        says(result=task("COMPLETED", "1")["task"]),
    )
    assert outcome.error is None
    assert outcome.states == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert outcome.network.delays == [0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, *[30.0] * 4]


@pytest.mark.parametrize("odd", [{"dreamUpdate": {}}, {"message": {"parts": [{"text": "x"}]}}])
def test_events_that_show_nothing_of_the_task_refill_nothing(run: Run, odd: Any) -> None:
    settings = Settings(max_retries=2, backoff=Backoff())
    outcome = run(
        tells(*START, end=failure()),
        tells(odd, end=failure()),
        gives(broken()),
        route=route_to(settings=settings)[0],
    )
    assert type(outcome.error) is A2AStreamClosedError
    assert outcome.network.delays == [0.5, 1.0]


def test_another_task_than_the_one_asked_for_is_an_error(run: Run) -> None:
    other = {**task("COMPLETED", "x")["task"], "id": "other"}
    outcome = run(tells(*START, end=failure()), says(error=UNSUPPORTED), says(result=other))
    assert type(outcome.error) is A2AJSONError
    assert outcome.machine.assembly.text == "1"


# 0.3


@pytest.mark.proves("R40")
def test_a_stream_of_0_3_is_healed_by_fetching(run: Run) -> None:
    def fetched(state: str, *texts: str) -> Step:
        return says(result=task_to_v03(task(state, *texts)["task"]))

    outcome = run(
        tells(*START, end=failure(), version="0.3"),
        fetched("WORKING", "1"),
        fetched("WORKING", "1"),
        fetched("WORKING", "1", "2"),
        fetched("COMPLETED", "1", "2", "3"),
        route=route_to("0.3")[0],
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert methods(outcome) == ["message/stream", *["tasks/get"] * 4]
    assert outcome.states == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert outcome.network.delays == [0.5, 0.5, 1.0, 0.5]  # news makes them short again


@pytest.mark.parametrize("versions", [("0.3",), ("1.0", "0.3")])
def test_attaching_to_a_task_of_0_3_is_fetching_it(run: Run, versions: tuple[str, ...]) -> None:
    unknown = [says(error={"code": -32601, "message": "?"})] * (len(versions) - 1)
    outcome = run(
        *unknown,
        says(result=task_to_v03(task("WORKING", "1")["task"])),
        says(result=task_to_v03(task("COMPLETED", "1", "2")["task"])),
        name="resubscribe",
        route=route_to(*versions)[0],
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert methods(outcome)[-2:] == ["tasks/get"] * 2


def test_who_wants_no_healing_may_subscribe_in_0_3(run: Run) -> None:
    outcome = run(
        tells(task("WORKING", "1"), chunk("2"), DONE, version="0.3"),
        name="resubscribe",
        route=route_to("0.3")[0],
        resume=False,
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert methods(outcome) == ["tasks/resubscribe"]


# Attaching


@pytest.mark.parametrize(
    "start",
    [
        [chunk("3")],
        [status("WORKING"), chunk("3")],
        [chunk("3", append=False, artifact="b")],
        [task("WORKING"), chunk("3")],
        [DONE],
    ],
    ids=["append", "status", "other artifact", "snapshot without artifacts", "end"],
)
def test_who_comes_late_gets_the_beginning_too(run: Run, start: list[Any]) -> None:
    outcome = run(
        tells(*start, DONE, end=failure()),
        says(result=task("COMPLETED", "1", "2", "3")["task"]),
        name="resubscribe",
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert type(outcome.events[0]) is Task


# Silence


class Clock:
    """Moves on by some seconds with each look."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


PING = b": ping\n\n"


def silent(*events: Any, pings: list[bytes], then: tuple[Any, ...] = ()) -> Step:
    def connect(request: Request) -> Connection:
        told = [sse(request, event) for event in events]
        return Connection([*told, *pings, *(sse(request, event) for event in then)], end=failure())

    return connect


PING_EVENTS = [b"event: ping\ndata: {}\n\n", b"event: heartbeat\ndata:\n\n", b"data: [DONE]\n\n"]


@pytest.mark.parametrize("ping", [PING, b":\r\n\r\n", *PING_EVENTS])
@pytest.mark.parametrize("state", ["COMPLETED", "CANCELED", "INPUT_REQUIRED"])
def test_a_stream_with_nothing_but_keep_alives_is_checked(
    run: Run, ping: bytes, state: str
) -> None:
    outcome = run(
        silent(*START, pings=[ping] * 20),
        says(result=task(state, "1", "2")["task"]),
        clock=Clock(15.0),  # with a limit of 60: the fifth
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert outcome.states[-1] == state
    assert methods(outcome) == ["SendStreamingMessage", "GetTask"]


def test_a_silent_stream_of_a_running_task_is_read_on(run: Run) -> None:
    running = says(result=task("WORKING", "1")["task"])
    outcome = run(
        silent(*START, pings=[PING] * 10, then=(chunk("2"), DONE)),
        running,
        running,
        clock=Clock(15.0),
    )
    assert (outcome.error, outcome.text) == (None, "12")
    assert methods(outcome) == ["SendStreamingMessage", "GetTask", "GetTask"]
    assert outcome.machine.reconnects == 0


def test_a_silent_stream_that_is_behind_its_task_is_a_loss(run: Run) -> None:
    outcome = run(
        silent(*START, pings=[PING] * 20, then=(chunk("never"),)),
        says(result=task("WORKING", "1", "2")["task"]),
        tells(task("WORKING", "1", "2"), chunk("3"), DONE),
        clock=Clock(15.0),
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert methods(outcome) == ["SendStreamingMessage", "GetTask", "SubscribeToTask"]


@pytest.mark.parametrize(
    "answer", [broken(), http_status(404), Connection([b"{"])], ids=["broken", "404", "nonsense"]
)
def test_a_task_that_cannot_be_asked_for_is_waited_for(run: Run, answer: Connection) -> None:
    outcome = run(
        silent(*START, pings=[PING] * 5, then=(chunk("2"), DONE)), gives(answer), clock=Clock(15.0)
    )
    assert (outcome.error, outcome.text) == (None, "12")
    waiting = run(
        silent(*START, status("AUTH_REQUIRED"), pings=[PING] * 9), gives(answer), clock=Clock(15.0)
    )
    assert (waiting.error, waiting.states[-1]) == (None, "AUTH_REQUIRED")


def test_events_and_pieces_of_events_end_a_silence(run: Run) -> None:
    def connect(request: Request) -> Connection:
        large = sse(request, chunk("2"))
        pings = [PING] * 4
        pieces = [*(sse(request, event) for event in START), *pings, large[:30], large[30:]]
        return Connection([*pieces, *pings, sse(request, DONE)])

    outcome = run(connect, clock=Clock(15.0))
    assert (outcome.error, outcome.text) == (None, "12")


def test_before_the_first_event_there_is_nothing_to_ask_for(run: Run) -> None:
    params = {"message": {"taskId": TASK, "parts": []}}
    outcome = run(silent(pings=[PING] * 20, then=(*START, DONE)), clock=Clock(15.0), params=params)
    assert (outcome.error, outcome.text) == (None, "1")


# Agents that do not stream


def test_a_message_may_be_sent_and_its_task_fetched(run: Run) -> None:
    outcome = run(
        says(result=task("WORKING", "1")),
        says(result=task("WORKING", "1", "2")["task"]),
        says(result=task("COMPLETED", "1", "2", "3")["task"]),
        name="send_message",
    )
    assert (outcome.error, outcome.text) == (None, "123")
    assert [type(event) for event in outcome.events] == [
        Task,
        TaskArtifactUpdateEvent,
        TaskArtifactUpdateEvent,
        TaskStatusUpdateEvent,
    ]
    said = {"message": {"messageId": "m", "parts": [{"text": "Said."}]}}
    assert [event.text for event in run(says(result=said), name="send_message").events] == ["Said."]
    unknown = run(says(result={"dreamUpdate": {}}), name="send_message")
    assert type(unknown.error) is A2AStreamClosedError
    lost = run(gives(Connection(end=failure())), name="send_message")
    assert type(lost.error) is A2AStreamClosedError


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
    gone = says(error={"code": -32001, "message": "gone"})
    outcome = run(tells(*START, end=failure()), gone, gone)
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
    later = run(tells(*START, end=failure(), version="0.3"), says(result=done), route=route)
    assert methods(later) == ["message/stream", "tasks/get"]


def test_redirects(run: Run) -> None:
    away = gives(http_status(307, location="https://other.example/x"))
    outcome = run(away, tells(*START, DONE))
    assert outcome.error is None
    assert [request.url for request in outcome.network.requests] == [
        "https://agent.example/a2a",
        "https://other.example/x",
    ]
    assert outcome.network.requests[1].without_client_defaults
    assert type(run(*[away] * 6).error) is A2AHTTPError
    assert type(run(gives(http_status(308, location="ftp://x"))).error) is A2AHTTPError


# Assembling


def news(
    *events: Any, again: tuple[Any, ...] = (), attached: bool = False
) -> tuple[list[Any], Assembly]:
    from coreason_client.a2a._wire import FROM_PYTHON, event_of

    assembly = Assembly(TASK if attached else None, attached=attached)
    found: list[Any] = []
    for event in events:
        found += assembly.apply(event_of(FROM_PYTHON["event"](event)))
    if again:
        assembly.reconnected()
        found = []
    for event in again:
        found += assembly.apply(event_of(FROM_PYTHON["event"](event)))
    return found, assembly


def test_append_adds_and_its_absence_replaces() -> None:
    _, assembly = news(task(), chunk("1", append=False), chunk("2"), chunk("x", append=False))
    assert assembly.text == "x"
    assert assembly.complete_artifacts == set()
    _, assembly = news(task(), chunk("1"), chunk("2", last=True), chunk("b", artifact="b"))
    assert assembly.text == "12b"
    assert assembly.complete_artifacts == {"a"}


def test_a_task_in_the_middle_tells_only_what_is_new() -> None:
    found, assembly = news(*START, task("WORKING"), task("WORKING", "1", "2"), DONE)
    assert [event.text for event in found] == ["", "1", "", "2", ""]
    assert assembly.text == "12"


def test_a_snapshot_that_is_contradicted_by_what_follows_is_not_trusted(run: Run) -> None:
    outcome = run(
        tells(*START, chunk("2"), chunk("3"), end=failure()),
        tells(task("WORKING", "1"), chunk("4"), DONE),
        says(result=task("COMPLETED", "1", "2", "3", "4")["task"]),
    )
    assert (outcome.error, outcome.text) == (None, "1234")


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
    later, last = chunk("2"), chunk("3")
    later["artifactUpdate"]["artifact"] |= {"name": "N", "metadata": {"k": 1, "l": 1}}
    last["artifactUpdate"]["artifact"] |= {"metadata": {"l": 2, "m": 3}}
    _, assembly = news(*START, later, last)
    assert assembly.task is not None
    [artifact] = assembly.task.artifacts
    assert (artifact.name, artifact.text) == ("N", "123")
    assert artifact.metadata == {"k": 1, "l": 2, "m": 3}


def test_events_of_another_task_are_dropped() -> None:
    other = {"taskId": "other", "contextId": "c"}
    strange = [
        {"task": {**task("COMPLETED", "x")["task"], "id": "other"}},
        {"artifactUpdate": {**chunk("x")["artifactUpdate"], **other}},
        {"statusUpdate": {**status("COMPLETED")["statusUpdate"], **other}},
        {"message": {"messageId": "m", "taskId": "other", "parts": [{"text": "x"}]}},
    ]
    found, assembly = news(*START, *strange, chunk("2"))
    assert [event.text for event in found] == ["", "1", "2"]
    assert not assembly.may_end
    found, assembly = news(*strange[:1], attached=True)
    assert (found, assembly.task) == ([], None)


def test_a_status_of_null_changes_nothing() -> None:
    found, assembly = news(
        *START, status("WORKING"), {"statusUpdate": {"taskId": TASK, "status": None}}
    )
    assert len(found) == 4
    assert str(assembly.status.state) == "TASK_STATE_WORKING"


def test_a_status_is_told_once() -> None:
    working, other = status("WORKING", "Hm."), status("WORKING", "Ah.")
    found, _ = news(task(), working, working)
    assert len(found) == 3  # on one connection all is news
    found, _ = news(task(), working, again=(task(), working, other, DONE))
    assert [event.status_text for event in found if event.status_text] == ["Ah."]


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
