"""Options that do not fit together: each combination is one sentence."""

from pathlib import Path
from typing import Any

import pytest

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.serve._rules import Rules, address_rules, process_rules, refuse, tls_rules
from tests.each import each

SOCK, PEM = Path("a.sock"), Path("a.pem")
ADDRESS: dict[str, Any] = {
    "host_given": False,
    "port_given": False,
    "uds": None,
    "uds_mode": None,
    "grpc_port": None,
    "open_page": False,
}
PROCESS: dict[str, Any] = {"workers": 1, "reload": False, "chaos": False, "grpc_port": None}


def broken(rules: Rules) -> str | None:
    return next((message for is_broken, message in rules if is_broken), None)


@each(
    ("options", "says"),
    [
        ({}, None),
        ({"host_given": True, "port_given": True, "open_page": True}, None),
        ({"uds": SOCK, "uds_mode": 0o600}, None),
        ({"uds": SOCK, "host_given": True, "grpc_port": 1}, None),
        ({"uds": SOCK, "port_given": True}, "--uds and --port cannot be used together"),
        ({"uds": SOCK, "host_given": True}, "--uds and --host cannot be used together"),
        ({"uds": SOCK, "open_page": True}, "--open needs a port"),
        ({"uds_mode": 0o600}, "--uds-mode needs --uds"),
    ],
)
def test_where_the_server_listens(options: dict[str, Any], says: str | None) -> None:
    found = broken(address_rules(**ADDRESS | options))
    assert found is None if says is None else str(found).startswith(says)


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
    found = broken(process_rules(agent, **PROCESS | options))
    assert found is None if says is None else str(found).startswith(says)


@each(
    ("arguments", "says"),
    [
        ((None, None, None, 1), None),
        ((PEM, None, None, None), None),
        ((PEM, PEM, PEM, None), None),
        ((None, PEM, None, None), "--ssl-keyfile needs --ssl-certfile"),
        ((None, None, PEM, None), "--ssl-keyfile-password-file needs --ssl-certfile"),
        ((PEM, None, None, 1), "--ssl-certfile does not apply to --grpc-port"),
    ],
)
def test_tls(arguments: tuple[Any, Any, Any, Any], says: str | None) -> None:
    found = broken(tls_rules(*arguments))
    assert found is None if says is None else str(found).startswith(says)


def test_the_first_broken_rule_is_named() -> None:
    with pytest.raises(Failure, match="second") as caught:
        refuse((False, "first"), (True, "second"), (True, "third"))
    assert caught.value.code is ExitCode.USAGE
