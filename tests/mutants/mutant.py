"""A mutant: a change of one rule, made by replacing one piece of source text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

__all__ = ["Mutant", "Stale", "find", "mutate", "problems"]


class Stale(Exception):
    """An entry of the table no longer matches the source."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule.

    `name` describes the wrong behaviour. `path` is a file below `src`, or a folder if the rule may
    move between its files; the JavaScript client is in `js`. `old` must occur exactly once in the
    file or folder.
    `tests` are arguments of pytest: files, or single tests.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def find(mutant: Mutant, root: Path) -> Path:
    """Return the file below `root` that contains the text of a mutant.

    Raises:
        Stale: the text is not found exactly once.
    """
    path = root / mutant.path if mutant.path.startswith("js/") else root / "src" / mutant.path
    files = sorted((*path.rglob("*.py"), *path.rglob("*.js"))) if path.is_dir() else [path]
    counts = {file: _count(file, mutant.old) for file in files if file.exists()}
    if (total := sum(counts.values())) != 1:
        raise Stale(
            f"{mutant.name}: {mutant.old!r} must occur once in src/{mutant.path}, found {total} "
            "times; update the entry to the current code"
        )
    return next(file for file, count in counts.items() if count)


def mutate(mutant: Mutant, source: str, *, python: bool = True) -> str:
    """Return the source of a file with the change.

    Raises:
        Stale: the result is not valid Python, or the code is unchanged.
    """
    changed = source.replace(mutant.old, mutant.new)
    if not python:
        return changed
    try:
        compiled = _compiled(changed)
    except SyntaxError as error:
        raise Stale(f"{mutant.name}: the result is not Python: {error}") from None
    if compiled == _compiled_once(source):
        raise Stale(f"{mutant.name}: the change has no effect on the code")
    return changed


def problems(mutants: Sequence[Mutant], root: Path) -> list[str]:
    """Return an error message for each entry that does not match the source below `root`."""
    found = []
    names: set[str] = set()
    for mutant in mutants:
        if mutant.name in names:
            found.append(f"{mutant.name}: the name is used twice")
        names.add(mutant.name)
        found += [
            f"{mutant.name}: test file {test.split('::')[0]} not found"
            for test in mutant.tests
            if not (root / test.split("::")[0]).exists()
        ]
        try:
            path = find(mutant, root)
            mutate(mutant, path.read_text(encoding="utf-8"), python=path.suffix == ".py")
        except Stale as error:
            found.append(str(error))
    return found


def _compiled(source: str) -> CodeType:
    return _without_lines(compile(source, "", "exec", dont_inherit=True))


_compiled_once = cache(_compiled)  # many mutants have the same file


def _without_lines(code: CodeType) -> CodeType:
    """Return code that is equal to code that does the same on other lines."""
    parts = (
        _without_lines(part) if isinstance(part, CodeType) else part for part in code.co_consts
    )
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=tuple(parts))


def _count(file: Path, text: str) -> int:
    return file.read_text(encoding="utf-8").count(text)
