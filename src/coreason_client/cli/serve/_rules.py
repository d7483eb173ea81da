"""Options of `coreason serve` that do not fit together. Pure: options in, rules out.

A rule is whether it is broken, and the sentence for whoever breaks it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from ..exits import ExitCode, Failure

__all__ = ["Rules", "address_rules", "process_rules", "refuse", "tls_rules"]

Rules: TypeAlias = Iterable[tuple[bool, str]]


def refuse(*rules: tuple[bool, str]) -> None:
    """Raise a failure for the first rule that is broken.

    Raises:
        Failure: one is.
    """
    for broken, message in rules:
        if broken:
            raise Failure(message, ExitCode.USAGE)


def address_rules(
    *,
    host_given: bool,
    port_given: bool,
    uds: Path | None,
    uds_mode: int | None,
    grpc_port: int | None,
    open_page: bool,
) -> Rules:
    """Return the rules of where the server listens; gRPC always has a host and a port."""
    unix = uds is not None
    return (
        (unix and port_given, "--uds and --port cannot be used together: give one of them"),
        (
            unix and host_given and grpc_port is None,
            "--uds and --host cannot be used together: give one of them",
        ),
        (unix and open_page, "--open needs a port: a browser cannot open a Unix socket"),
        (not unix and uds_mode is not None, "--uds-mode needs --uds"),
    )


def process_rules(
    agent: str | None, *, workers: int, reload: bool, chaos: bool, grpc_port: int | None
) -> Rules:
    """Return the rules of the processes that serve."""
    return (
        (
            grpc_port == 0 and workers > 1,
            "--grpc-port 0 with --workers would give each process another port: choose one",
        ),
        (
            grpc_port == 0 and reload,
            "--grpc-port 0 with --reload would give each restart another port: choose one",
        ),
        (chaos and workers > 1, "--chaos cuts the connections of one process: leave out --workers"),
        (reload and workers > 1, "--reload restarts one process: leave out --workers"),
        (
            reload and agent is None,
            "--reload needs MODULE:AGENT: only code of your own can change",
        ),
    )


def tls_rules(
    certfile: Path | None, keyfile: Path | None, password_file: Path | None, grpc_port: int | None
) -> Rules:
    """Return the rules of TLS."""
    return (
        (certfile is None and keyfile is not None, "--ssl-keyfile needs --ssl-certfile"),
        (
            certfile is None and password_file is not None,
            "--ssl-keyfile-password-file needs --ssl-certfile",
        ),
        (
            certfile is not None and grpc_port is not None,
            "--ssl-certfile does not apply to --grpc-port: let a proxy add TLS to both",
        ),
    )
