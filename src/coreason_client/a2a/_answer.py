"""The text of an answer, built up from the events of a stream. Pure.

* The answer consists of artifacts and messages, in the order of their first events; an artifact is
  one piece. This is also the text that a loop over the events prints, unless an agent alternates
  between two artifacts or replaces one.
* If an agent sends neither, its status is the answer: the message of the status that ends the task
  or waits for the user, or else the messages of all statuses. Only the last status shows that
  nothing else follows, so the event of the last status has the text. If that status only says that
  the task is complete, the answer is the last message in the history.
"""

from ._partial import PartialArtifact
from .types import (
    Message,
    Part,
    Role,
    Task,
    TaskStatus,
    TaskStatusUpdateEvent,
    answer_in_history,
    latest_messages,
)

__all__ = ["Answer"]


class Answer:
    """The text of an answer so far."""

    def __init__(self) -> None:
        self.content: list[PartialArtifact | Message] = []
        self._status_texts: list[str] = []
        self._message_ids: set[str] = set()
        self._ids_from_history: set[str] = set()
        self._task: Task | None = None  # the last one whose history was recorded
        self._delivered = ""  # text that statuses have delivered

    def text(self, status: TaskStatus) -> str:
        """Return the text so far; `status` is the current one."""
        return "".join([piece.text for piece in self.content]) or self._status_text(status)

    def _status_text(self, status: TaskStatus) -> str:
        ends = status.is_terminal or status.is_interrupted
        if ends and self._task is not None:
            task = self._task.model_copy(update={"status": status})
            if answer := answer_in_history(task):
                return answer
        return (ends and status.text) or "".join(self._status_texts)

    def begin(self, task: Task) -> None:
        """Record the first task of a stream, which is delivered unchanged."""
        self.record_history(task)
        self.record(task.status)
        self._delivered = "" if self._has_content() else task.text

    def record_history(self, task: Task) -> None:
        """Record the messages in a task's history that were not delivered."""
        self._task = task
        for message in latest_messages(task):
            if message.message_id not in self._message_ids:
                self._ids_from_history.add(message.message_id)
                self._add(message)

    def record(self, status: TaskStatus) -> None:
        """Record the message of a new status."""
        if status.message is not None and status.message.message_id not in self._ids_from_history:
            self._add(status.message)

    def _add(self, message: Message) -> None:
        self._message_ids.add(message.message_id)
        self._status_texts.append(message.text)

    def _has_content(self) -> bool:
        return any(piece.text for piece in self.content)

    def missed(self, task: Task) -> Message | None:
        """Return the text in the history of a task that was not delivered in messages."""
        if not self.content or not all(isinstance(piece, Message) for piece in self.content):
            return None
        delivered = "".join([piece.text for piece in self.content])
        whole = "".join([message.text for message in latest_messages(task)])
        rest = whole.removeprefix(delivered) if whole.startswith(delivered) else ""
        if not rest:
            return None
        parts = [Part(text=rest)]
        return Message(role=Role.AGENT, task_id=task.id, context_id=task.context_id, parts=parts)

    def complete(self, event: TaskStatusUpdateEvent) -> None:
        """Set the text of an event whose status may be the last: what is still to be delivered."""
        text = "" if self._has_content() else self._status_text(event.status)
        event._answer = text.removeprefix(self._delivered)
        self._delivered = text or self._delivered
