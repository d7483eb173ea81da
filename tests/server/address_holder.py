"""Another process that holds the lock of an address.

It imports the module of the lock alone, which takes a fraction of the time of the whole package.
"""

import os
import subprocess
import sys
from pathlib import Path

from coreason_client.server.process import _address_lock

FOLDER = Path(_address_lock.__file__).parent
HOLD = """
import sys
from _address_lock import claim
print(claim(("127.0.0.1", int(sys.argv[1]))), flush=True)
sys.stdin.read()
"""


def command(source: str, *arguments: str) -> list[str]:
    """Return a command that runs a program which can import `_address_lock`."""
    source = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n{source}"
    return [sys.executable, "-I", "-S", "-c", source, *arguments]


def hold(port: int) -> "subprocess.Popen[str]":
    """Start a process that claims an address of this machine and keeps it until it is killed."""
    return subprocess.Popen(
        command(HOLD, str(port)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def reply(process: "subprocess.Popen[str]") -> str:
    """Return what the process printed: whether it holds the address."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def run_with_lock(source: str, folder: Path) -> str:
    """Run a program whose lock file is in this folder; return its output."""
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command(source), check=True, env=environment, capture_output=True)
    return done.stdout.decode()
