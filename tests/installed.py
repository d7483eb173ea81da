"""Clients that are not dependencies: installed on demand, once for each environment.

They are in a folder of the environment, so `make clean` removes them. If the registry cannot be
reached, a test with such a client is skipped; in CI it fails, so that nobody overlooks it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from tests.preloaded import run_preloaded

FOLDER: Final = Path(sys.prefix) / "clients"
INSTALL_SECONDS: Final = 50
ENVIRONMENT_SECONDS: Final = 300  # with dependencies
RUN_SECONDS: Final = 20


def python_packages(*packages: str) -> Path:
    """Return a folder with packages of PyPI, without their dependencies."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "."]
    return _installed("-".join(packages), [*pip, *packages])


def python_environment(*packages: str) -> Path:
    """Return a folder with packages of PyPI and their dependencies, for PYTHONPATH.

    They come before those of this environment, which has what they leave out.
    """
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    into = ["--python", sys.executable, "--target", "."]  # in seconds, where pip takes minutes
    name = "-".join(["environment", *packages])
    return _installed(name, [*uv, *into, *packages], ENVIRONMENT_SECONDS)


def npm_package(*packages: str) -> Path:
    """Return a folder with packages of npm.

    Peer dependencies must be named: some packages have large ones that a test does without.
    """
    options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps")
    npm = ["npm", "install", *options, "--prefix", ".", *packages]
    return _installed("-".join(packages).replace("/", "-"), npm)


def npm_tarball(package: str, sha512: str) -> Path:
    """Return one package of npm as its file, without dependencies, after a check of its hash."""
    folder = _installed(package.replace("/", "-"), ["npm", "pack", "--silent", package])
    [tarball] = folder.glob("*.tgz")
    assert hashlib.sha512(tarball.read_bytes()).hexdigest() == sha512, f"{package} has changed"
    return tarball


def _installed(name: str, command: list[str], seconds: float = INSTALL_SECONDS) -> Path:
    folder = FOLDER / name
    if folder.exists():
        return folder
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=FOLDER))
    try:
        subprocess.run(
            command,
            cwd=made,
            env=_with_authorities(),
            check=True,
            timeout=seconds,
            capture_output=True,
        )
        made.rename(folder)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(made, ignore_errors=True)
        if folder.exists():  # another process of this run was faster
            return folder
        _missing(f"{name} cannot be installed: {error}")
    return folder


def _with_authorities() -> dict[str, str]:
    """Return the environment with the authorities of the system, which the tests do without."""
    env = {**os.environ, "SSL_CERT_FILE": os.environ["SYSTEM_SSL_CERT_FILE"]}
    return {name: value for name, value in env.items() if value or name != "SSL_CERT_FILE"}


def _missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run(
    command: list[str], env: dict[str, str], folder: Path, timeout: float = RUN_SECONDS
) -> dict[str, Any]:
    """Run a client, and return the JSON object that it prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )
    return _printed(done)


def run_python(
    arguments: list[str],
    env: dict[str, str],
    folder: Path,
    timeout: float = RUN_SECONDS,
    libraries: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Run a client in a preloaded process, and return the JSON object that it prints."""
    env = {**os.environ, **env}
    return _printed(
        run_preloaded(arguments, env=env, cwd=folder, timeout=timeout, libraries=libraries)
    )


def _printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
