"""The installations of `make`, with a Python that only notes what it was asked to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PYTHON = """\
#!/bin/sh
if [ "$1" = -c ]; then
    echo 3.99
    exit
fi
echo "python $*" >> calls
if [ "$2" = venv ]; then
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    for name in coreason pytest; do
        printf '#!/bin/sh\\necho "%s $*" >> calls\\n' $name > "$3/bin/$name"
        chmod +x "$3/bin/$name"
    done
fi
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def make(folder: Path, target: str) -> tuple[list[str], str]:
    """Run a target; return what was installed, and what was printed."""
    (folder / "calls").write_text("")
    done = subprocess.run(
        ["make", target, f"PYTHON={folder}/python"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    calls = (folder / "calls").read_text().splitlines()
    return [call for call in calls if "--editable" in call], done.stdout


def test_chat_installs_what_it_needs_and_test_adds_the_rest(folder: Path) -> None:
    [installed], printed = make(folder, "chat")
    assert installed.endswith("--editable .[cli,server]")
    assert "Installing" in printed
    assert make(folder, "chat")[0] == []
    [installed], printed = make(folder, "test")
    assert installed.endswith("--editable .[all] --group dev")
    assert "Installing" in printed
    assert make(folder, "test")[0] == []
    assert make(folder, "chat")[0] == []


def test_another_python_has_an_environment_of_its_own(folder: Path) -> None:
    make(folder, "install")
    assert [entry.name for entry in folder.glob(".venv*")] == [".venv-3.99"]
    (folder / "python").unlink()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        make(folder, "install")
    assert f"PYTHON must be a Python that can be run, got {folder}/python" in failed.value.stderr


def test_after_the_development_set_chat_installs_nothing(folder: Path) -> None:
    assert len(make(folder, "install")[0]) == 1
    assert make(folder, "chat") == ([], "")


def test_page_serves_the_built_in_agent_on_a_free_port_and_opens_it(folder: Path) -> None:
    [installed], _ = make(folder, "page")
    assert installed.endswith("--editable .[cli,server]")
    calls = (folder / "calls").read_text().splitlines()
    assert calls[-1] == "coreason serve --port 0 --open --chaos"
