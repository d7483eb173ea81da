"""Entry point of the `coreason` command; if its extra is not installed, it prints how to get it."""

import sys

from .errors import MissingExtraError


def main() -> None:
    """Run the command and exit with its exit code."""
    try:
        from .cli import main as run
    except MissingExtraError as error:
        sys.exit(str(error))
    run()


if __name__ == "__main__":
    main()
