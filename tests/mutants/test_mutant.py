"""An entry that does not match the source is an error, never a killed mutant."""

from dataclasses import replace
from pathlib import Path

import pytest

from .mutant import Mutant, Stale, find, mutate, problems
from .table import MUTANTS

SOURCE = "def add(a, b):\n    return a + b  # the sum\n"
MUTANT = Mutant("it subtracts", "sums/add.py", "a + b", "a - b", ("tests/test_add.py::test_it",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of one file and one test."""
    (tmp_path / "src" / "sums").mkdir(parents=True)
    (tmp_path / "src" / "sums" / "add.py").write_text(SOURCE)
    (tmp_path / "src" / "sums" / "nothing.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_add.py").write_text("")
    return tmp_path


@pytest.mark.parametrize("path", ["sums/add.py", "sums"])
def test_one_piece_of_text_is_replaced(root: Path, path: str) -> None:
    mutant = replace(MUTANT, path=path)
    assert find(mutant, root) == root / "src" / "sums" / "add.py"
    assert mutate(mutant, SOURCE) == "def add(a, b):\n    return a - b  # the sum\n"


@pytest.mark.parametrize(("old", "found"), [("a * b", 0), ("a", 3)])
def test_a_text_that_is_not_found_once_is_an_error(root: Path, old: str, found: int) -> None:
    with pytest.raises(Stale, match=f"must occur once in src/sums/add.py, found {found} times"):
        find(replace(MUTANT, old=old), root)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("a + b", "a +", "the result is not Python"), ("the sum", "the total", "has no effect")],
)
def test_a_change_that_makes_no_mutant_is_an_error(old: str, new: str, words: str) -> None:
    with pytest.raises(Stale, match=words):
        mutate(replace(MUTANT, old=old, new=new), SOURCE)


def test_a_table_is_compared_with_the_source(root: Path) -> None:
    assert problems([MUTANT], root) == []
    wrong = [
        MUTANT,
        replace(MUTANT, name="no file", path="sub.py"),
        replace(MUTANT, name="no test", tests=("tests/test_sub.py",)),
        replace(MUTANT, name="no text", old="a * b"),
        MUTANT,
    ]
    assert [line.split(":")[0] for line in problems(wrong, root)] == [
        "no file",
        "no test",
        "no text",
        "it subtracts",
    ]


def test_every_entry_fits_the_source() -> None:
    assert problems(MUTANTS, Path(__file__).parents[2]) == []
