"""The text of an answer, as the events of a stream build it up. Pure.

* Artifacts and messages are the answer: each in the order in which it first came, an artifact in
  one piece. So the text that a loop prints is this text, unless an agent writes two artifacts in
  turns or writes one anew.
* An agent that sends neither answers with its status: with the message of the status that ends
  the task or waits for the user, or else with the messages of all statuses. Only the last status
  shows that nothing else comes, so that event has the text.
"""

from ._partial import PartialArtifact
from .types import Message, Task, TaskStatus, TaskStatusUpdateEvent, latest_messages

__all__ = ["Answer"]


class Answer:
    """The text of an answer so far."""

    def __init__(self) -> None:
        self.content: list[PartialArtifact | Message] = []
        self._status_texts: list[str] = []
        self._message_ids: set[str] = set()
        self._recalled: set[str] = set()
        self._delivered = ""  # by statuses

    def text(self, status: TaskStatus) -> str:
        """Return the text so far; `status` is the present one."""
        return "".join([piece.text for piece in self.content]) or self._status_text(status)

    def _status_text(self, status: TaskStatus) -> str:
        ends = status.is_terminal or status.is_interrupted
        return (ends and status.text) or "".join(self._status_texts)

    def begin(self, task: Task) -> None:
        """Record the first task of a stream, which is delivered as it is."""
        self.recall(task)
        self.record(task.status)
        self._delivered = "" if self._has_content() else task.text

    def recall(self, task: Task) -> None:
        """Record the messages in a task's history that were missed."""
        for message in latest_messages(task):
            if message.message_id not in self._message_ids:
                self._recalled.add(message.message_id)
                self._add(message)

    def record(self, status: TaskStatus) -> None:
        """Record the message of a status that is new."""
        if status.message is not None and status.message.message_id not in self._recalled:
            self._add(status.message)

    def _add(self, message: Message) -> None:
        self._message_ids.add(message.message_id)
        self._status_texts.append(message.text)

    def _has_content(self) -> bool:
        return any(piece.text for piece in self.content)

    def missed(self, task: Task) -> str:
        """Return the text by which the history of a task goes beyond the messages delivered."""
        if not self.content or not all(isinstance(piece, Message) for piece in self.content):
            return ""
        delivered = "".join([piece.text for piece in self.content])
        whole = "".join([message.text for message in latest_messages(task)])
        return whole.removeprefix(delivered) if whole.startswith(delivered) else ""

    def complete(self, event: TaskStatusUpdateEvent) -> None:
        """Give a status that may be the last one the text that is still to be delivered."""
        text = "" if self._has_content() else self._status_text(event.status)
        event._answer = text.removeprefix(self._delivered)
        self._delivered = text or self._delivered
