"""pyright sees the same types as mypy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import npm_package

VERSION = "1.1.414"
SECONDS = 50
TYPED = Path(__file__).with_name("typed_answers.py")
WRONG = """
def wrong(client: LLMClient) -> None:
    assert_type(client.generate(MESSAGES, response_format=City), Response[str])
"""


@pytest.fixture(scope="module")
def pyright() -> Path:
    return npm_package(f"pyright@{VERSION}") / "node_modules" / "pyright" / "index.js"


def errors(pyright: Path, folder: Path, program: str) -> list[str]:
    """Return what pyright says about a program."""
    (folder / "program.py").write_text(program)
    settings = {"pythonVersion": "3.11", "typeCheckingMode": "strict", "reportPrivateUsage": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    done = subprocess.run(
        ["node", str(pyright), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [each["message"] for each in found if each["severity"] == "error"]


def test_pyright_knows_the_types_of_answers(pyright: Path, tmp_path: Path) -> None:
    program = TYPED.read_text()
    found = errors(pyright, tmp_path, program + WRONG)
    assert len(found) == 1, found
    assert "assert_type" in found[0]
