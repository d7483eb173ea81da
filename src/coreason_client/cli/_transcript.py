"""A conversation as a file: Markdown, or JSON. Pure."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .output import clean, escaped_json

__all__ = ["Transcript", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user and its answer."""

    time: str
    """When the message was sent, in UTC."""

    question: str
    attachments: Sequence[str]
    answer: str

    problem: str | None = None
    """Why the answer is missing or incomplete; None if it is complete."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The turns of a conversation that were held at this prompt."""

    partner: str
    conversation: str | None
    turns: Sequence[Turn]

    def as_json(self) -> str:
        """Return an object with the conversation and its turns."""
        return escaped_json(json.dumps(asdict(self), ensure_ascii=False, indent=2)) + "\n"

    def as_markdown(self) -> str:
        """Return a document with a heading for each message and each answer."""
        lines = [f"# Conversation with {self.partner}"]
        if self.conversation is not None:
            lines.append(f"ID: `{self.conversation}`")
        for turn in self.turns:
            lines += ["## Question", *_question(turn), "## Answer", *_answer(turn)]
        return clean("\n\n".join(lines)) + "\n"

    def for_file(self, name: str) -> str:
        """Return the content of a file with this name."""
        return self.as_json() if name.lower().endswith(".json") else self.as_markdown()


def _question(turn: Turn) -> list[str]:
    attached = [f"Attached: {', '.join(turn.attachments)}"] if turn.attachments else []
    return [*([turn.question] if turn.question else []), *attached]


def _answer(turn: Turn) -> list[str]:
    answer = [turn.answer.strip()] if turn.answer.strip() else []
    return answer if turn.problem is None else [*answer, f"*Incomplete: {turn.problem}*"]
