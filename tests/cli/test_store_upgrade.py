"""`coreason store upgrade`, with a real Postgres."""

import json

import pytest

from tests.ports import free_port
from tests.server.log.postgres_server import fresh_schema, shared_server

from .command import coreason_here


def test_the_schema_is_created_once() -> None:
    server, schema = shared_server(), fresh_schema()
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = $1"
    assert server.execute(tables, schema) == [(0,)]
    done = coreason_here("store", "upgrade", server.tcp_url, "--schema", schema)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"The schema {schema} has version 1.\n"
    [(count,)] = server.execute(tables, schema)
    assert count > 10
    env = {"COREASON_STORE": server.url}
    done = coreason_here("store", "upgrade", "--schema", schema, "--json", env=env)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"schema": schema, "version": 1})
    assert server.execute(tables, schema) == [(count,)]


def test_a_schema_of_a_newer_release_is_refused() -> None:
    server, schema = shared_server(), fresh_schema()
    assert coreason_here("store", "upgrade", server.url, "--schema", schema).returncode == 0
    server.execute(f"UPDATE {schema}.schema_version SET version = 7, oldest = 7")
    done = coreason_here("store", "upgrade", server.url, "--schema", schema)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the schema {schema} of the database" in done.stderr
    assert "install the newer release" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["sqlite:streams.db"], 2, "URL must start with postgresql://"),
        (["postgresql://me:secret@host:port/db"], 2, "URL must be a URL with valid hosts and port"),
        (["postgresql://me:sec/secret@host/db"], 2, "URL must have %2F for /"),
        (["postgresql://host", "--schema", "A B"], 2, "--schema must have only a-z, 0-9 and _"),
        (
            [f"postgresql://me:secret@127.0.0.1:{free_port()}/db"],
            1,
            "/db cannot be reached: ",
        ),
    ],
)
def test_what_cannot_be_upgraded_is_refused_in_one_line(
    arguments: list[str], code: int, says: str
) -> None:
    done = coreason_here("store", "upgrade", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr
