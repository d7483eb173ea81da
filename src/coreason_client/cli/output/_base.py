"""The interface of all outputs."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

if TYPE_CHECKING:  # `coreason --help` must not load the definitions
    from coreason_manifest.definitions.presentation import ProgressUpdate

__all__ = ["Json", "Output", "Source"]

Json: TypeAlias = Callable[[], str]
"""Returns the JSON of an object as one line."""


class Source(NamedTuple):
    """A source of an answer, with its number in the list."""

    number: int
    title: str
    uri: str


class Output:
    """Shows one answer; a context manager. Each subclass leaves out what it cannot show."""

    can_rewind: ClassVar[bool] = False
    """True if a part of the answer may become void after it was shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def record(self, json: Json) -> None:
        """Write the JSON of a packet, an event or a response."""

    def begin_packet(self, seq: int) -> None:
        """Begin the packet with this number; what is shown next belongs to it."""

    def rewind(self, to_seq: int) -> None:
        """Remove what was shown for the packets after `to_seq`, which are void."""

    def write(self, text: str) -> None:
        """Continue the text of the answer, which is Markdown."""

    def end_text(self) -> None:
        """End the text; the next text starts a new block."""

    def block(self, text: str) -> None:
        """Show Markdown that does not continue the text."""

    def line(self, text: str) -> None:
        """Show a line that is not Markdown."""

    def lines(self, texts: Sequence[str]) -> None:
        """Show lines that are not Markdown as a separate paragraph."""

    def thought(self, text: str) -> None:
        """Show a thought of the agent."""

    def progress(self, update: "ProgressUpdate") -> None:
        """Show the progress of a step."""

    def detail(self, text: str) -> None:
        """Show a minor detail in one line."""

    def info(self, text: str) -> None:
        """Show a line that is not part of the answer."""

    def warning(self, text: str) -> None:
        """Show a warning."""

    def sources(self, sources: Sequence[Source]) -> None:
        """List the sources below the answer."""

    def report(self, text: str) -> None:
        """Show a sentence about the answer, below it."""
