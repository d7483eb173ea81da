"""Options of `coreason serve` that do not fit together. Pure."""

from collections.abc import Container

from ._options import ServeOptions

__all__ = ["broken_rule"]


def broken_rule(options: ServeOptions, given: Container[str]) -> str | None:
    """Return the sentence for the first rule that the options break, None if they break none.

    `given` has the names of the options that are on the command line.
    """
    rules = (*_address(options, given), *_processes(options), *_tls(options), *_others(options))
    if "store" in given and "log" in given:
        return "--log is the earlier name of --store: give one of them"
    return next((message for is_broken, message in rules if is_broken), None)


def _address(options: ServeOptions, given: Container[str]) -> tuple[tuple[bool, str], ...]:
    unix = options.uds is not None
    return (
        (unix and "port" in given, "--uds and --port cannot be used together: give one of them"),
        (
            # gRPC always has a host and a port.
            unix and "host" in given and options.grpc_port is None,
            "--uds and --host cannot be used together: give one of them",
        ),
        (unix and options.open_page, "--open needs a port: a browser cannot open a Unix socket"),
        (not unix and options.uds_mode is not None, "--uds-mode needs --uds"),
    )


def _processes(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    workers, reload = options.workers, options.reload
    return (
        (
            options.grpc_port == 0 and workers > 1,
            "--grpc-port 0 with --workers would give each process another port: choose one",
        ),
        (
            options.grpc_port == 0 and reload,
            "--grpc-port 0 with --reload would give each restart another port: choose one",
        ),
        (
            options.chaos and workers > 1,
            "--chaos cuts the connections of one process: leave out --workers",
        ),
        (reload and workers > 1, "--reload restarts one process: leave out --workers"),
        (
            reload and options.agent is None,
            "--reload needs MODULE:AGENT: only your own code can change",
        ),
    )


def _tls(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    has_tls = options.ssl_certfile is not None
    return (
        (
            not has_tls and options.ssl_keyfile is not None,
            "--ssl-keyfile needs --ssl-certfile",
        ),
        (
            not has_tls and options.ssl_keyfile_password_file is not None,
            "--ssl-keyfile-password-file needs --ssl-certfile",
        ),
        (
            has_tls and options.grpc_port is not None,
            "--ssl-certfile does not apply to --grpc-port: let a proxy add TLS to both",
        ),
    )


def _others(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    return (
        (
            options.max_restarts is not None and not options.durable,
            "--max-restarts needs --durable",
        ),
        (
            options.grpc_url is not None and options.grpc_port is None,
            "--grpc-url needs --grpc-port",
        ),
        (options.open_page and not options.has_page, "--open needs --page"),
        (options.chaos and not options.has_page, "--chaos needs --page"),
    )
