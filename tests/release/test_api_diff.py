"""`make apidiff` prints what breaks the API since the last tag, and judges it by the version."""

import subprocess
from pathlib import Path

import pytest

from scripts import api_diff


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "reference" / "all.md").write_text("::: coreason_client.ask\n")
    (tmp_path / "src" / "coreason_client").mkdir(parents=True)
    git(tmp_path, "init", "--quiet")
    change(tmp_path, "0.1.0", "def ask(text, limit=1): ...\n\n\ndef inner(): ...\n")
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    command = ["git", *identity, "-c", "commit.gpgsign=false", *arguments]
    subprocess.run(command, cwd=root, check=True, timeout=30, capture_output=True)


def change(root: Path, version: str, code: str) -> None:
    package = root / "src" / "coreason_client"
    (package / "_version.py").write_text(f'__version__ = "{version}"\n')
    (package / "_ask.py").write_text(code)
    (package / "__init__.py").write_text("from coreason_client._ask import *\n")
    if "ask" in code:
        (package / "__init__.py").write_text("from coreason_client._ask import ask, inner\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "A change")


def test_a_breaking_change_needs_a_version_that_allows_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api_diff.main(root) == 0
    assert "no tag of a release before this commit" in capsys.readouterr().out
    git(root, "tag", "v0.1.0")
    assert api_diff.main(root) == 0, "the tag of this commit is not the release before it"
    assert "no tag" in capsys.readouterr().out

    change(root, "0.1.1", "def ask(text, limit=1, more=2): ...\n")  # `inner` was not public
    assert api_diff.main(root) == 0
    assert "0 breaking changes since v0.1.0" in capsys.readouterr().out

    change(root, "0.1.1", "def ask(text): ...\n")
    assert api_diff.main(root) == 1
    printed = capsys.readouterr().out
    assert "ask(limit): Parameter was removed" in printed
    assert "1 breaking changes since v0.1.0: version 0.1.1 does not allow them." in printed

    change(root, "0.1.1", "task = 1\n")  # the package still imports a name that has another one
    assert api_diff.main(root) == 1
    assert "Public object was removed" in capsys.readouterr().out

    change(root, "0.2.0", "")
    assert api_diff.main(root) == 0
    printed = capsys.readouterr().out
    assert "Public object was removed" in printed
    assert "version 0.2.0 allows them." in printed


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("0.1.0", "0.1.9", False),
        ("0.9.0", "0.10.0", True),
        ("0.9.0", "1.0.0", True),
        ("1.1.0", "1.2.0", False),
        ("1.9.0", "2.0.0", True),
    ],
)
def test_a_version_allows_breaks(old: str, new: str, allowed: bool) -> None:
    assert api_diff._allows_breaks(old, new) is allowed
