"""The complete answer that `ask` returns."""

from typing import Self

from coreason_manifest.definitions.presentation import PresentationEvent

__all__ = ["Answer"]


class Answer(str):
    """The text of a complete answer: a string with the conversation id and the events.

    Attributes:
        conversation_id: pass it to the next `ask` or `chat` to continue the conversation.
        events: the events that came with the text: citations, progress, media and the like.
    """

    __slots__ = ("conversation_id", "events")

    conversation_id: str
    events: list[PresentationEvent | dict[str, object]]

    def __new__(
        cls,
        text: str,
        *,
        conversation_id: str,
        events: list[PresentationEvent | dict[str, object]],
    ) -> Self:
        """Create an answer from its text."""
        answer = super().__new__(cls, text)
        answer.conversation_id = conversation_id
        answer.events = events
        return answer

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        """Return the arguments that `copy` and `pickle` need."""
        return (str(self),), {"conversation_id": self.conversation_id, "events": self.events}
