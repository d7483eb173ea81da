"""The state of a stream of events, shared by sync and async."""

from collections.abc import Callable, Mapping

from ._assemble import Assembly
from ._resubscribe import ResubscribeMachine
from .types import Message, Task

__all__ = ["EventProgress"]


class EventProgress:
    """The task, messages and text that a stream has delivered so far."""

    _assembly: Assembly
    _machine: ResubscribeMachine | None

    @property
    def task(self) -> Task | None:
        """The task assembled so far; None if the agent has sent none."""
        return self._assembly.task

    @property
    def message(self) -> Message | None:
        """The last message that was an event of its own."""
        return self._assembly.message

    @property
    def text(self) -> str:
        """The text of the answer so far.

        It is the text of artifacts and messages, in the order of their first events; an artifact is
        one piece. If the agent sends neither, it is the text of the status.
        """
        return self._assembly.text

    @property
    def task_id(self) -> str | None:
        """The id of the task, None before it is known."""
        return self._assembly.task_id

    @property
    def context_id(self) -> str | None:
        """The id of the conversation, None before it is known."""
        return self._assembly.context_id

    @property
    def complete_artifacts(self) -> frozenset[str]:
        """The ids of the artifacts whose last chunk has arrived."""
        return frozenset(self._assembly.complete_artifacts)

    def on_task(self, callback: Callable[[str, str | None], None]) -> None:
        """Call a function with the ids of the task and its context as soon as they are known."""
        self._assembly.on_task = callback

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return 0 if self._machine is None else self._machine.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before the first one."""
        head = None if self._machine is None else self._machine.response_head
        return {} if head is None else head.headers
