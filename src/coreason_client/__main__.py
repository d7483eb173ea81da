"""The `coreason` command; it says so in one sentence when its extra is not installed."""

import sys

from .errors import MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run the command line; exits with its code."""
    try:
        from .cli import main as run
    except MissingExtraError as error:
        sys.exit(str(error))
    run()


if __name__ == "__main__":
    main()
