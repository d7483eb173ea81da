"""The addresses and the errors of a database."""

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.errors import ArgumentError
from coreason_client.server.log.postgres._errors import is_transient, parse_address, rejected


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


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://one/db", ()),
        ("postgresql://ann:secret@one:1,two/db", (("one", 1), ("two", None))),
        ("postgresql://[::1]:1,[::2]/db", (("::1", 1), ("::2", None))),
        ("postgresql:///db?host=/run/a,/run/b&port=5", (("/run/a", 5), ("/run/b", 5))),
        ("postgresql:///db?host=one,two&port=1,2", (("one", 1), ("two", 2))),
    ],
)
def test_the_hosts_of_an_address(url: str, hosts: object) -> None:
    assert parse_address(url).hosts == hosts


@pytest.mark.parametrize("url", ["postgresql:///db?host=::1", "postgresql://one,two:x/db"])
def test_hosts_that_are_not_valid(url: str) -> None:
    with pytest.raises(ArgumentError, match="must be a URL with valid hosts and ports"):
        parse_address(url)


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        ("08006", True),  # the connection failed
        ("25006", True),  # a standby
        ("40001", True),  # serialization
        ("40P01", True),  # deadlock
        ("53300", True),  # too many connections
        ("55P03", True),  # a lock was not available in time
        ("57014", True),  # cancelled, by whomever: it may have been carried out
        ("57P01", True),  # shutdown
        ("57P02", True),  # crash
        ("57P03", True),  # starting up
        ("57P05", True),  # idle for too long
        ("28P01", False),  # wrong password
        ("42501", False),  # no privilege
        ("42P01", False),  # no such table
        ("53100", False),  # disk full: new streams are refused at once
    ],
)
def test_which_errors_are_worth_another_attempt(code: str, transient: bool) -> None:
    error = asyncpg.PostgresError.new({"C": code, "M": "…"})
    assert error.sqlstate == code
    assert is_transient(error) == transient
