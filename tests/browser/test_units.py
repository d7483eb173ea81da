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
    snippets = json.loads((folder / "snippets.json").read_text(encoding="utf-8"))
    variables = ["COREASON_API_KEY"] * 4 + ["COREASON_A2A_TOKEN"] * 4
    for snippet, variable in zip(snippets, variables, strict=True):
        words = shlex.split(snippet["curl"].replace("\\\n", " "))
        assert words[0] == "curl"
        option, value = snippet["curlOption"]
        at = words.index(value.replace("{key}", f"${variable}"))
        assert words[at - 1] == option
        literals = [
            node.value
            for node in ast.walk(ast.parse(snippet["python"]))
            if isinstance(node, ast.Constant)
        ]
        assert {snippet["question"], variable} <= set(literals)
    cap, a2a = snippets[0], snippets[4]
    body = json.loads(shlex.split(cap["curl"].replace("\\\n", " "))[-1])
    assert body == cap["request"]
    sent = json.loads(shlex.split(a2a["curl"].replace("\\\n", " "))[-1])
    assert sent["params"]["message"]["parts"] == [{"text": a2a["question"]}]


@pytest.mark.proves("PAGE-shell")
@pytest.mark.usefixtures("output")
def test_a_shell_runs_nothing_of_a_card_and_puts_in_the_key(folder: Path) -> None:
    snippets = json.loads((folder / "snippets.json").read_text(encoding="utf-8"))
    for snippet in snippets:
        script = 'curl() { printf "%s\\0" "$@"; }\n' + snippet["curl"]
        environment = {"COREASON_API_KEY": "s3 cret", "COREASON_A2A_TOKEN": "s3 cret", "PATH": ""}
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        option, value = snippet["curlOption"]
        words = done.stdout.split("\0")
        assert words[words.index(value.replace("{key}", "s3 cret")) - 1] == option
        assert done.stderr == ""
