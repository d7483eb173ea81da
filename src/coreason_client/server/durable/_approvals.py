"""The approvals of a durable agent: the turn that answers one goes on where the agent has asked.

A stream that asks ends, and keeps the request, the outcomes of the steps so far and the approvals
with the question. The stream that answers runs the agent again from its start: steps return what
they returned, and nothing is written, until the agent asks the same again. No I/O.
"""

from typing import Any, Final

from ._journal import Journal
from ._notes import Begun, Done, Policy, dump_note, parse_note
from ._replay import SKIP, Finished, Replay, ReplayDiverged

APPROVAL: Final = "coreason.approval"
"""The key of the state of a question that `approve` has asked. Logs store it."""


class ApprovalPending(BaseException):
    """The agent has asked for an approval; the turn that answers goes on."""


class SilentReplay(Replay):
    """Lets an agent do again, in silence, what it did before it asked.

    `after` is the replay of the stream that answers, None if it has written nothing yet.
    """

    def __init__(self, notes: list[str], after: Replay | None) -> None:
        super().__init__(Journal(parse_note(note.encode()) for note in notes), ())
        self._after = after

    @property
    def complete(self) -> bool:
        """False: it ends with the approval."""
        return False

    def write(self, owner: str, op: str, content: Any) -> Any:
        """Drop a packet: the stream that asked has it."""
        return SKIP

    def begin_step(self, path: str, policy: Policy, function: str, arguments: str) -> Finished:
        """Return the outcome of a step.

        Raises:
            ReplayDiverged: the agent did not call it before it asked.
        """
        action = super().begin_step(path, policy, function, arguments)
        if not isinstance(action, Finished):
            raise ReplayDiverged(f"the step {path} was not called before the approval")
        return action

    def end(self) -> None:
        """Refuse the end of an agent that did not ask again.

        Raises:
            ReplayDiverged: always.
        """
        super().end()
        raise ReplayDiverged("the agent did not ask for its approval again")

    def close(self) -> Replay | None:
        """Return the replay that follows, when the agent has asked again.

        Raises:
            ReplayDiverged: it has not called all steps before.
        """
        super().end()
        return self._after


class Approvals:
    """The approvals that an agent asks for, in order; those that are known have an answer."""

    def __init__(self, state: dict[str, Any] | None = None, answer: Any = None) -> None:
        self._known: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._count = 0
        if state is not None:
            *earlier, asked = state["approvals"]
            self._known = [*earlier, {**asked, "answer": answer}]
            self._notes = state["notes"]

    def next(self, shown: dict[str, Any]) -> tuple[Any, bool]:
        """Return the answer to the next approval, None if there is none yet; and if it is the last.

        Raises:
            ReplayDiverged: the agent has asked for something else before.
        """
        if self._count == len(self._known):
            return None, False
        known = self._known[self._count]
        if known["shown"] != shown:
            raise ReplayDiverged(f"the agent asked for {known['shown']['name']} before")
        self._count += 1
        return known["answer"], self._count == len(self._known)

    def state(self, journal: Journal, shown: dict[str, Any]) -> dict[str, Any]:
        """Return what the turn that answers needs.

        Raises:
            RuntimeError: a step of the agent has not ended.
        """
        notes = [*self._notes]
        for path, step in journal.steps.items():
            if step.done is None:
                raise RuntimeError(f"the step {path} must end before approve() is called")
            if "/" not in path and not path.startswith(f"{APPROVAL}@"):
                begun = Begun(path, step.policy, step.function, step.arguments)
                done = Done(path, step.done.outcome, step.done.value)
                notes += [dump_note(note).decode() for note in (begun, done)]
        return {"notes": notes, "approvals": [*self._known, {"shown": shown}]}
