"""The newest release and this source work together, over the wire and on the same stores.

The release is the newest tag `v…` before this commit, as `git archive` has it. Without one, as in a
shallow clone, the last commit takes its place, so that what is here cannot rot.
"""

import io
import json
import os
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from coreason_client import CAPClient
from coreason_client.testing import ChaosProxy, ConnectionPlan
from tests.browser import tools
from tests.preloaded import run_preloaded
from tests.server.log import postgres_server, valkey_server
from tests.server.program import PATIENCE, Program

from .release_peer import HELD_AT, WORDS

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("release_peer.py").read_text()
COUNTED = "".join(f"{number} " for number in range(1, WORDS + 1))
JAVASCRIPT = """
const [module, url] = process.argv.slice(-2);
const { CAPClient } = await import(module);
for await (const text of new CAPClient(url, { getKey: () => "key" }).chat("chat")) {
  process.stdout.write(text);
}
"""
Version = Literal["release", "tree"]


def git(*arguments: str) -> bytes | None:
    """Return the output of a command of git, None if it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    return None if done.returncode else done.stdout


def newest_release() -> str:
    """Return the newest tag before this commit, or HEAD."""
    found = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
    return found.decode().strip() if found else "HEAD"


RELEASE = newest_release()
PAIRS = pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("release", "tree", id=f"{RELEASE}-tree"),
        pytest.param("tree", "release", id=f"tree-{RELEASE}"),
    ],
)
Source = Callable[[Version], Path]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Return the folder with the packages of a version."""
    archive = git("archive", "--format=tar", RELEASE, "src", "js")
    if archive is None:
        if (ROOT / ".git").exists():
            pytest.fail("git cannot read this checkout: does it belong to another user?")
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return lambda version: (folder if version == "release" else ROOT) / "src"


def serving(path: Path, *store: str, proxy: str = "") -> Program:
    """Start a server of the version at a path, on a store."""
    env = {"PYTHONPATH": str(path)}  # another version, so none may be imported beforehand
    return Program(PROGRAM, "serve", json.dumps(store), proxy, env=env, libraries=())


def url_of(server: Program, path: Path) -> str:
    """Return the URL of a server, which must be of the version at this path."""
    return server.expect(rf"serving (\S+) {path}/coreason_client/__init__\.py")[1]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (
            "cap",
            {
                "chat": f"chat {COUNTED}",
                "bookmark": f"bookmark {COUNTED}",
                "inbox": "ready hello stop ",
                "follow": f"second {COUNTED}",
            },
        ),
        ("a2a", {"stream": f"stream {COUNTED}", "send": f"send {COUNTED}"}),
    ],
)
@PAIRS
def test_a_client_reads_from_a_server_of_the_other_version(
    protocol: str,
    expected: dict[str, str],
    first: Version,
    second: Version,
    source: Source,
    tmp_path: Path,
) -> None:
    client, server = source(first), source(second)
    # The first connection of A2A has only the card.
    cuts = [ConnectionPlan("cut", 5000), ConnectionPlan("reset", 3000), ConnectionPlan("cut", 5000)]
    store = address("sqlite", tmp_path)
    with (
        ChaosProxy("http://127.0.0.1:1", plan=cuts) as proxy,
        serving(server, *store, proxy=proxy.url) as process,
    ):
        proxy.route_to(url_of(process, server))
        done = run_preloaded(
            ["-c", PROGRAM, protocol, proxy.url],
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": str(client)},
        )
        assert done.returncode == 0, done.stderr
        read = json.loads(done.stdout)
        assert proxy.faults >= 2
    assert Path(read.pop("from")).parents[1] == client
    assert read == expected


@PAIRS
def test_a_client_in_javascript_reads_from_a_server_of_the_other_version(
    first: Version, second: Version, source: Source, tmp_path: Path
) -> None:
    server = source(second)
    with (
        serving(server, *address("sqlite", tmp_path)) as process,
        ChaosProxy(url_of(process, server), plan=[ConnectionPlan("cut", 5000)]) as proxy,
    ):
        module = (source(first).parent / "js" / "coreason.js").as_uri()
        done = subprocess.run(
            [tools.node(), "--input-type=module", "--eval", JAVASCRIPT, module, proxy.url],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"chat {COUNTED}"), done.stderr
        assert proxy.faults == 1


def address(kind: str, folder: Path) -> tuple[str, str, str]:
    """Return a store that nobody has used."""
    if kind == "sqlite":
        return kind, str(folder / "log.db"), ""
    if kind == "valkey":
        return kind, valkey_server.shared_server().url, valkey_server.fresh_prefix()
    return kind, postgres_server.shared_server().url, postgres_server.fresh_schema()


def refused(process: Program, file: str) -> bool:
    """Return whether a server did not start, because its store has a newer format."""
    known = process.expect(r"serving |supports only versions up to (\d+)")[1]
    if known is None:
        return False
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] > int(known)
    return process.end() != 0


def make_newer(file: str) -> bytes:
    """Raise the format of a file of SQLite; return its content."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = DELETE")  # all of it is in one file
        [version] = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
    return Path(file).read_bytes()


@pytest.mark.parametrize("kind", ["sqlite", "valkey", "postgres"])
@PAIRS
def test_a_version_continues_what_the_other_one_has_stored(
    kind: str, first: Version, second: Version, source: Source, tmp_path: Path
) -> None:
    """It reads and resumes streams, and continues durable agents with the results of steps.

    A file of a newer format is refused and left as it is, as VERSIONING.md says.
    """
    before, after, store = source(first), source(second), address(kind, tmp_path)
    with serving(before, *store) as process:
        pid = process.pid
        with CAPClient(url_of(process, before), "key") as client:
            ended = client.chat("ended", "one")
            begun = [next(ended)]
            saved = ended.bookmark()
            assert "".join([*begun, *ended]) == f"ended {COUNTED}"
            held = client.chat("hold", "two")
            words = [next(held) for _ in range(HELD_AT + 1)]
            unfinished = held.bookmark()
            held.close()
    # It was killed in the middle of an answer.
    with serving(after, *store) as process:
        if refused(process, store[1]):
            return
        with CAPClient(url_of(process, after), "key") as client:
            assert "".join([*begun, *client.resume_chat(saved)]) == f"ended {COUNTED}"
            assert "".join([*words, *client.resume_chat(unfinished)]) == f"{pid} {COUNTED}"
            assert str(client.ask("new", "one")) == f"new {COUNTED}"
    if kind == "sqlite":
        written = make_newer(store[1])
        with serving(after, *store) as process:
            assert refused(process, store[1])
        assert Path(store[1]).read_bytes() == written
