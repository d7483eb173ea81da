"""A real Postgres on loopback, for as long as a test run or a single test needs one.

The processes of a server are found in /proc, so killing and pausing one needs Linux.
"""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.ports import free_port

from .postgres_tools import give_away, pgbouncer, postgres, unprivileged

_LIMIT = 30.0
_TEMPLATES = Path(__file__).parents[3] / ".cache" / "postgres"
_NO_ANSWER = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class _EndedAtOnceError(Exception):
    """The process did not live long enough to answer."""


class _Server:
    """A process with its own folder; it listens at a unix socket there and at a port of loopback.

    `url` and `tcp_url` are its addresses. It runs as an unprivileged user if this process is root.
    """

    password: str | None = None

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        try:
            self._prepare()
            give_away(self.folder)
            self._start_at_a_free_port()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://{self._user}@/postgres?host={self.folder}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        """What the process has written to its own log."""
        return Path(self.folder, "log").read_text(errors="replace")

    @property
    def exited(self) -> bool:
        """True if the process has exited by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._configure()
        with Path(self.folder, "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C ends the tests, and they end the server
                **_surroundings(self.folder),
            )
        deadline = time.monotonic() + _LIMIT
        while not self._answers():
            if self._process.poll() is not None:
                raise _EndedAtOnceError(self.log[-2000:])
            assert time.monotonic() < deadline, f"the server did not start: {self.log[-2000:]}"
            time.sleep(0.01)

    def kill(self) -> None:
        """End all its processes without a chance to tidy up, as a crash does."""
        if self._process is not None:
            self._hold_first()
            _kill_all(self._others)
            self._process.kill()
            self._process.wait(_LIMIT)
            self._process = None
        _kill_all(self._others)

    def pause(self) -> None:
        """Let all its processes hold still: connections stay open and nobody answers."""
        self._hold_first()
        for pid in self._others():
            _signal(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        for pid in self._others():
            _signal(pid, signal.SIGCONT)
        self._process.send_signal(signal.SIGCONT)

    def execute(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a statement past the log, and return its rows.

        An async test may call this, too: the connection is used in a thread.
        """
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, _fetch(self.url, sql, args)).result(2 * _LIMIT)

    def close(self) -> None:
        atexit.unregister(self.close)
        self.kill()
        self._clean_up()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self) -> None:
        """Put files into the folder, once."""

    def _configure(self) -> None:
        """Write the settings, before each start."""

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _others(self) -> list[int]:
        """Return the processes beside the first one."""
        return []

    def _clean_up(self) -> None:
        """Remove what is not in the folder."""

    @property
    def _user(self) -> str:
        return "postgres" if self.password is None else f"postgres:{quote(self.password, safe='')}"

    def _start_at_a_free_port(self) -> None:
        for attempt in range(3):  # somebody else may take the port between the look and the start
            self.port = free_port()
            try:
                self.start()
            except _EndedAtOnceError:
                if attempt == 2:
                    raise
            else:
                break

    def _answers(self) -> bool:
        try:
            return self.execute("SELECT 1") == [(1,)]
        except _NO_ANSWER:
            return False

    def _hold_first(self) -> None:
        """Stop the first process, so that it starts no other."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        if self._process.returncode is None:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class PostgresServer(_Server):
    """One server; options are settings of `postgresql.conf`.

    With `size_limit` its data are on a file system of that many bytes, at least 100,000,000; the
    test is skipped where none can be mounted. With `password` it asks for it, by SCRAM.
    """

    def __init__(
        self, *, password: str | None = None, size_limit: int | None = None, **settings: Any
    ) -> None:
        self._programs = postgres()
        self._settings = settings
        self._size_limit = size_limit
        self._standbys: list[PostgresStandby] = []
        self._asks_for_password = False
        super().__init__()
        if password is not None:
            try:
                self._require(password)
            except BaseException:
                self.close()
                raise

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def stop(self) -> None:
        """End it in an orderly manner; open connections are closed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_LIMIT)
        finally:
            self.kill()

    def restart(self) -> None:
        """Start it again, after a shutdown if it is running."""
        if self._process is not None:
            self.stop()
        self.start()

    def add_standby(self, name: str, *, synchronous: bool = True) -> "PostgresStandby":
        """Start a streaming replica and wait until it has joined; it is closed with this server."""
        standby = PostgresStandby(self, name, synchronous=synchronous, **self._settings)
        self._standbys.append(standby)
        if synchronous:
            names = ", ".join(f'"{each.name}"' for each in self._standbys if each.synchronous)
            self.set("synchronous_standby_names", f"FIRST 1 ({names})")
        wanted = {"sync", "potential"} if synchronous else {"async"}
        question = "SELECT sync_state FROM pg_stat_replication WHERE application_name = $1"
        _wait("the standby did not join", lambda: self._first(question, name) in wanted)
        # Commits wait for a standby only after the checkpointer has read the setting.
        self.execute("CHECKPOINT")
        return standby

    def set(self, setting: str, value: str) -> None:
        """Change a setting of the running server."""
        escaped = value.replace("'", "''")
        read_at = "SELECT pg_conf_load_time()"
        before = self._first(read_at)
        self.execute(f"ALTER SYSTEM SET {setting} = '{escaped}'")
        self.execute("SELECT pg_reload_conf()")
        _wait("the server did not read its settings", lambda: self._first(read_at) != before)

    def fill_disk(self) -> None:
        """Use all that is left of `size_limit`."""
        assert self._size_limit is not None
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free_disk(self) -> None:
        """Free what `fill_disk` has used."""
        self._ballast.unlink()

    def close(self) -> None:
        for standby in self._standbys:
            standby.close()
        super().close()

    @property
    def _ballast(self) -> Path:
        return self.data / "ballast"

    def _first(self, sql: str, *args: Any) -> Any:
        """Return the first value of the first row."""
        rows = self.execute(sql, *args)
        return rows[0][0] if rows else None

    def _prepare(self) -> None:
        self.data.mkdir(0o700)
        if self._size_limit is not None:
            _mount(self.data, self._size_limit)
        shutil.copytree(_template(self._programs), self.data, dirs_exist_ok=True)

    def _configure(self) -> None:
        settings: dict[str, object] = {
            "autovacuum_naptime": "1s",
            "cluster_name": self.folder.name,  # the titles of its processes have it
            "dynamic_shared_memory_type": "mmap",  # in its folder
            "fsync": "on",
            "listen_addresses": "127.0.0.1",
            "max_connections": 200,
            "max_wal_size": "1GB" if self._size_limit is None else "32MB",
            "port": self.port,
            "shared_buffers": "16MB",
            "unix_socket_directories": self.folder,
            "wal_keep_size": "256MB" if self._size_limit is None else 0,  # for a late standby
            "wal_retrieve_retry_interval": "100ms",
            **self._settings,
        }
        _write(self.data / "postgresql.conf", _lines(settings))
        self._write_access()

    def _write_access(self) -> None:
        method = "scram-sha-256" if self._asks_for_password else "trust"
        ways = ("local {} all", "host {} all 127.0.0.1/32")
        lines = [f"{way.format(what)} {method}" for way in ways for what in ("all", "replication")]
        _write(self.data / "pg_hba.conf", lines)

    def _require(self, password: str) -> None:
        escaped = password.replace("'", "''")
        self.execute(f"ALTER ROLE postgres PASSWORD '{escaped}'")
        self._asks_for_password = True
        self._write_access()
        self.execute("SELECT pg_reload_conf()")
        _wait("the server did not read its settings", lambda: not self._answers())
        self.password = password

    def _command(self) -> list[str]:
        return [str(self._programs / "postgres"), "-D", str(self.data)]

    def _others(self) -> list[int]:
        titles = (f"postgres: {self.folder.name}: ", "\0".join(self._command()))
        mine = {None if self._process is None else self._process.pid}
        return [pid for pid in _pids() if pid not in mine and _title(pid).startswith(titles)]

    def _clean_up(self) -> None:
        _remove_shared_memory(self.data / "postmaster.pid")
        if self._size_limit is not None:
            _run_quietly("umount", "-l", str(self.data))


