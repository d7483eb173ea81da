"""Shows the events of an answer, and what to do next."""

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any

from coreason_client.a2a import Event, TaskState

from ..exits import Failure
from ..output import open_output, print_stderr
from ._agent import AgentOptions
from ._connect import agent_errors
from ._events import EventPresenter
from ._ids import MessageIds, next_step
from ._saved_files import SavedFiles
from ._shown_artifacts import ShownArtifacts

__all__ = ["AnswerView"]

_FAILED = {
    TaskState.FAILED: "the task failed",
    TaskState.REJECTED: "the agent rejected the task",
    TaskState.CANCELED: "the task was canceled",
}


class AnswerView:
    """Shows one answer of an agent.

    With `tracks_task`, the command follows the task and fails if the task fails. `files` stores the
    files of the answer. With `terse`, most states of the task are not shown. `shown`
    has the artifacts of earlier answers, which are not shown again.
    """

    def __init__(
        self,
        agent: AgentOptions,
        *,
        as_json: bool,
        tracks_task: bool = True,
        files: SavedFiles | None = None,
        terse: bool = False,
        shown: ShownArtifacts | None = None,
    ) -> None:
        self._agent = agent
        self._as_json = as_json
        self._tracks_task = tracks_task
        self._files = files
        self._saved_before = 0 if files is None else len(files.paths)
        self.presenter = EventPresenter(
            open_output(as_json=as_json),
            tracks_task=tracks_task,
            save=None if files is None else files.save,
            terse=terse,
            shown=shown,
        )

    def show(self, events: Iterable[Event]) -> None:
        """Show the events; a generator is closed afterwards.

        Raises:
            A2AError, Failure: there is no answer, or it is incomplete.
        """
        source: Any = events
        try:
            with agent_errors(), closing(source), self.presenter:
                for event in events:
                    self.presenter.show(event)
        finally:
            self._report_saved()

    def _report_saved(self) -> None:
        """Name the stored files on stderr if the JSON output does not."""
        if self._as_json and self._files is not None:
            for path in self._files.paths[self._saved_before :]:
                with suppress(OSError):
                    print_stderr(f"saved as {path}")

    def raise_if_failed(self) -> None:
        """Raise a Failure if the task failed, or if a file could not be stored."""
        status = self.presenter.status
        if self._tracks_task and status is not None and isinstance(status.state, TaskState):
            _raise_for(status.state, status.text)
        if self._files is not None:
            self._files.raise_problem()

    def next_ids(self, ids: MessageIds) -> MessageIds:
        """Return the ids of the message after this answer; `ids` are those of the question."""
        seen = self.presenter
        return ids.after(seen.context_id, seen.task_id, seen.status)

    def print_next_step(self, verb: str) -> None:
        """Print the command that answers or watches the task, unless it is over."""
        seen = self.presenter
        line = next_step(self._agent, verb, self.next_ids(MessageIds()), seen.task_id, seen.status)
        if line is not None:
            with suppress(OSError):
                print_stderr(line)


def _raise_for(state: TaskState, text: str) -> None:
    message = _FAILED.get(state)
    if message is not None:
        raise Failure(f"{message}: {text}" if text else message)
