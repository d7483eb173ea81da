"""Prints the tests of one source file, for `make test-for FILE=…`.

    python scripts/tests_for.py src/coreason_client/cap/_resume.py

These are the test files that import the module, or that have its name. If there are none, they are
those of its package.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["found_for", "main"]

ROOT = Path(__file__).resolve().parent.parent


def found_for(file: Path, root: Path = ROOT) -> list[Path]:
    """Return the tests of a source file, relative to the root of the project.

    Raises:
        ValueError: it is not a Python file below `src`.
    """
    source = (root / file).resolve()
    if not source.is_file() or source.suffix != ".py" or not source.is_relative_to(root / "src"):
        raise ValueError(f"{file} is not a Python file below src")
    parts = source.relative_to(root / "src").with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    name = f"test_{source.stem.strip('_')}.py"
    tests = sorted((root / "tests").rglob("test_*.py"))
    found = [test for test in tests if test.name == name or module in _imported(test)]
    return [test.relative_to(root) for test in found] or [_folder(source, root)]


def _imported(test: Path) -> Iterator[str]:
    """Return the modules that a test imports by their whole name."""
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _folder(source: Path, root: Path) -> Path:
    """Return the folder of the tests of a package, or of the nearest package above it."""
    package = source.parent.relative_to(root / "src").parts[1:]
    while package:
        folder = Path("tests", *(part.lstrip("_") for part in package))
        if (root / folder).is_dir():
            return folder
        package = package[:-1]
    return Path("tests")


def main() -> None:
    """Print the tests, one in each line."""
    if len(sys.argv) != 2:
        sys.exit("usage: make test-for FILE=src/coreason_client/cap/_resume.py")
    try:
        found = found_for(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.writelines(f"{test}\n" for test in found)


if __name__ == "__main__":
    main()