class PostgresStandby(PostgresServer):
    """A streaming replica; `PostgresServer.add_standby` starts it."""

    def __init__(
        self, primary: PostgresServer, name: str, *, synchronous: bool, **settings: Any
    ) -> None:
        self._primary = primary
        self.name = name
        self.synchronous = synchronous
        self.password = primary.password
        super().__init__(**settings)

    def catch_up(self) -> None:
        """Wait until it shows what was committed: a commit waits only until it has received it."""
        written = self._primary._first("SELECT pg_current_wal_lsn()::text")
        shown = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
        _wait("the standby did not catch up", lambda: self._first(shown, written))

    def promote(self) -> None:
        """Make it a primary, and wait until it takes writes."""
        self.execute("SELECT pg_promote(true, $1)", int(_LIMIT))
        _wait("it was not promoted", lambda: self._first("SELECT pg_is_in_recovery()") is False)

    def _prepare(self) -> None:
        give_away(self.folder)
        source = f"{self._primary.url}&application_name={self.name}"
        options = ("-X", "stream", "-c", "fast", "-R", "-N")
        program = self._programs / "pg_basebackup"
        _run(program, "-D", str(self.data), *options, "-d", source, folder=self.folder)
        self._asks_for_password = self.password is not None
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")  # after a promotion it is alone


