"""Mutants of the testing kit."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_TESTING = "coreason_client/testing"
_T = "tests/testing"


def _kit(name: str, old: str, new: str, test: str) -> Mutant:
    """Return a mutant of any file of the kit."""
    return Mutant(name, _TESTING, old, new, (f"{_T}/{test}",))


MUTANTS = (
    _kit(
        "a recording keeps secrets that are written in hexadecimal",
        "    yield data.hex()\n",
        "",
        "test_recording_secrets.py",
    ),
)
