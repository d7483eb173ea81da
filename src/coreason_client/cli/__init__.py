"""The `coreason` command. Importing it is cheap: each command loads what it needs when it runs.

Raises, when it is imported:
    MissingExtraError: typer or rich is not installed.
"""

import sys
from importlib.util import find_spec

from ..errors import MissingExtraError

if find_spec("typer") is None or find_spec("rich") is None:
    raise MissingExtraError("the coreason command", "cli")

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with one of the codes in `ExitCode`."""
    # Ctrl-C while the libraries are still being loaded must not print a traceback either.
    try:
        from ._app import app

        app(prog_name="coreason")
    except KeyboardInterrupt:
        sys.exit(130)