class PgBouncer(_Server):
    """A connection pooler in front of a server."""

    def __init__(
        self,
        server: PostgresServer,
        pool_mode: Literal["session", "transaction", "statement"],
        *,
        pool_size: int = 20,
        **settings: Any,
    ) -> None:
        self._program = pgbouncer()
        self._server = server
        self._settings = {"pool_mode": pool_mode, "default_pool_size": pool_size, **settings}
        super().__init__()

    def _configure(self) -> None:
        target = f"host={self._server.folder} port={self._server.port}"
        settings: dict[str, object] = {
            "admin_users": "postgres",
            "auth_file": self.folder / "users",
            "auth_type": "trust",
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "max_client_conn": 200,
            "server_login_retry": 1,
            "unix_socket_dir": self.folder,
            **self._settings,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        _write(self.folder / "ini", ["[databases]", f"* = {target}", "[pgbouncer]", *lines])
        password = (self._server.password or "").replace('"', '""')
        _write(self.folder / "users", [f'"postgres" "{password}"'])

    def _command(self) -> list[str]:
        return [str(self._program), str(self.folder / "ini")]


async def _fetch(url: str, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    async with asyncio.timeout(_LIMIT):
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            rows = await connection.fetch(sql, *args)
            await connection.close()
        finally:
            connection.terminate()
    return [tuple(row) for row in rows]


def _wait(otherwise: str, is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not is_done():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


def _surroundings(folder: Path) -> dict[str, Any]:
    """Return the options of `subprocess` for a program that must not run as root."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C"}
    owner = unprivileged()
    user = {} if owner is None else {"user": owner[0], "group": owner[1], "extra_groups": []}
    return {"cwd": folder, "env": environment, **user}


def _run(program: Path, *args: str, folder: Path) -> None:
    done = subprocess.run(
        [str(program), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
        **_surroundings(folder),
    )
    assert done.returncode == 0, f"{program.name} failed: {done.stderr[-2000:]}"


def _run_quietly(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_LIMIT)
    except OSError:  # there is no such program
        return False
    return done.returncode == 0


def _template(programs: Path) -> Path:
    """Return the data of an empty server of this version; they are created once for all runs."""
    version = subprocess.run(
        [programs / "postgres", "--version"], capture_output=True, check=True, timeout=_LIMIT
    )
    name = "".join(char if char.isalnum() else "-" for char in version.stdout.decode().strip())
    template = _TEMPLATES / name
    if not template.exists():
        _create_template(programs, template)
    return template


def _create_template(programs: Path, template: Path) -> None:
    """Create it under another name first: several processes may do so at the same time."""
    template.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="pg-") as name,
        tempfile.TemporaryDirectory(dir=template.parent) as beside,
    ):
        folder, data, copied = Path(name), Path(name, "data"), Path(beside, "data")
        give_away(folder)
        options = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N")
        _run(programs / "initdb", "-D", str(data), *options, folder=folder)
        shutil.copytree(data, copied)
        with suppress(OSError):  # another process has been faster
            copied.rename(template)


def _mount(folder: Path, size: int) -> None:
    """Mount a small file system, or skip the test."""
    options = f"size={size},mode=0700"
    if not _run_quietly("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)):
        pytest.skip("a small file system cannot be mounted here: that needs root, and the right to")


def _lines(settings: Mapping[str, object]) -> list[str]:
    return [
        "{} = '{}'".format(name, str(value).replace("'", "''")) for name, value in settings.items()
    ]


def _write(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join(lines) + "\n")
    if (owner := unprivileged()) is not None:
        os.chown(file, *owner)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _title(pid: int) -> str:
    """Return the command line of a process; it is empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill_all(find: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + _LIMIT
    while pids := find():
        assert time.monotonic() < deadline, "a process did not end"
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.001)


def _remove_shared_memory(pid_file: Path) -> None:
    """Remove the segment of a server that was killed: the number is in the 7th line of its file."""
    if pid_file.exists():
        numbers = [line.split() for line in pid_file.read_text().splitlines()][6:7]
        for segment in [parts[1] for parts in numbers if len(parts) == 2]:
            _run_quietly("ipcrm", "-m", segment)


@cache
def shared_server() -> PostgresServer:
    """The server that all tests of this process share; each has its own schema."""
    return PostgresServer()


@cache
def shared_pooler() -> PgBouncer:
    """A pooler in front of the shared server, with fewer connections than its clients have."""
    pooler = PgBouncer(shared_server(), "transaction", pool_size=3)
    atexit.register(pooler.close)
    return pooler


def fresh_schema() -> str:
    return f"t{uuid4().hex[:12]}"
