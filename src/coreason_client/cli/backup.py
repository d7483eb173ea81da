"""`coreason store backup`: a copy of the store of a server."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ._options import parse_duration
from .exits import EXIT_CODES_HINT, ExitCode, Failure, exit_codes
from .output import open_output, print_stdout
from .serve._options import STORE_VARIABLES

__all__ = ["BACKUP_EPILOG", "app"]

BACKUP_EPILOG = f"""\
\b
Examples:
  coreason store backup streams-monday.db --store sqlite:streams.db
  COREASON_STORE=sqlite:/data/streams.db coreason store backup /backup/streams.db

To restore it: stop the server, move the store and its -wal file away, copy the backup to the place
of the store, and start the server.

{EXIT_CODES_HINT}
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=BACKUP_EPILOG,
    help="Back up the store of a server.",
)


@app.callback()
def _store() -> None:
    """Back up the store of a server."""


@app.command(epilog=BACKUP_EPILOG)
def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to create; it must not exist.")
    ],
    store: Annotated[
        str | None,
        typer.Option(
            envvar=STORE_VARIABLES,
            metavar="sqlite:PATH",
            help="The store, as it is given to coreason serve.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=parse_duration,
            metavar="SECONDS",
            help="Limit for the whole backup, such as 15m.",
        ),
    ] = 600,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Copy a SQLite store to a file, also while a server uses it.

    The server goes on: it makes the copy itself, in small steps between its commits, and the copy
    has everything that was stored when it was completed. The file appears when it is complete and
    checked. Run the command on the machine of the server, as the same user.
    """
    with exit_codes():
        source = _sqlite_path(store)
        size = _copied_bytes(source, file, timeout)
        if as_json:
            result = {"store": str(source), "file": str(file), "bytes": size}
            open_output(as_json=True).record(lambda: json.dumps(result))
        else:
            print_stdout(f"Copied {source} to {file}, {size:,} bytes.")


def _copied_bytes(source: Path, file: Path, timeout: float) -> int:
    """Copy a store, and return the size of the copy."""
    from ..server.log._backup import back_up

    try:
        return back_up(source, file, timeout)
    except FileExistsError:
        raise Failure(f"{file} exists and was not changed: give another name") from None
    except FileNotFoundError as error:
        raise Failure(f"{error.filename} does not exist") from None
    except OSError as error:
        raise Failure(f"the backup failed: {error}") from None


def _sqlite_path(store: str | None) -> Path:
    if store is None:
        raise Failure(
            "--store sqlite:PATH or COREASON_STORE must name the store to copy", ExitCode.USAGE
        )
    kind, _, path = store.partition(":")
    if kind == "sqlite" and path:
        return Path(path)
    raise Failure(
        # Only the scheme is shown, because the rest may contain a password.
        f"--store must be sqlite:PATH, got {kind!r}: Valkey has its own backups, and the memory "
        "store has nothing to keep",
        ExitCode.USAGE,
    )
