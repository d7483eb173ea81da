"""The ids that connect a message with the conversation and the task that it continues. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from coreason_client import ArgumentError
from coreason_client.a2a import Message, Part, Task, TaskState, TaskStatus
from coreason_client.a2a.types import Role

from .._text import encodable
from ..exits import Failure
from ._agent import AgentOptions


@dataclass(frozen=True, slots=True)
class MessageIds:
    """The ids of the next message: of its conversation, and of the task that it answers."""

    context_id: str | None = None
    task_id: str | None = None

    @classmethod
    def from_options(cls, context_id: str | None, task_id: str | None) -> "MessageIds":
        """Return the ids of `--context` and `--task`.

        Raises:
            ArgumentError: one of them is empty.
        """
        return cls(
            None if context_id is None else checked_id("--context", context_id),
            None if task_id is None else checked_id("--task", task_id),
        )

    def message(self, parts: Sequence[Part]) -> Message:
        """Return the message of the user with these ids."""
        return Message(
            role=Role.USER, parts=list(parts), context_id=self.context_id, task_id=self.task_id
        )

    def after(
        self, context_id: str | None, task_id: str | None, status: TaskStatus | None
    ) -> "MessageIds":
        """Return the ids of the next message; the arguments are those of the last answer.

        Only a task that waits for the user takes another message.
        """
        waits = status is not None and status.is_interrupted
        return MessageIds(context_id or self.context_id, task_id if waits else None)

    def of_task(self, task: Task) -> "MessageIds":
        """Return the ids with the context of the task.

        Raises:
            Failure: the task is over, so it takes no more messages.
        """
        if task.status.is_terminal:
            hint = f"; use --context {task.context_id} without --task" if task.context_id else ""
            message = f"the task is {state_name(task.status)} and takes no more messages"
            raise Failure(f"{message}{hint} to continue its conversation" if hint else message)
        return MessageIds(self.context_id or task.context_id, task.id)

    def options(self) -> list[str]:
        """Return the options of a command that continues with these ids."""
        task = ["--task", self.task_id] if self.task_id else []
        return [*task, *(["--context", self.context_id] if self.context_id else [])]


def checked_id(argument: str, text: str) -> str:
    """Return an id that can be sent.

    Raises:
        ArgumentError: it is empty.
    """
    if not text:
        raise ArgumentError(argument, "must not be empty")
    return encodable(text)


def state_name(status: TaskStatus) -> str:
    """Return the state of a task as users write it, such as input-required."""
    return str(status.state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def next_step(
    agent: AgentOptions, verb: str, ids: MessageIds, task_id: str | None, status: TaskStatus | None
) -> str | None:
    """Return the sentence with the command that continues with a task; None if it is over.

    `verb` is the command that answers a task, and `ids` are those of the next message.
    """
    if task_id is None or (status is not None and status.is_terminal):
        return None
    watch = agent.command("task", "watch", "URL", task_id)
    answer = agent.command(verb, "URL", *ids.options())
    if status is None or not status.is_interrupted:
        return f"the task has not ended; to watch it: {watch}"
    if status.state == TaskState.AUTH_REQUIRED:
        # Some agents continue by themselves, others with the next message.
        return f"the task waits until you have signed in; to watch it: {watch}\nto answer: {answer}"
    return f"to answer: {answer}"
