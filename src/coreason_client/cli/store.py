"""`coreason store`: a copy of the SQLite store of a server, and the schema of one in Postgres."""

import json
from pathlib import Path
from typing import Annotated

import typer

from coreason_client import ArgumentError

from ._options import parse_duration, usage_error
from .exits import EXIT_CODES_HINT, ExitCode, Failure, epilog, exit_codes
from .output import print_json, print_stdout
from .serve._options import STORE_VARIABLE

__all__ = ["BACKUP_EPILOG", "UPGRADE_EPILOG", "app"]

BACKUP_EPILOG = epilog(
    "coreason store backup streams-monday.db --store sqlite:streams.db",
    "COREASON_STORE=sqlite:/data/streams.db coreason store backup /backup/streams.db",
    about="To restore it: stop the server, move the store and its -wal file away, copy the backup "
    "to the place of the store, and start the server.",
)

UPGRADE_EPILOG = epilog(
    "coreason store upgrade postgresql://coreason_owner@db.example/agents",
    "coreason store upgrade postgresql://coreason_owner@db.example/agents --schema trips",
    about="Other users of this machine can see a password in the process list: put the URL into "
    "COREASON_STORE, or the password into PGPASSWORD or ~/.pgpass.",
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXIT_CODES_HINT,
    help="Back up or upgrade the store of a server.",
)


@app.command(epilog=BACKUP_EPILOG)
def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to create; it must not exist.")
    ],
    store: Annotated[
        str | None,
        typer.Option(
            envvar=STORE_VARIABLE,
            metavar="sqlite:PATH",
            help="The store, as it is given to coreason serve.",
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
            print_json(json.dumps({"store": str(source), "file": str(file), "bytes": size}))
        else:
            print_stdout(f"Copied {source} to {file}, {size:,} bytes.")


@app.command(epilog=UPGRADE_EPILOG)
def upgrade(
    url: Annotated[
        str,
        typer.Argument(
            envvar=STORE_VARIABLE,
            metavar="URL",
            help="The database, such as postgresql://USER@HOST/DATABASE.",
        ),
    ],
    schema: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the schema in the database.")
    ] = "coreason",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Create or upgrade the tables of a Postgres store.

    A server does so itself if its role may create schemas. Use this command with a role that may,
    so that the role of the server needs no such right. Servers may run meanwhile.
    """
    with exit_codes():
        version = _upgraded_version(url, schema)
        if as_json:
            print_json(json.dumps({"schema": schema, "version": version}))
        else:
            print_stdout(f"The schema {schema} has version {version}.")


def _upgraded_version(url: str, schema: str) -> int:
    """Upgrade a schema, and return its version."""
    import asyncio  # only here, so that `coreason --help` is quick

    from ..server.log import upgrade_schema

    try:
        return asyncio.run(upgrade_schema(url, schema=schema))
    except ArgumentError as error:
        raise usage_error(error, {"url": "URL", "schema": "--schema"}) from None


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
        f"--store must be sqlite:PATH, got {kind!r}: use pg_dump for Postgres and the backups of "
        "Valkey for Valkey; the memory store has nothing to keep",
        ExitCode.USAGE,
    )
