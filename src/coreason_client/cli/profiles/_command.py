"""`coreason profiles`: the profiles and the file that they are in."""

from typing import Annotated

import typer

from ..exits import EXIT_CODES_HINT, exit_codes
from ..output import print_stderr, print_stdout, show_rows
from ._profile_file import load_profiles

__all__ = ["PROFILES_EPILOG", "profiles"]

PROFILES_EPILOG = f"""\
\b
Examples:
  coreason profiles
  coreason profiles --path

{EXIT_CODES_HINT}
"""


def profiles(
    path: Annotated[
        bool, typer.Option("--path", help="Print the path of the file instead.")
    ] = False,
) -> None:
    """List the profiles, which are names for agents and models.

    coreason chat NAME talks to one of them. They are tables [profiles.NAME] in the file config.toml
    of your config directory, or in the file that COREASON_CONFIG names. Keys are not shown.
    """
    with exit_codes():
        found = load_profiles()
        if path:
            print_stdout(str(found.path))
        elif found.tables:
            show_rows((name, found.get(name).target) for name in sorted(found.tables))
        else:
            where = "has none" if found.exists else "does not exist"
            print_stderr(f"There are no profiles: {found.path} {where}.")
