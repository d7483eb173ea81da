"""`make tck`: the agent is served, the kit in a folder runs against it, and its exit code counts.

The kit here is a program with the arguments of the official one.
"""

import json
import shutil
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from scripts import tck

KIT = """
import json, os, sys
from urllib.request import urlopen
arguments = sys.argv[1:]
url = arguments[arguments.index("--sut-host" if "--sut-host" in arguments else "--sut-url") + 1]
card = json.load(urlopen(url + "/.well-known/agent-card.json"))
names = sorted(one["protocolBinding"] for one in card["supportedInterfaces"])
found = {"arguments": arguments, "bindings": names, "python": sys.executable, "in": os.getcwd()}
open("found.json", "w").write(json.dumps(found))
sys.exit(7)
"""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    (tmp_path / "run_tck.py").write_text(KIT)
    return tmp_path


def with_python(kit: Path) -> Path:
    (kit / ".venv" / "bin").mkdir(parents=True)
    python = kit / ".venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    return python


def test_the_kit_runs_against_the_agent_with_its_own_python(kit: Path) -> None:
    python = with_python(kit)
    assert tck.main([str(kit), "--category", "mandatory"]) == 7
    found = json.loads((kit / "found.json").read_text())
    assert (found["python"], found["in"]) == (str(python), str(kit))
    option, url, *others = found["arguments"]
    assert (option, others) == ("--sut-host", ["--category", "mandatory"])
    assert {"GRPC", "HTTP+JSON", "JSONRPC"} <= set(found["bindings"])
    with pytest.raises(URLError):
        urlopen(url, timeout=5)  # the agent has ended with the kit


def test_the_kit_of_0_3_has_another_argument(kit: Path) -> None:
    with_python(kit)
    assert tck.main([str(kit), "--protocol", "0.3"]) == 7
    found = json.loads((kit / "found.json").read_text())
    assert found["arguments"][0] == "--sut-url"
    assert "GRPC" not in found["bindings"]


def test_without_a_python_of_its_own_uv_runs_the_kit(
    kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert tck.runner(kit) == ["/bin/uv", "run", "run_tck.py"]


@pytest.mark.parametrize("folder", [None, "missing", "."])
def test_a_folder_without_the_kit_is_refused(
    folder: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [] if folder is None else [str(tmp_path / folder)]
    assert tck.main(given) == 2
    said = capsys.readouterr().err
    assert "https://github.com/a2aproject/a2a-tck" in said
    assert said.endswith("make tck DIR=../a2a-tck\n")


def test_a_kit_that_nothing_can_run_is_refused(
    kit: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert tck.main([str(kit)]) == 2
    assert "uv is not installed" in capsys.readouterr().err


def test_an_agent_that_does_not_start_is_reported(
    kit: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_python(kit)
    broken = tmp_path / "agent.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(tck, "AGENT", broken)
    assert tck.main([str(kit)]) == 2
    assert capsys.readouterr().err == "the agent has ended with exit code 3\n"
    assert not (kit / "found.json").exists()
