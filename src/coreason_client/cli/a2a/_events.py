"""Presents the events, the tasks and the card of an A2A agent on an output."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias

from coreason_client import ArgumentError
from coreason_client.a2a import (
    AgentCard,
    Artifact,
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from .._text import as_local_time, shortened
from ..output import Output, print_json, show_table
from ._ids import state_name

SaveFile: TypeAlias = Callable[[Part, str | None], str]
"""Stores the content of a part; returns where it is. The second argument is the artifact's name."""

_FAILED = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)


class EventPresenter:
    """Presents the events of one answer, and remembers the status of its task.

    The text of messages and artifacts is the answer; changes of the task's state are shown as
    additional information.

    `tracks_task` is True if the command follows a task: a failed task then fails the command, and
    each JSON object is wrapped under its kind (`task`, `message`, `statusUpdate`,
    `artifactUpdate`), as in streams of the protocol. `save` stores the files of the answer. With
    `terse`, a state is shown only if the agent adds a message or waits for the user. A task does
    not show artifacts again that are in `shown`.
    """

    def __init__(
        self,
        output: Output,
        *,
        tracks_task: bool,
        save: SaveFile | None = None,
        terse: bool = False,
        shown: "ShownArtifacts | None" = None,
    ) -> None:
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.status: TaskStatus | None = None
        self._output = output
        self._tracks_task = tracks_task
        self._save = save
        self._terse = terse
        self._shown = shown or ShownArtifacts()
        self._artifact: str | None = None  # the id of the one being written
        self._no_text_yet = True
        self._task_named = False
        self._last_info = ""
        self._blocks = [""]

    @property
    def text(self) -> str:
        """The text of the answer so far, with a blank line between its blocks."""
        return "\n\n".join(filter(None, map(str.strip, self._blocks)))

    def __enter__(self) -> Self:
        self._output.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._output.__exit__(exc_type, exc, traceback)

    def show(self, event: Event) -> None:
        """Present an event."""
        self._remember(event)
        self._output.record(lambda: _json(event, wrapped=self._tracks_task))
        match event:
            case Task():
                for artifact in event.artifacts:
                    if not self._shown.has(self.task_id, artifact):
                        self._show_artifact(artifact, append=False)
                self._show_status(event.status)
            case Message():
                self._start_block(None)
                self._show_parts(event.parts)
            case TaskStatusUpdateEvent():
                self._show_status(event.status)
            case TaskArtifactUpdateEvent():
                self._show_artifact(event.artifact, append=event.append)
            case _:
                self._output.info(f"unknown event: {_compact(event.payload)}")

    def _remember(self, event: Event) -> None:
        self.context_id = getattr(event, "context_id", None) or self.context_id
        if isinstance(event, Task):
            self.task_id, self.status = event.id, event.status
        elif isinstance(event, TaskStatusUpdateEvent):
            self.task_id, self.status = event.task_id or self.task_id, event.status
        elif isinstance(event, TaskArtifactUpdateEvent):
            self.task_id = event.task_id or self.task_id

    def _show_artifact(self, artifact: Artifact, *, append: bool) -> None:
        if not append or artifact.artifact_id != self._artifact:
            self._start_block(artifact.artifact_id)
        self._shown.add(self.task_id, artifact, append=append)
        self._show_parts(artifact.parts, artifact.name)

    def _start_block(self, artifact: str | None, *, as_written: bool = False) -> None:
        self._output.end_text(as_written=as_written)
        self._artifact = artifact
        self._blocks.append("")

    def _show_parts(self, parts: Sequence[Part], name: str | None = None) -> None:
        """Show the parts of a message, or of an artifact with this name."""
        for part in parts:
            if part.text is not None:
                self._output.write(part.text)
                self._blocks[-1] += part.text
            else:
                line = _part_line(part, self._stored(part, name))
                self._output.line(line)
                self._blocks += [line, ""]
            self._no_text_yet = self._no_text_yet and not part.text

    def _stored(self, part: Part, name: str | None) -> str:
        if part.raw is None or self._save is None:
            return "not saved (see --save)"
        return self._save(part, name)

    def _show_status(self, status: TaskStatus) -> None:
        line = state_name(status)
        if status.is_terminal or status.is_interrupted:
            # The user may permit what a question says.
            self._start_block(None, as_written=status.is_interrupted)
        parts = [] if status.message is None else status.message.parts
        if parts and self._is_answer(status):
            self._show_parts(parts)
            self._output.end_text()
        elif status.text and not (self._tracks_task and status.state in _FAILED):
            line = f"{line}: {status.text}"
        if self._terse:
            if status.is_interrupted or line != state_name(status):
                self._output.info(line)
        else:
            self._show_state(line)

    def _show_state(self, line: str) -> None:
        if not self._task_named and self.task_id:
            self._task_named = True
            line = f"task {self.task_id}: {line}"
        if line != self._last_info:
            self._output.info(line)
        self._last_info = line

    def _is_answer(self, status: TaskStatus) -> bool:
        """Return True if the text of a status is part of the answer, not only progress."""
        if status.is_interrupted:
            return True
        return self._no_text_yet and status.is_terminal and status.state not in _FAILED


