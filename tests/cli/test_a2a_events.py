"""A2A events and cards: what is the answer, what is additional information, and the JSON."""

import json
from typing import Any

import pytest
from rich.console import Console

from coreason_client.a2a import (
    AgentCard,
    AgentSkill,
    Artifact,
    Event,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a.types import (
    AgentCapabilities,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    Role,
    SecurityRequirement,
    UnknownEvent,
)
from coreason_client.cli.a2a._events import EventPresenter, show_card
from coreason_client.cli.output import Json, Output
from coreason_client.cli.output._live import LiveOutput
from tests.each import each

from .terminal import Emulator, EmulatorFile


class Recorder(Output):
    """Records the calls of its methods; consecutive pieces of text are one call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.records: list[Any] = []

    def record(self, json_line: Json) -> None:
        self.records.append(json.loads(json_line()))

    def write(self, text: str) -> None:
        if self.calls and self.calls[-1][0] == "text":
            text = self.calls.pop()[1] + text
        self.calls.append(("text", text))

    def end_text(self, *, as_written: bool = False) -> None:
        if self.calls and self.calls[-1][0] == "text":
            self.calls.append(("end", ""))

    def line(self, text: str) -> None:
        self.calls.append(("line", text))

    def info(self, text: str) -> None:
        self.calls.append(("info", text))


def show(*events: Event, tracks_task: bool = True) -> tuple[Recorder, EventPresenter]:
    recorder = Recorder()
    with EventPresenter(recorder, tracks_task=tracks_task) as presenter:
        for event in events:
            presenter.show(event)
    return recorder, presenter


def calls(*events: Event, tracks_task: bool = True) -> list[tuple[str, str]]:
    shown = show(*events, tracks_task=tracks_task)[0].calls
    return [call for call in shown if call[0] != "end"]


def message(text: str) -> Message:
    return Message(message_id="1", role=Role.AGENT, parts=[Part(text=text)])


def status(state: TaskState, text: str = "") -> TaskStatus:
    return TaskStatus(state=state, message=message(text) if text else None)


def update(state: TaskState, text: str = "", task_id: str = "t") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=status(state, text))


def artifact(id_: str, *texts: str, append: bool = False) -> TaskArtifactUpdateEvent:
    made = Artifact(artifact_id=id_, parts=[Part(text=text) for text in texts])
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=made, append=append)


# Ids and files


def test_the_ids_of_the_conversation_are_remembered() -> None:
    said = Message(message_id="1", context_id="c2", role=Role.AGENT, parts=[Part(text="x")])
    _, presenter = show(update(TaskState.WORKING), said, message("y"))
    assert (presenter.context_id, presenter.task_id) == ("c2", "t")
    _, presenter = show(Task(id="t", context_id="c3"))
    assert presenter.context_id == "c3"


def test_a_file_is_saved_once_with_the_name_of_its_artifact() -> None:
    saved: list[tuple[str | None, str | None]] = []

    def save(part: Part, name: str | None) -> str:
        saved.append((part.raw, name))
        return "saved as x"

    recorder = Recorder()
    parts = [Part(raw="AAAA"), Part(url="https://a.example/x"), Part(data=1), Part(raw="")]
    event = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", name="n", parts=parts))
    with EventPresenter(recorder, tracks_task=True, save=save) as presenter:
        presenter.show(event)
        presenter.show(Message(message_id="1", parts=[Part(raw="BBBB")]))
    assert saved == [("AAAA", "n"), ("", "n"), ("BBBB", None)]
    assert recorder.calls[0] == ("line", "a file: 3 bytes, saved as x")


def test_the_files_of_a_question_are_shown() -> None:
    asked = Message(parts=[Part(text="Which?"), Part(raw="AAAA", filename="form.pdf")])
    state = TaskStatus(state=TaskState.INPUT_REQUIRED, message=asked)
    shown = calls(TaskStatusUpdateEvent(task_id="t", status=state))
    assert shown == [
        ("text", "Which?"),
        ("line", "form.pdf: 3 bytes, not saved (see --save)"),
        ("info", "task t: input-required"),
    ]


def test_a_terse_presenter_shows_only_states_that_matter() -> None:
    recorder = Recorder()
    with EventPresenter(recorder, tracks_task=True, terse=True) as presenter:
        for state, text in (
            (TaskState.SUBMITTED, ""),
            (TaskState.WORKING, "Looking at the map."),
            (TaskState.INPUT_REQUIRED, "Which?"),
            (TaskState.FAILED, "It broke."),
        ):
            presenter.show(update(state, text))
    assert [call for call in recorder.calls if call[0] != "end"] == [
        ("info", "working: Looking at the map."),
        ("text", "Which?"),
        ("info", "input-required"),
    ]


# The answer


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([message("Hi"), message("you")], ["Hi", "you"]),
        ([artifact("a", "w1 "), artifact("a", "w2", append=True)], ["w1 w2"]),
        ([artifact("a", "w1 "), artifact("a", "w2")], ["w1 ", "w2"]),
        ([artifact("a", "w1 "), artifact("b", "w2", append=True)], ["w1 ", "w2"]),
        (
            [artifact("a", "w1 "), message("Hi"), artifact("a", "w2", append=True)],
            ["w1 ", "Hi", "w2"],
        ),
        ([artifact("a", "one", "two")], ["onetwo"]),
    ],
)
def test_a_text_is_continued_only_by_the_same_artifact(
    events: list[Event], shown: list[str]
) -> None:
    assert [text for kind, text in show(*events)[0].calls if kind == "text"] == shown


@pytest.mark.parametrize(
    ("state", "text_before", "is_answer"),
    [
        (TaskState.COMPLETED, False, True),
        (TaskState.COMPLETED, True, False),
        (TaskState.INPUT_REQUIRED, False, True),
        (TaskState.INPUT_REQUIRED, True, True),
        (TaskState.AUTH_REQUIRED, True, True),
        (TaskState.WORKING, False, False),
        (TaskState.FAILED, False, False),
        (TaskState.REJECTED, False, False),
        (TaskState.CANCELED, False, False),
    ],
)
def test_the_text_of_a_status_is_the_answer_if_it_asks_or_if_there_is_no_other(
    state: TaskState, text_before: bool, is_answer: bool
) -> None:
    events: list[Event] = [artifact("a", "before")] if text_before else []
    shown = calls(*events, update(state, "words"))
    assert (("text", "words") in shown) is is_answer


@each("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
def test_a_question_is_shown_as_it_is_written_and_what_follows_it_as_markdown(
    state: TaskState,
) -> None:
    question = r'May I call delete with {"name":"__init__.py", "say": "\"hi\""}?'
    events: list[Any] = [
        artifact("a", "**I** tidy up."),
        update(state, question),
        artifact("b", "__Done__."),
    ]
    emulator = Emulator(120, 40)
    console = Console(file=EmulatorFile(emulator), force_terminal=True, width=120, height=40)
    with EventPresenter(LiveOutput(console), tracks_task=False, terse=True) as presenter:
        for event in events:
            presenter.show(event)
    name = state.name.lower().replace("_", "-")
    assert emulator.lines == ["I tidy up.", "", question, name, "", "Done."]


def test_an_empty_text_is_no_answer() -> None:
    assert ("text", "words") in calls(artifact("a", ""), update(TaskState.COMPLETED, "words"))


@pytest.mark.parametrize("tracks_task", [True, False])
def test_the_reason_of_a_failure_is_shown_here_only_if_it_does_not_fail_the_command(
    tracks_task: bool,
) -> None:
    [(kind, line)] = calls(update(TaskState.FAILED, "It broke."), tracks_task=tracks_task)
    assert kind == "info"
    assert line == ("task t: failed" if tracks_task else "task t: failed: It broke.")


def test_a_whole_task_shows_its_artifacts_and_then_its_status() -> None:
    parts = [Part(text="words")]
    task = Task(
        id="t",
        status=status(TaskState.COMPLETED),
        artifacts=[Artifact(artifact_id="a", parts=parts)],
    )
    assert calls(task) == [("text", "words"), ("info", "task t: completed")]


# Additional information


def test_the_task_is_named_once_and_a_repeated_state_is_left_out() -> None:
    events = [
        update(TaskState.SUBMITTED),
        update(TaskState.WORKING),
        update(TaskState.WORKING),
        update(TaskState.WORKING, "step 2"),
        update(TaskState.AUTH_REQUIRED),
    ]
    assert calls(*events) == [
        ("info", "task t: submitted"),
        ("info", "working"),
        ("info", "working: step 2"),
        ("info", "auth-required"),
    ]


def test_an_unknown_event_is_shown_as_json() -> None:
    assert calls(UnknownEvent.model_validate({"new": "ü"})) == [
        ("info", 'unknown event: {"new":"ü"}')
    ]


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (Part(url="https://a.example/x"), "a file: https://a.example/x"),
        (
            Part(url="https://a.example/x", filename="x.png", media_type="image/png"),
            "x.png (image/png): https://a.example/x",
        ),
        (Part(raw="AAAA"), "a file: 3 bytes, not saved (see --save)"),
        (Part(raw="AAA="), "a file: 2 bytes, not saved (see --save)"),
        (Part(raw="AA==", filename="x"), "x: 1 bytes, not saved (see --save)"),
        (Part(raw=""), "a file: 0 bytes, not saved (see --save)"),
        (Part(data={"colour": "blue"}), '{"colour":"blue"}'),
    ],
)
def test_a_part_that_is_not_text_is_a_line(part: Part, line: str) -> None:
    assert calls(Message(message_id="1", role=Role.AGENT, parts=[part])) == [("line", line)]


# The task


def test_the_latest_status_and_the_task_are_remembered() -> None:
    task = Task(id="t", status=status(TaskState.WORKING))
    assert show(message("Hi"))[1].task_id is None
    _, presenter = show(task, update(TaskState.COMPLETED, task_id=""))
    assert presenter.task_id == "t"
    assert presenter.status is not None
    assert presenter.status.state is TaskState.COMPLETED
    _, presenter = show(artifact("a", "x"))
    assert (presenter.task_id, presenter.status) == ("t", None)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Task(id="t"), "task"),
        (message("Hi"), "message"),
        (update(TaskState.WORKING), "statusUpdate"),
        (artifact("a", "x"), "artifactUpdate"),
    ],
)
def test_the_json_of_an_event_is_wrapped_only_if_a_task_is_followed(
    event: Event, kind: str
) -> None:
    plain = json.loads(event.to_json())
    assert show(event)[0].records == [{kind: plain}]
    assert show(event, tracks_task=False)[0].records == [plain]


def test_an_unknown_event_keeps_its_own_wrapper() -> None:
    event = {"newUpdate": {"a": 1}}
    assert show(UnknownEvent.model_validate(event))[0].records == [event]


# The card


def test_a_card_is_a_title_a_description_and_a_row_for_each_fact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    card = AgentCard(
        name="Counter",
        version="1.2",
        description="Counts.",
        provider=AgentProvider(organization="Acme", url="https://acme.example"),
        documentation_url="https://acme.example/docs",
        supported_interfaces=[
            AgentInterface(
                url="https://a.example", protocol_binding="JSONRPC", protocol_version="1.0"
            ),
            AgentInterface(url="https://b.example", protocol_binding="HTTP+JSON", tenant="x"),
        ],
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=False,
            extended_agent_card=True,
            extensions=[AgentExtension(uri="u:1", required=True), AgentExtension(uri="u:2")],
        ),
        security_requirements=[
            SecurityRequirement(schemes={"key": [], "mtls": []}),
            SecurityRequirement(),
        ],
        skills=[
            AgentSkill(id="count", name="Count", description="Counts\n  things."),
            AgentSkill(id="bare"),
        ],
    )
    show_card(card, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "Counter 1.2",
        "Counts.",
        "provider     Acme https://acme.example",
        "docs         https://acme.example/docs",
        "interface    https://a.example (JSONRPC 1.0)",
        "interface    https://b.example (HTTP+JSON, tenant x)",
        "capabilities streaming, extended card",
        "extension    u:1 (required)",
        "extension    u:2",
        "security     key and mtls",
        "security     none",
        "skill        Count: Counts things.",
        "skill        bare",
    ]


def test_a_card_without_facts_has_only_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    show_card(AgentCard(name="Counter"), as_json=False)
    assert capsys.readouterr().out == "Counter\n"


def test_a_card_as_json_is_one_object_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    card = AgentCard(name="Counter", description="two\nlines")
    show_card(card, as_json=True)
    assert capsys.readouterr().out == card.to_json() + "\n"
