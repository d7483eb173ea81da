"""The messages about errors of the database."""

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.server.log.postgres._errors import parse_address, rejected


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            asyncpg.DiskFullError("could not extend file\nHINT:  Check free disk space."),
            "could not extend file",
        ),
        (asyncpg.DiskFullError(""), "DiskFullError"),
    ],
)
def test_a_message_is_one_line(error: Exception, reason: str) -> None:
    address = parse_address("postgresql://host/db")
    message = f"the database postgresql://host/db refuses a call: {reason}"
    assert str(rejected(address, "s", error)) == message
