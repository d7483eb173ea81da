"""Two builds of the same commit are equal, byte for byte, whoever builds where and when."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from scripts import check_release

ROOT = Path(__file__).parents[2]


def build(root: Path, into: Path) -> dict[str, str]:
    """Return the hash of each file, built as `make build` does."""
    subprocess.run(
        [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", str(into)],
        cwd=root,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "GITHUB_REPOSITORY": "owner/name"},
        check=True,
        timeout=280,
        capture_output=True,
    )
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in into.iterdir()}


def copy(into: Path) -> Path:
    """Copy what git does not ignore, with other times and other rights."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
            os.utime(into / name, (1_000_000_000, 1_000_000_000))
            (into / name).chmod(0o600)
    return into


def incomplete(dist: Path) -> list[str]:
    """Return what is wrong with the packages; the other files of a release are not built here."""
    found = check_release.problems(ROOT, dist=dist)
    return [problem for problem in found if "coreason_client-" in problem]


@pytest.mark.timeout(600)
def test_a_build_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    first = build(ROOT, tmp_path / "first")
    assert {name.partition("-")[0] for name in first} == {"coreason_client"}
    assert len(first) == 2
    assert incomplete(tmp_path / "first") == []
    assert build(copy(tmp_path / "copy"), tmp_path / "second") == first
