"""Restarts when a Python file changes: which files count, and a real server with its answers."""

import os
import re
import signal
from pathlib import Path

from coreason_client import CAPClient
from coreason_client.server.process._reload import changed, scan
from tests.cli.command import Process
from tests.each import each


def touch(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_python_files_count_and_those_of_others_do_not(tmp_path: Path) -> None:
    ours = {str(touch(tmp_path / name)) for name in ("a.py", "package/b.py", "package/c/d.py")}
    for name in ("a.txt", ".git/x.py", "__pycache__/x.py", "node_modules/x.py", "a.pyc"):
        touch(tmp_path / name)
    touch(tmp_path / "environment/pyvenv.cfg")
    touch(tmp_path / "environment/lib/x.py")
    (tmp_path / "dangling.py").symlink_to("nowhere")
    assert scan([tmp_path]).keys() == ours
    assert scan([tmp_path / "package", tmp_path / "no such folder"]).keys() == {
        path for path in ours if "package" in path
    }


@each(
    ("before", "now", "paths"),
    [
        ({}, {}, []),
        ({"a": (1, 1)}, {"a": (1, 1)}, []),
        ({"a": (1, 1)}, {"a": (2, 1)}, ["a"]),
        ({"a": (1, 1)}, {"a": (1, 2)}, ["a"]),
        ({"b": (1, 1), "a": (1, 1)}, {}, ["a", "b"]),
        ({}, {"a": (1, 1)}, ["a"]),
    ],
)
def test_new_different_and_removed_files_are_changes(
    before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]], paths: list[str]
) -> None:
    assert changed(before, now) == paths


AGENT = """
import asyncio
from pathlib import Path

async def agent(request, stream):
    await stream.write("begin ")
    await stream.step("wait", wait)
    await stream.write("{end}")

async def wait():
    while not Path("go").exists():
        await asyncio.sleep(0.01)
"""


def test_an_answer_goes_on_in_the_restarted_server(tmp_path: Path) -> None:
    """The code changes in the middle of a step; a file with an error does not end the command."""
    module = touch(tmp_path / "changing.py", AGENT.format(end="old end"))
    arguments = ["serve", "changing:agent", "--port", "0", "--durable", "--store", "sqlite:s.db"]
    options = ["--reload", "--drain-timeout", "0"]
    with Process(*arguments, *options, cwd=tmp_path) as process:
        printed = process.expect("}'\n")
        assert "It restarts when a Python file changes." in printed
        [url] = re.findall(r"at (http://\S+),", printed)
        with CAPClient(url, "any") as client, client.chat("hi") as answer:
            assert next(answer) == "begin "
            replace(module, "def agent(")
            process.expect_error("changing.py changed: restarting")
            process.expect_error("module changing cannot be imported: SyntaxError")
            process.expect_error("starts again when a Python file changes")
            (tmp_path / "go").touch()
            replace(module, AGENT.format(end="new end"))
            assert "".join(answer) == "new end"
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert "Traceback" not in process.errors


def replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.utime(new, ns=(0, path.stat().st_mtime_ns + 1_000_000_000))
    new.replace(path)
