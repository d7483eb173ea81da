"""`coreason store backup`, against a server in another process."""

import json
import re
import signal
import sqlite3
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest

from coreason_client import CAPClient

from .command import PATIENCE, Process, coreason, coreason_here

AGENT = textwrap.dedent(
    """
    async def agent(request, stream):
        for number in range(200):
            await stream.write(f"{number} ")
    """
)
TEXT = "".join(f"{number} " for number in range(200))


def serve(folder: Path, store: str) -> Process:
    return Process("serve", "agent:agent", "--port", "0", "--store", f"sqlite:{store}", cwd=folder)


def address(server: Process) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", server.expect("\n"))
    assert found is not None
    return found[0]


def backup(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = coreason("store", "backup", *arguments, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_an_answer_is_resumed_from_the_copy_of_a_running_server(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    with serve(tmp_path, "streams.db") as server:
        with CAPClient(address(server), "key") as client:
            stream = client.chat("Hello")
            text = next(stream)
            bookmark = stream.bookmark()
            assert text + "".join(stream) == TEXT
        code, stdout, stderr = backup(tmp_path, "copy.db", "--store", "sqlite:streams.db", "--json")
        assert (code, stderr) == (0, "")
        size = (tmp_path / "copy.db").stat().st_size
        assert json.loads(stdout) == {"store": "streams.db", "file": "copy.db", "bytes": size}
        code, _, stderr = backup(tmp_path, "copy.db", "--store", "sqlite:streams.db")
        assert (code, stderr) == (
            1,
            "error: copy.db exists and was not changed: give another name\n",
        )
    with serve(tmp_path, "copy.db") as server, CAPClient(address(server), "key") as client:
        assert text + "".join(client.resume_chat(bookmark)) == TEXT


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["copy.db"], 2, "--store sqlite:PATH or COREASON_STORE must name the store to copy"),
        (["copy.db", "--store", "valkey://secret@host"], 2, "--store must be sqlite:PATH, got 'v"),
        (["copy.db", "--store", "postgresql://me:secret@host/db"], 2, "use pg_dump for Postgres"),
        (["copy.db", "--store", "memory"], 2, "--store must be sqlite:PATH, got 'memory'"),
        (["copy.db", "--store", "sqlite:none.db"], 1, "none.db does not exist"),
        (["none/copy.db", "--store", "sqlite:text"], 1, "none/"),
        (["copy.db", "--store", "sqlite:text"], 1, "the log "),
    ],
)
def test_what_cannot_be_copied_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    (tmp_path / "text").write_text("not a database " * 100)
    done = coreason_here("store", "backup", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    store = tmp_path / "streams.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("CREATE TABLE t (x)")
        holder.execute("BEGIN EXCLUSIVE")
        with Process(
            "store", "backup", "copy.db", "--store", "sqlite:streams.db", cwd=tmp_path
        ) as process:
            deadline = time.monotonic() + PATIENCE
            while not (tmp_path / "streams.db-backup").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.signal(signal.SIGINT)
            assert process.end() == 130
            assert process.errors == ""
        holder.execute("ROLLBACK")
    assert [path.name for path in tmp_path.iterdir()] == ["streams.db"]
