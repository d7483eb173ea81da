"""The modules of the page that need no browser, in Node.js."""

import ast
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from . import tools

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("static")


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    node = tools.node()
    shutil.copytree(tools.STATIC, folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')  # older versions do not guess it
    environment = {
        "STATIC": str(folder),
        "CASES": str(HERE / "markdown_cases.json"),
        "HOSTILE": str(HERE / "hostile.json"),
        "SNIPPETS": str(folder / "snippets.json"),
    }
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(HERE / "units.test.mjs")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_the_modules_pass_their_own_tests(output: str) -> None:
    passed = [line for line in output.splitlines() if line.strip().startswith("ok ")]
    assert len(passed) >= 60


@pytest.mark.usefixtures("output")
def test_the_snippets_are_a_valid_command_and_a_valid_program(folder: Path) -> None:
    cap, a2a = json.loads((folder / "snippets.json").read_text(encoding="utf-8"))
    variables = ("COREASON_API_KEY", "COREASON_A2A_TOKEN")
    for snippet, variable in zip((cap, a2a), variables, strict=True):
        words = shlex.split(snippet["curl"].replace("\\\n", " "))
        assert words[0] == "curl"
        assert f"Authorization: Bearer ${variable}" in words
        literals = [
            node.value
            for node in ast.walk(ast.parse(snippet["python"]))
            if isinstance(node, ast.Constant)
        ]
        assert {snippet["question"], variable} <= set(literals)
    body = json.loads(shlex.split(cap["curl"].replace("\\\n", " "))[-1])
    assert body == cap["request"]
    sent = json.loads(shlex.split(a2a["curl"].replace("\\\n", " "))[-1])
    assert sent["params"]["message"]["parts"] == [{"text": a2a["question"]}]
