"""Measures the size and the shape of the source, and prints a table with the limit of each figure.

    python scripts/measure_code.py              print the table
    python scripts/measure_code.py --details    also print the files and names behind the figures

A test compares the figures with their limits. The last two figures are traced: a small program
calls a model and an agent on loopback, and the files of this project that run are counted.
"""

import argparse
import ast
import asyncio
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

__all__ = ["FIGURES", "Figure", "main"]

SRC = Path(__file__).resolve().parent.parent / "src"
_GENERATED = ("# Generated ", '"""Generated ', "# -*- coding: utf-8 -*-\n# Generated ")
_SMALL_FILE = 40
_LONG_FUNCTION = 40


@dataclass(frozen=True)
class Module:
    """One file of the source."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def generated(self) -> bool:
        """True if a script has written the file."""
        return self.text.startswith(_GENERATED) or "_pb2" in self.path.name

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@cache
def modules() -> tuple[Module, ...]:
    """Return all files of the source."""
    found = []
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found.append(Module(path, name, text, ast.parse(text)))
    return tuple(found)


def written() -> list[Module]:
    """Return the files that are written by hand."""
    return [module for module in modules() if not module.generated]


# Lines.


def code_lines(module: Module) -> int:
    """Return the number of lines that are not blank, not a comment and not part of a docstring."""
    skipped: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            skipped.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(module.text.splitlines(), 1)
    return sum(
        1
        for number, line in lines
        if number not in skipped and line.strip() and not line.lstrip().startswith("#")
    )


def _is_text(value: ast.expr) -> bool:
    """Return True for a docstring, also one of an attribute."""
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def small_files() -> list[str]:
    """Return the files with few lines."""
    return [
        f"{module.name} ({lines})"
        for module in modules()
        if (lines := len(module.text.splitlines())) < _SMALL_FILE
    ]


# Imports.


def importers() -> dict[str, set[str]]:
    """Return the modules that import each module, also inside functions."""
    known = {module.name for module in modules()}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for target in _imported(module):
            if target in known and target != module.name:
                found[target].add(module.name)
    return found


def _imported(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.package.split(".")
                above = ".".join(parts[: len(parts) - node.level + 1])
                base = f"{above}.{base}" if base else above
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def one_importer() -> list[str]:
    """Return the private modules that exactly one other module imports."""
    users = importers()
    return [
        f"{module.name} <- {next(iter(found))}"
        for module in written()
        if module.name.rpartition(".")[2].startswith("_")
        and module.path.name not in ("__init__.py", "__main__.py")
        and len(found := users[module.name]) == 1
    ]


# Functions and classes.


def long_functions() -> list[str]:
    """Return the functions with many lines, signature and docstring included."""
    found = []
    for module in written():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > _LONG_FUNCTION:
                    found.append(f"{module.name}.{node.name} ({length})")
    return found


def ambiguous_classes() -> list[str]:
    """Return the names that several classes have; a sync and an async class are one."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in written():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


# Files that run.

CALLS = 3
"""The calls that are traced: what only one of them enters, such as a timer, depends on time."""


@contextmanager
def traced(files: set[str]) -> Iterator[None]:
    """Note the files of this project in which a function is called, in all threads."""
    root = str(SRC)

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            files.add(str(Path(frame.f_code.co_filename).relative_to(SRC)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def files_of_generate() -> list[str]:
    """Return the files that one call of a model enters; the client exists before."""
    from coreason_client.llm import AsyncLLMClient
    from coreason_client.testing import fake_model

    calls: list[set[str]] = [set() for _ in range(CALLS)]

    async def call(url: str) -> None:
        # Without telemetry, also in a process that has loaded OpenTelemetry.
        async with AsyncLLMClient("key", url, "gpt-4o", telemetry=False) as client:
            await client.generate([{"role": "user", "content": "Hello"}])
            for files in calls:
                with traced(files):
                    await client.generate([{"role": "user", "content": "Hello"}])

    with fake_model(["Hello."] * (CALLS + 1)) as model:
        asyncio.run(call(model.url))
    return sorted(file for file in set.intersection(*calls) if "/testing/" not in file)


def files_of_assist() -> list[str]:
    """Return the files that one request of an agent enters, in the client and in the server."""
    from coreason_client import AsyncCAPClient
    from coreason_client.server import AgentApp, AgentStream, running

    files: set[str] = set()
    requests: list[set[str]] = []

    async def agent(request: object, stream: AgentStream) -> None:
        await stream.write("Hello.")

    async def ask(url: str) -> None:
        async with AsyncCAPClient(url, "key") as client:
            await client.ask("Hello")
            await client.ask("Hello")
            for _ in range(CALLS):
                files.clear()
                await client.ask("Hello")
                requests.append(set(files))

    with traced(files), running(AgentApp(agent)) as server:
        asyncio.run(ask(server.url))
    return sorted(set.intersection(*requests))


# The table.


@dataclass(frozen=True)
class Figure:
    """One row of the table; `details` returns what is counted."""

    title: str
    limit: int
    count: Callable[[], int]
    details: Callable[[], list[str]] | None = None


def _counted(title: str, limit: int, found: Callable[[], list[str]]) -> Figure:
    return Figure(title, limit, lambda: len(found()), found)


FIGURES = (
    Figure("Python files in src", 520, lambda: len(modules())),
    Figure("hand-written code lines", 58_500, lambda: sum(map(code_lines, written()))),
    _counted(f"files under {_SMALL_FILE} lines", 50, small_files),
    _counted("private modules with one importer", 120, one_importer),
    _counted("files that one async generate() enters", 22, files_of_generate),
    _counted("files that one CAP request enters, client and server", 60, files_of_assist),
    _counted(f"functions over {_LONG_FUNCTION} lines", 20, long_functions),
    _counted("class names with more than one meaning", 20, ambiguous_classes),
)


def by_folder() -> Counter[str]:
    """Return the number of files in each folder."""
    return Counter(str(module.path.parent.relative_to(SRC)) for module in modules())


def lines(*, details: bool) -> Iterator[str]:
    """Iterate over the lines of the table."""
    yield f"{'':54} {'now':>7} {'limit':>7}"
    for figure in FIGURES:
        count = figure.count()
        mark = "" if count <= figure.limit else "  above"
        yield f"{figure.title:54} {count:7,} {figure.limit:7,}{mark}"
        if details and figure.details is not None:
            yield from (f"    {line}" for line in figure.details())
    if details:
        yield from (f"{files:5} {folder}" for folder, files in by_folder().most_common())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the size and the shape of the source.")
    parser.add_argument("--details", action="store_true", help="print what is counted")
    for line in lines(details=parser.parse_args().details):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