def _part_line(part: Part, stored: str) -> str:
    """Return a line for a part that is not text; `stored` says where a file is stored."""
    if part.raw is None and part.url is None:
        return _compact(part.data)
    name = part.filename or "a file"
    kind = f" ({part.media_type})" if part.media_type else ""
    if part.url is not None:
        return f"{name}{kind}: {part.url}"
    size = len((part.raw or "").rstrip("=")) * 3 // 4  # of the decoded base64
    return f"{name}{kind}: {size} bytes, {stored}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json(event: Event, *, wrapped: bool) -> str:
    text = event.to_json()
    kind = _kind_of(event) if wrapped else ""
    return f'{{"{kind}":{text}}}' if kind else text


def _kind_of(event: Event) -> str:
    match event:
        case Task():
            return "task"
        case Message():
            return "message"
        case TaskStatusUpdateEvent():
            return "statusUpdate"
        case TaskArtifactUpdateEvent():
            return "artifactUpdate"
    return ""  # an unknown event has kept its wrapper


# The card


def show_card(card: AgentCard, *, as_json: bool) -> None:
    """Show an agent card."""
    if as_json:
        print_json(card.to_json())
    else:
        show_table(f"{card.name} {card.version}", card.description, list(_rows(card)))


def _rows(card: AgentCard) -> Iterator[tuple[str, str]]:
    if card.provider is not None:
        yield "provider", f"{card.provider.organization} {card.provider.url}".strip()
    if card.documentation_url:
        yield "docs", card.documentation_url
    for interface in card.supported_interfaces:
        tenant = f", tenant {interface.tenant}" if interface.tenant else ""
        protocol = f"{interface.protocol_binding} {interface.protocol_version}".strip()
        yield "interface", f"{interface.url} ({protocol}{tenant})"
    capabilities = card.capabilities
    supported = {
        "streaming": capabilities.streaming,
        "push notifications": capabilities.push_notifications,
        "extended card": capabilities.extended_agent_card,
    }
    if names := [name for name, is_supported in supported.items() if is_supported]:
        yield "capabilities", ", ".join(names)
    for extension in capabilities.extensions:
        yield "extension", extension.uri + (" (required)" if extension.required else "")
    for requirement in card.security_requirements:
        yield "security", " and ".join(requirement.schemes) or "none"
    for skill in card.skills:
        name, description = skill.name or skill.id, " ".join(skill.description.split())
        yield "skill", f"{name}: {description}" if description else name


class ShownArtifacts:
    """The content of the artifacts that a conversation has already shown, by task and artifact.

    An agent may begin each answer with the whole task, which has those of earlier turns again.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str | None, str], list[Part]] = {}

    def add(self, task_id: str | None, artifact: Artifact, *, append: bool) -> None:
        """Record an artifact, or more of it, that is shown now."""
        key = (task_id, artifact.artifact_id)
        before = self._parts.get(key, []) if append else []
        self._parts[key] = [*before, *artifact.parts]

    def has(self, task_id: str | None, artifact: Artifact) -> bool:
        """Return True if exactly this artifact has been shown."""
        shown = self._parts.get((task_id, artifact.artifact_id))
        return shown is not None and _content(shown) == _content(artifact.parts)


def _content(parts: list[Part]) -> list[Any]:
    """Return what the parts show: pieces of text that follow each other are one text."""
    content: list[Any] = [""]
    for part in parts:
        if part.text is None:
            content += [json.dumps(part.dump(), sort_keys=True), ""]
        else:
            content[-1] += part.text
    return content


# Tasks in a list


def task_row(task: Task, *, local_time: bool) -> tuple[str, str, str, str]:
    """Return the id, the state, the time of the last change and the first words of a task."""
    time = task.status.timestamp or ""
    shown = as_local_time(time) if local_time else time
    return task.id, state_name(task.status), shown, first_words(task)


def first_words(task: Task) -> str:
    """Return the beginning of what was asked; if it is not known, of what the agent says."""
    asked = [message.text for message in task.history if message.role == Role.USER]
    texts = [*asked, task.status.text, task.text]
    return shortened(next((text for text in texts if text.strip()), ""))


def parse_state(text: str) -> TaskState:
    """Return the state with a name such as input-required.

    Raises:
        ArgumentError: there is no such state.
    """
    name = text.strip().upper().replace("-", "_").removeprefix("TASK_STATE_")
    states = {state.name: state for state in TaskState if state is not TaskState.UNSPECIFIED}
    if name not in states:
        known = ", ".join(state.name.lower().replace("_", "-") for state in states.values())
        raise ArgumentError("--state", f"must be one of {known}", text)
    return states[name]
