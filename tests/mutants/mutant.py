"""A mutant: one rule of the source, changed by replacing one piece of text."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "Stale", "find", "mutate", "problems"]


class Stale(Exception):
    """An entry of the table does not fit the source any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule.

    `name` says what the changed code does wrong. `path` is a file below `src`, or a folder, so that
    the rule may move from one of its files to another. `old` must occur exactly once in all of it.
    `tests` are arguments of pytest: files, or single tests.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def find(mutant: Mutant, root: Path) -> Path:
    """Return the file below `root` that holds the text of a mutant.

    Raises:
        Stale: the text is not found exactly once.
    """
    place = root / "src" / mutant.path
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    counts = {file: _count(file, mutant.old) for file in files if file.exists()}
    if (total := sum(counts.values())) != 1:
        raise Stale(
            f"{mutant.name}: {mutant.old!r} must occur once in src/{mutant.path}, found {total} "
            "times; update the entry to the present code"
        )
    return next(file for file, count in counts.items() if count)


def mutate(mutant: Mutant, source: str) -> str:
    """Return the source of a file with the change.

    Raises:
        Stale: the result is not Python, or means the same.
    """
    changed = source.replace(mutant.old, mutant.new)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except SyntaxError as error:
        raise Stale(f"{mutant.name}: the result is not Python: {error}") from None
    if same:
        raise Stale(f"{mutant.name}: the change has no effect on the code")
    return changed


def problems(mutants: Sequence[Mutant], root: Path) -> list[str]:
    """Return what is wrong with a table: entries that do not fit the source below `root`."""
    found = []
    names: set[str] = set()
    for mutant in mutants:
        if mutant.name in names:
            found.append(f"{mutant.name}: the name is used twice")
        names.add(mutant.name)
        found += [
            f"{mutant.name}: there is no {test.split('::')[0]}"
            for test in mutant.tests
            if not (root / test.split("::")[0]).exists()
        ]
        try:
            mutate(mutant, find(mutant, root).read_text(encoding="utf-8"))
        except Stale as error:
            found.append(str(error))
    return found


def _count(file: Path, text: str) -> int:
    return file.read_text(encoding="utf-8").count(text)
