"""What an installation brings: `python bench/installs.py dist/*.whl` prints a table.

Each row is a new environment into which pip installs one requirement, so this needs a package index
and some minutes. The import is CPU time in a new process, without the start of Python: the median
of several processes.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from statistics import median

_OURS = {
    "": "from coreason_client import CAPClient",
    "llm": "from coreason_client import LLMClient",
    "server": "from coreason_client.server import AgentApp",
    "server,cli": "import coreason_client.cli._app",
    "all": "from coreason_client import CAPClient, A2AClient, LLMClient",
}
_PEERS = {
    "a2a-sdk": "from a2a.client import ClientFactory",
    "openai": "from openai import OpenAI",
    "mcp": "from mcp import Client",
    "pydantic-ai-slim[openai]": "from pydantic_ai import Agent",
    "litellm": "from litellm import completion",
}
_PROCESSES = 9


def _cpu(python: Path, code: str) -> float:
    command = [str(python), "-I", "-c", code]
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"this failed: {code}")
    return usage.ru_utime + usage.ru_stime


def _import_time(python: Path, code: str) -> float:
    _cpu(python, code)  # compiles what pip has not compiled
    return median(_cpu(python, code) - _cpu(python, "pass") for _ in range(_PROCESSES))


def _row(name: str, requirement: str, code: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        python = Path(folder) / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", requirement], check=True)
        [packages] = Path(folder).glob("lib/*/site-packages")
        files = [path for path in packages.rglob("*") if path.is_file()]
        source = [path for path in files if path.suffix != ".pyc"]
        megabytes = sum(path.stat().st_size for path in source) / 1e6
        count = len(list(packages.glob("*.dist-info")))
        seconds = _import_time(python, code)
    cells = (name, count, len(source), f"{megabytes:.0f}", f"`{code}`", f"{seconds * 1000:.0f}")
    return f"| {' | '.join(map(str, cells))} |"


def main(wheel: Path) -> None:
    """Print the table."""
    print("| installed | packages | files | MB | imported | ms |\n|---|--:|--:|--:|---|--:|")
    for extras, code in _OURS.items():
        suffix = f"[{extras}]" if extras else ""
        print(_row(f"coreason-client{suffix}", f"{wheel.resolve()}{suffix}", code), flush=True)
    for requirement, code in _PEERS.items():
        print(_row(requirement, requirement, code), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
