"""The wheel: what is in it, and what happens beside another distribution with the same package.

Another distribution has a package `coreason_manifest` too. The ones here are stand-ins: pip would
install any other in the same way, and whichever is installed last replaces files of the first.
"""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pip
import pytest

from coreason_client import __version__

pytestmark = pytest.mark.timeout(200)  # a test calls pip several times

ROOT = Path(__file__).parent.parent
MAX_WHEEL = 2_000_000  # bytes
SUFFIXES = {"", ".py", ".md", ".sql", ".typed", ".js", ".ts", ".css", ".html", ".txt"}
OTHER = "coreason_manifest"
USE = (
    "import coreason_client\n"
    "from coreason_manifest import definitions\n"
    "print(definitions.DISTRIBUTION)\n"
)
REFUSED = "ImportError: coreason_manifest.definitions is not that of coreason-client: "
REPAIR = "`pip uninstall coreason_manifest`, then `pip install --force-reinstall --no-deps"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this project."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--quiet")
    run(*build, "--outdir", str(folder), str(ROOT))
    [built] = folder.iterdir()
    return built


def run(*command: str) -> str:
    """Run a program with the authorities of the system, and return what it prints."""
    env = {**os.environ, "SSL_CERT_FILE": os.environ["SYSTEM_SSL_CERT_FILE"]}
    env = {name: value for name, value in env.items() if value}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.proves("R19b")
def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"coreason_client-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size <= MAX_WHEEL
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist()]
    information = f"coreason_client-{__version__}.dist-info"
    assert {path.parts[0] for path in paths} == {"coreason_client", OTHER, information}
    assert {path.parts[1] for path in paths if path.parts[0] == OTHER} == {"definitions"}
    strange = [
        str(path)
        for path in paths
        if path.suffix not in SUFFIXES
        or any(part in ("tests", "__pycache__") or part[0] == "." for part in path.parts)
    ]
    assert not strange
    source = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    assert {Path(path) for path in paths if path.suffix == ".py"} == source


# Beside another distribution


class Environment:
    """An empty environment, into which pip installs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False)
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def pip(self, *arguments: str | Path) -> None:
        # What `pip --python` runs: our pip in their interpreter, which has none.
        program = Path(pip.__file__).with_name("__pip-runner__.py")
        options = ("--quiet", "--disable-pip-version-check")
        run(str(self.python), str(program), *options, *map(str, arguments))

    def install(self, wheel: Path) -> None:
        only = ("--no-index", "--no-deps", "--no-compile", "--force-reinstall")
        self.pip("install", *only, wheel)

    def use(self, path: str = "") -> str:
        """Import our packages; return whose they are, or the last line of the error."""
        done = subprocess.run(
            [str(self.python), "-c", USE],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            encoding="utf-8",
            timeout=30,
            check=False,
        )
        return done.stdout.strip() or done.stderr.splitlines()[-1]


def stand_in(folder: Path, *files: str, text: str = "") -> Path:
    """Make a wheel of another distribution with these files."""
    information = f"{OTHER}-1.0.dist-info"
    entries = {
        **{f"{OTHER}/{name}": text for name in files},
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {OTHER}\nVersion: 1.0\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*entries, f"{information}/RECORD"])
    path = folder / f"{OTHER}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**entries, f"{information}/RECORD": record}.items():
            archive.writestr(name, content)
    return path


def is_refused(said: str) -> bool:
    return said.startswith(REFUSED) and REPAIR in said


def test_another_distribution_with_the_same_modules_is_noticed(wheel: Path, tmp_path: Path) -> None:
    other = stand_in(tmp_path, "__init__.py", "definitions/__init__.py", "definitions/message.py")
    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    environment.install(other)  # it has replaced our files
    assert is_refused(environment.use())
    environment.pip("uninstall", "--yes", OTHER)  # and now they are gone
    assert is_refused(environment.use())
    environment.install(wheel)  # what the error says
    assert environment.use() == "coreason-client"
    environment.install(other)
    environment.install(wheel)  # ours last: it works, until the other one is removed
    assert environment.use() == "coreason-client"
    environment.pip("uninstall", "--yes", OTHER)
    assert is_refused(environment.use())


@pytest.mark.proves("R19c")
def test_another_distribution_without_these_modules_can_stay(wheel: Path, tmp_path: Path) -> None:
    other = stand_in(tmp_path, "__init__.py", "other.py", text="THEIRS = True\n")
    environment = Environment(tmp_path / "environment")
    for first, second in ((wheel, other), (other, wheel)):
        environment.install(first)
        environment.install(second)
        assert environment.use() == "coreason-client"
        run(str(environment.python), "-c", f"from {OTHER}.other import THEIRS")
        environment.pip("uninstall", "--yes", OTHER)
        assert environment.use() == "coreason-client"


@pytest.mark.parametrize("text", ["", "raise RuntimeError('not configured')"])
def test_another_package_that_hides_ours_is_noticed(text: str, wheel: Path, tmp_path: Path) -> None:
    """A folder that comes first on the path hides the installed one."""
    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    (tmp_path / "first" / OTHER).mkdir(parents=True)
    (tmp_path / "first" / OTHER / "__init__.py").write_text(text, encoding="utf-8")
    assert is_refused(environment.use(str(tmp_path / "first")))
