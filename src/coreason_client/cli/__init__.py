"""The `coreason` command. Importing this is cheap; what the commands need is loaded when they run.

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
    """Run the command line; exits with one of the codes of `ExitCode`."""
    # Ctrl-C may come while the libraries are still being loaded, and that is no time for a
    # traceback either.
    try:
        from ._app import app

        app(prog_name="coreason")
    except KeyboardInterrupt:
        sys.exit(130)
