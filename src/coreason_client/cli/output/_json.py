"""The output for programs: one JSON object per line on stdout."""

from ._base import Json, Output
from ._lines import print_json, print_stderr

__all__ = ["JsonOutput"]


class JsonOutput(Output):
    """Writes only the recorded objects; a report goes to stderr."""

    can_rewind = True  # the packet that makes others void is written like any other

    def record(self, json: Json) -> None:
        """Write the object."""
        print_json(json())

    def report(self, text: str) -> None:
        """Write to stderr, to keep stdout free of anything but JSON."""
        print_stderr(text)
