"""Options that do not fit together: each combination is one sentence."""

from pathlib import Path
from typing import Any

from coreason_client.cli.serve import broken_rule
from coreason_client.cli.serve._options import ServeOptions
from tests.each import each

SOCK, PEM = Path("a.sock"), Path("a.pem")


def check(options: dict[str, Any], says: str | None, *given: str) -> None:
    found = broken_rule(ServeOptions(**options), given)
    assert found is None if says is None else str(found).startswith(says)


@each(
    ("options", "given", "says"),
    [
        ({}, [], None),
        ({"open_page": True}, ["host", "port"], None),
        ({"uds": SOCK, "uds_mode": 0o600}, [], None),
        ({"uds": SOCK, "grpc_port": 1}, ["host"], None),
        ({"uds": SOCK}, ["port"], "--uds and --port cannot be used together"),
        ({"uds": SOCK}, ["host"], "--uds and --host cannot be used together"),
        ({"uds": SOCK, "open_page": True}, [], "--open needs a port"),
        ({"uds_mode": 0o600}, [], "--uds-mode needs --uds"),
    ],
)
def test_where_the_server_listens(
    options: dict[str, Any], given: list[str], says: str | None
) -> None:
    check(options, says, *given)


@each(
    ("agent", "options", "says"),
    [
        (None, {"workers": 3}, None),
        ("a:b", {"reload": True, "chaos": True, "grpc_port": 1}, None),
        ("a:b", {"workers": 2, "grpc_port": 1}, None),
        ("a:b", {"workers": 2, "grpc_port": 0}, "--grpc-port 0 with --workers"),
        ("a:b", {"reload": True, "grpc_port": 0}, "--grpc-port 0 with --reload"),
        ("a:b", {"workers": 2, "chaos": True}, "--chaos cuts the connections of one process"),
        ("a:b", {"workers": 2, "reload": True}, "--reload restarts one process"),
        (None, {"reload": True}, "--reload needs MODULE:AGENT"),
    ],
)
def test_the_processes(agent: str | None, options: dict[str, Any], says: str | None) -> None:
    check({"agents": agent and [agent], **options}, says)


@each(
    ("certfile", "keyfile", "password", "grpc_port", "says"),
    [
        (None, None, None, 1, None),
        (PEM, None, None, None, None),
        (PEM, PEM, PEM, None, None),
        (None, PEM, None, None, "--ssl-keyfile needs --ssl-certfile"),
        (None, None, PEM, None, "--ssl-keyfile-password-file needs --ssl-certfile"),
        (PEM, None, None, 1, "--ssl-certfile does not apply to --grpc-port"),
    ],
)
def test_tls(
    certfile: Path | None,
    keyfile: Path | None,
    password: Path | None,
    grpc_port: int | None,
    says: str | None,
) -> None:
    options = {
        "ssl_certfile": certfile,
        "ssl_keyfile": keyfile,
        "ssl_keyfile_password_file": password,
        "grpc_port": grpc_port,
    }
    check(options, says)


@each(
    ("options", "says"),
    [
        ({"max_restarts": 1, "durable": True}, None),
        ({"max_restarts": 1}, "--max-restarts needs --durable"),
        ({"grpc_url": "a.example", "grpc_port": 1}, None),
        ({"grpc_url": "a.example"}, "--grpc-url needs --grpc-port"),
        ({"open_page": True, "host": "0.0.0.0", "page": True}, None),
        ({"open_page": True, "host": "0.0.0.0"}, "--open needs --page"),
        ({"chaos": True, "page": False}, "--chaos needs --page"),
    ],
)
def test_options_that_need_another(options: dict[str, Any], says: str | None) -> None:
    check(options, says)


def test_the_first_broken_rule_is_named() -> None:
    check({"uds_mode": 0o600, "workers": 2, "chaos": True}, "--uds-mode needs --uds")
