"""The interface of all outputs."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

from coreason_manifest.definitions.presentation import ProgressUpdate

__all__ = ["Json", "Output", "Source"]

Json: TypeAlias = Callable[[], str]
"""Gives the JSON of an object, in one line."""


class Source(NamedTuple):
    """A source of an answer, with the number that it is shown under."""

    number: int
    title: str
    uri: str


class Output:
    """Shows one answer: a context manager around it. Each kind leaves out what it cannot show."""

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
        """Write a packet, an event or a response as it came, for programs."""

    def write(self, text: str) -> None:
        """Continue the text of the answer, which is Markdown."""

    def end_text(self) -> None:
        """End the text; what follows begins anew."""

    def block(self, text: str) -> None:
        """Show Markdown that does not continue the text."""

    def line(self, text: str) -> None:
        """Show a line that is not Markdown."""

    def lines(self, texts: Sequence[str]) -> None:
        """Show lines that are not Markdown, as a paragraph of their own."""

    def thought(self, text: str) -> None:
        """Show what an agent thinks before it answers."""

    def progress(self, update: ProgressUpdate) -> None:
        """Show how far a step is."""

    def detail(self, text: str) -> None:
        """Show something of little importance, in one line."""

    def aside(self, text: str) -> None:
        """Show a line that is no part of the answer."""

    def warning(self, text: str) -> None:
        """Show a warning."""

    def sources(self, sources: Sequence[Source]) -> None:
        """List the sources, after the answer."""

    def report(self, sentence: str) -> None:
        """Show a sentence about the answer, after it."""
