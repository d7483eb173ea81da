"""The lock files have every direct dependency in its range, with hashes, from no named host."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
IMAGE_EXTRAS = re.findall(r"(?m)^IMAGE_EXTRAS = (.+)", (ROOT / "Makefile").read_text())
HASH = " \\\n    --hash=sha256:"
ENTRY = re.compile(r"^(\S+)==(\S+)(?: ; [^\\\n]+)?((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)$")


def entries(lock: str) -> dict[str, list[str]]:
    """Return the versions of each package; another Python or system may have another one."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?! )", lock.strip()):
        if block.startswith("#"):
            continue
        match = ENTRY.match(block)
        assert match, f"not a version with hashes: {block[:80]}"
        found.setdefault(match[1], []).append(match[2])
    return found


def problems(lock: str, wanted: Iterable[str]) -> list[str]:
    locked = entries(lock)
    return [
        f"{requirement} is locked as {versions}: run make lock"
        for requirement in map(Requirement, wanted)
        for versions in [locked.get(canonicalize_name(requirement.name), [])]
        if not versions or not all(map(requirement.specifier.contains, versions))
    ]


def direct(extras: Iterable[str], groups: Iterable[str] = ()) -> Iterator[str]:
    yield from PYPROJECT["project"]["dependencies"]
    for extra in extras:
        yield from EXTRAS[extra]
    for group in groups:
        each: Any
        for each in PYPROJECT["dependency-groups"][group]:
            yield from direct((), [each["include-group"]]) if isinstance(each, dict) else [each]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("requirements-dev.txt", direct(EXTRAS.keys() - {"all"}, ["dev"])),
        ("deploy/requirements.txt", direct(IMAGE_EXTRAS[0].split())),
    ],
)
def test_the_lock_file_fits_the_project(path: str, wanted: Iterable[str]) -> None:
    lock = (ROOT / path).read_text()
    assert problems(lock, wanted) == []
    assert "://" not in lock


def test_a_lock_file_that_does_not_fit_is_noticed() -> None:
    lock = f"# make lock\na==1.5{HASH}{'0' * 64}\nb==2 ; python_version > '3'{HASH}{'1' * 64}\n"
    assert problems(lock, ["A>=1,<2", "b"]) == []
    assert len(problems(lock, ["a>=2", "b<2", "c"])) == 3
    with pytest.raises(AssertionError, match="not a version with hashes"):
        entries("a==1.5\n")


def test_the_quick_tests_exist() -> None:
    """Windows and macOS run them, and so does `make lowest`."""
    listed = (ROOT / "tests" / "quick.txt").read_text().split()
    assert listed
    assert [path for path in listed if not (ROOT / path).exists()] == []
