"""The lines that `coreason serve` prints when it accepts requests."""

from pathlib import Path
from typing import Any

import pytest

from coreason_client.cli.serve._options import ServeOptions
from coreason_client.cli.serve._serving import banner

URL = "https://127.0.0.1:8443/agent"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, f"Serving the built-in guide at {URL}, streams are stored in memory. Press Ctrl-C"),
        (
            {"agents": ["m:a"], "store": "valkey://:p@h"},
            "Serving m:a at .* stored in valkey://h. Press",
        ),
        ({"page": True}, f"in memory. Open {URL}/ in a browser. Press"),
        ({"a2a": True}, f"Its A2A card is {URL}/.well-known/agent-card.json. Press"),
        ({"a2a": True, "public_url": "https://a.example/"}, "https://a.example/.well-known/"),
        ({"durable": True}, "in memory and continue after a restart. Press"),
        ({"reload": True}, "in memory. It restarts when a Python file changes. Press Ctrl-C"),
    ],
)
def test_the_sentence(options: dict[str, Any], says: str) -> None:
    text = banner(ServeOptions(**{"page": False, **options}), URL, None, ["guide"])
    first, command = text.split("Try:\n\n")
    before, _, after = says.partition(" .* ")
    assert before in first
    assert after in first
    assert command.startswith(f"curl -N {URL}/assist ")


def test_a_unix_socket_has_a_path_and_no_page() -> None:
    options = ServeOptions(page=True, uds=Path("/run/a b.sock"))
    text = banner(options, "http://localhost", None, ["guide"], grpc_port=5)
    assert "Serving the built-in guide at the Unix socket /run/a b.sock, streams" in text
    assert "Open" not in text
    assert "gRPC uses port 5. " in text
    assert "\ncurl -N --unix-socket '/run/a b.sock' http://localhost/assist " in text
