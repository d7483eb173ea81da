"""The output for programs: an object per line. Everything else goes to stderr, or nowhere."""

from ._base import Json, Output
from ._lines import note, say_json

__all__ = ["JsonOutput"]


class JsonOutput(Output):
    """Writes what it is given to record; an answer is not shown in any other way."""

    def record(self, json: Json) -> None:
        """Write the object."""
        say_json(json())

    def report(self, sentence: str) -> None:
        """Write it to stderr, where it does not get between the objects."""
        note(sentence)
