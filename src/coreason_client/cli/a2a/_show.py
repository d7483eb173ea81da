"""Shows the events of an answer, and what to do next."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AError,
    Event,
    Message,
    Part,
    SendMessageConfiguration,
    TaskNotCancelableError,
    TaskState,
)

from .._attached import Attached
from .._text import encodable
from ..exits import Failure
from ..output import open_output, print_dimmed, print_stderr
from ..prompt import LineReader, typed_row
from ._agent import AgentOptions, redacting
from ._connect import agent_errors
from ._events import EventPresenter, ShownArtifacts
from ._files import SavedFiles, attached_part
from ._ids import MessageIds, next_step

_FAILED = {
    TaskState.FAILED: "the task failed",
    TaskState.REJECTED: "the agent rejected the task",
    TaskState.CANCELED: "the task was canceled",
}


class AnswerView:
    """Shows one answer of an agent.

    With `tracks_task`, the command follows the task and fails if the task fails. `files` stores the
    files of the answer. With `terse`, most states of the task are not shown. `shown`
    has the artifacts of earlier answers, which are not shown again. `status` returns a line to show
    below the answer while it is drawn.
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
        status: Callable[[], str] = str,
    ) -> None:
        self._agent = agent
        self._as_json = as_json
        self._tracks_task = tracks_task
        self._files = files
        self._saved_before = 0 if files is None else len(files.paths)
        self.presenter = EventPresenter(
            open_output(as_json=as_json, status=status),
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


_CALL_TIMEOUT = 2.0


class AgentPartner:
    """Sends each line to the agent: as the answer to a task that waits for it, or as a new task."""

    says = True
    others = None

    def __init__(
        self,
        agent: AgentOptions,
        client: A2AClient,
        ids: MessageIds,
        *,
        as_json: bool,
        files: SavedFiles | None,
    ) -> None:
        self._agent = agent
        self._client = client
        self._ids = ids
        self._as_json = as_json
        self._files = files
        self._shown = ShownArtifacts()
        self.answer = ""

    def check(self, attached: Attached) -> None:
        """Do nothing: an agent may accept files of any type."""

    def ask(
        self, text: str, attached: Sequence[Attached] = (), reader: LineReader | None = None
    ) -> bool:
        """Send a message and show the answer; Ctrl-C cancels the task.

        Returns True if the task waits for the user.
        `reader` reads what the user types meanwhile.

        Raises:
            A2AError, Failure: there was no answer, or the task failed.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        with redacting(*self._agent.secrets), ThreadPoolExecutor(1) as sending:
            return self._ask(text, attached, reader, sending)

    def _ask(
        self, text: str, attached: Sequence[Attached], reader: LineReader | None, sending: Executor
    ) -> bool:
        def status() -> str:
            seen = view.presenter
            if reader is None or seen.task_id is None:  # nobody can be told anything yet
                return ""
            return typed_row(
                reader, lambda said: sending.submit(self._say, said, seen.context_id, seen.task_id)
            )

        self.answer = ""
        view = AnswerView(
            self._agent,
            as_json=self._as_json,
            files=self._files,
            terse=True,
            shown=self._shown,
            status=status,
        )
        parts = [*([Part(text=encodable(text))] if text else []), *map(attached_part, attached)]
        try:
            self._show(view, self._ids.message(parts))
        except (KeyboardInterrupt, BrokenPipeError):
            # The rest of the answer is not wanted, so the agent can stop.
            self._ids = MessageIds(view.presenter.context_id or self._ids.context_id)
            self._cancel(view.presenter.task_id)
            raise
        except A2AError:
            if view.presenter.task_id is not None:  # the task has begun, and may go on
                self._ids = view.next_ids(self._ids)
                view.print_next_step("stream")
            raise
        self._ids = view.next_ids(self._ids)
        view.raise_if_failed()
        return view.presenter.status is not None and view.presenter.status.is_interrupted

    def _say(self, text: str, context_id: str | None, task_id: str | None) -> None:
        """Send a message to a working task; print it, and why it was not sent."""
        print_dimmed(f"> {text}")
        message = Message.user(encodable(text), context_id=context_id, task_id=task_id)
        config = SendMessageConfiguration(return_immediately=True)
        try:
            with redacting(*self._agent.secrets):
                self._client.send_message(message, config, timeout=_CALL_TIMEOUT)
        except (A2AError, Failure) as error:
            # The agent may have it if there was no response, or only one of a gateway.
            lost = isinstance(error, A2AConnectionError) or (getattr(error, "status", 0) or 0) > 499
            print_stderr(f"{'Perhaps not' if lost else 'Not'} sent: {error}")

    def _show(self, view: AnswerView, message: Message) -> None:
        try:
            view.show(self._client.send_message_stream(message))
        finally:
            self.answer = view.presenter.text

    def start_over(self) -> None:
        """Start a new conversation."""
        self._ids = MessageIds()
        self._shown = ShownArtifacts()

    def conversation_id(self) -> str | None:
        """Return the ID of the conversation, None if the agent has not chosen it yet."""
        return self._ids.context_id

    def continue_command(self) -> str | None:
        """Return the command that continues the conversation, None if there is nothing yet."""
        if self._ids == MessageIds():
            return None
        return self._agent.command("chat", "URL", *self._ids.options())

    def _cancel(self, task_id: str | None) -> None:
        """Cancel the task; print a warning if it may still be running."""
        with suppress(OSError):
            if task_id is None:
                print_stderr("The answer had no task yet, so the agent may still be working.")
                return
            try:
                self._client.cancel_task(task_id, timeout=_CALL_TIMEOUT)
            except TaskNotCancelableError:
                pass  # it has ended in the meantime
            except A2AError as error:
                print_stderr(f"The task was not canceled and may still be running: {error}")
