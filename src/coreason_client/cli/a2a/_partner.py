"""An A2A agent in a conversation at a prompt."""

from collections.abc import Sequence
from contextlib import suppress

from coreason_client.a2a import A2AClient, A2AError, Message, Part, TaskNotCancelableError

from .._attached import Attached
from .._text import encodable
from ..output import print_stderr
from ._agent import AgentOptions
from ._attachments import attached_part
from ._ids import MessageIds
from ._redaction import redacting
from ._saved_files import SavedFiles
from ._show import AnswerView
from ._shown_artifacts import ShownArtifacts

__all__ = ["AgentPartner"]

_CANCEL_TIMEOUT = 2.0


class AgentPartner:
    """Sends each line to the agent: as the answer to a task that waits for it, or as a new task."""

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

    def ask(self, text: str, attached: Sequence[Attached] = ()) -> None:
        """Send a message and show the answer; Ctrl-C cancels the task.

        Raises:
            A2AError, Failure: there was no answer, or the task failed.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        with redacting(*self._agent.secrets):
            self._ask(text, attached)

    def _ask(self, text: str, attached: Sequence[Attached]) -> None:
        self.answer = ""
        view = AnswerView(
            self._agent,
            as_json=self._as_json,
            files=self._files,
            terse=True,
            shown=self._shown,
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
        if task_id is None:
            with suppress(OSError):
                print_stderr("The answer had no task yet, so the agent may still be working.")
            return
        try:
            self._client.cancel_task(task_id, timeout=_CANCEL_TIMEOUT)
        except TaskNotCancelableError:
            pass  # it has ended in the meantime
        except A2AError as error:
            with suppress(OSError):
                print_stderr(f"The task was not canceled and may still be running: {error}")
