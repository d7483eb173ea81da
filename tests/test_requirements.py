"""Holds tests and specification together.

``requirements.toml`` lists what the project must do, and a test says with
``@pytest.mark.proves("ID")`` which of these requirements it proves. The tests here compare the two:
the list is well formed, no test names an id that is not on it, and every requirement of a part that
is built is proved by at least one test. The requirements of the open parts are printed.

The marks are read from the source with ``ast``, so the result does not depend on which tests were
selected. A test that may be skipped proves nothing: nobody would notice that it did not run. Tests
in JavaScript have a line ``// proves: ID`` before them. The cases in ``cases/*.json``, which a test
runs one by one, name what they prove in ``proves``.
"""

import ast
import json
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
DECISION_NUMBERS = range(41)
STATES = {"built", "open"}
JAVASCRIPT = TESTS.parent / "js" / "test"
JAVASCRIPT_MARK = "// proves: "


@dataclass(frozen=True)
class Requirement:
    id: str
    part: str
    text: str
    ruled: str | None = None


@cache
def parts() -> dict[str, str]:
    """Each part of the project and its state, ``built`` or ``open``."""
    table: dict[str, str] = load_toml()["parts"]
    return table


@cache
def requirements() -> tuple[Requirement, ...]:
    return tuple(Requirement(**entry) for entry in load_toml()["requirement"])


@cache
def load_toml() -> dict[str, Any]:
    with (TESTS / "requirements.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def proofs() -> dict[str, list[str]]:
    """Each id that a test names, with the places where it is named."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for id_, line in proved_ids(path.read_text(encoding="utf-8")):
            found.setdefault(id_, []).append(f"{path.relative_to(TESTS)}:{line}")
    for path in sorted(JAVASCRIPT.glob("*.test.js")):  # tests/js runs them all
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if text.lstrip().startswith(JAVASCRIPT_MARK):
                found.setdefault(text.partition(JAVASCRIPT_MARK)[2], []).append(f"{path}:{line}")
    for path in sorted(TESTS.rglob("cases/*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            for id_ in case.get("proves", ()):
                found.setdefault(id_, []).append(f"{path.relative_to(TESTS)}: {case['name']}")
    return found


def proved_ids(source: str) -> Iterator[tuple[str, int]]:
    """The ids in every ``....proves("ID", ...)`` call of a module, each with its line.

    Any such call counts, so a decorator, a ``pytestmark`` and the marks of a ``pytest.param`` are
    all found. Those of a test that may be skipped are left out.
    """
    if "proves(" not in source:  # most files: parsing all of them takes seconds
        return
    tree = ast.parse(source)
    skipped = {id(node) for function in skippable(tree) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "proves":
            continue
        for arg in node.args:
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                yield arg.value, arg.lineno


def skippable(tree: ast.Module) -> list[ast.AST]:
    """The functions that may skip: themselves, by a mark, or through a fixture or a helper."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    words = {function.name: words_of(function) for function in functions}
    found = {"skip", "skipif", "importorskip"}
    while more := {name for name, used in words.items() if used & found} - found:
        found |= more
    return [function for function in functions if function.name in found]


def words_of(function: ast.AST) -> set[str]:
    """Every name that stands in a function: what it calls, takes, and is marked with."""
    names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
    return names | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}


def bullets(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def test_marks_are_found_wherever_they_stand() -> None:
    source = textwrap.dedent(
        """
        pytestmark = [pytest.mark.slow, pytest.mark.proves("MODULE")]

        @pytest.mark.proves("ONE", "TWO")
        @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.proves("PARAM"))])
        def test_it(n): ...

        class TestIt:
            @mark.proves("METHOD")
            async def test_it(self): ...

        text = 'pytest.mark.proves("IN A STRING")'
        """
    )
    assert {id_ for id_, _ in proved_ids(source)} == {"MODULE", "ONE", "TWO", "PARAM", "METHOD"}


def test_a_test_that_may_be_skipped_proves_nothing() -> None:
    source = textwrap.dedent(
        """
        @pytest.fixture
        def curl():
            if shutil.which("curl") is None:
                pytest.skip("no curl")

        @pytest.mark.proves("FIXTURE")
        def test_with_curl(curl): ...

        @pytest.mark.skipif(sys.platform == "win32", reason="no")
        @pytest.mark.proves("MARK")
        def test_marked(): ...

        @pytest.mark.proves("BODY")
        def test_body():
            pytest.importorskip("numpy")

        @pytest.mark.proves("KEPT")
        def test_always(): ...
        """
    )
    assert {id_ for id_, _ in proved_ids(source)} == {"KEPT"}


def test_ids_are_unique() -> None:
    counts = Counter(requirement.id for requirement in requirements())
    twice = [id_ for id_, count in counts.items() if count > 1]
    assert not twice, f"ids listed more than once:{bullets(twice)}"


def test_parts_are_built_or_open() -> None:
    wrong = [f"{part} = {state}" for part, state in parts().items() if state not in STATES]
    assert not wrong, f"parts with an unknown state:{bullets(wrong)}"


def test_requirements_are_well_formed() -> None:
    wrong = [f"{r.id}: {fault}" for r in requirements() for fault in faults(r)]
    assert not wrong, f"ill-formed requirements:{bullets(wrong)}"


def faults(requirement: Requirement) -> Iterator[str]:
    """The errors in the form of one requirement."""
    if not re.fullmatch(r"[A-Za-z0-9.-]+", requirement.id):
        yield "the id has other characters than letters, digits, dots and hyphens"
    if requirement.part not in parts():
        yield f"there is no part {requirement.part!r}"
    if not requirement.text.strip():
        yield "the text is empty"
    elif len(requirement.text.splitlines()) != 1:
        yield "the text is not one line"
    if requirement.ruled is not None and requirement.ruled not in map(str, DECISION_NUMBERS):
        yield f"there is no decision {requirement.ruled!r}"


def test_every_decision_is_a_requirement() -> None:
    heads = {match[1] for r in requirements() if (match := re.match(r"R(\d\d)[a-z]?$", r.id))}
    missing = [f"R{number:02}" for number in DECISION_NUMBERS if f"{number:02}" not in heads]
    assert not missing, f"decisions without a requirement:{bullets(missing)}"


@pytest.mark.proves("R00")
def test_every_decision_is_restated_in_one_paragraph() -> None:
    paragraphs = decision_paragraphs()
    assert [number for number, _ in paragraphs] == list(DECISION_NUMBERS)
    wrong = [f"{number}: {count}" for number, count in paragraphs if count != 1]
    assert not wrong, f"decisions with another number of paragraphs than one:{bullets(wrong)}"


def decision_paragraphs() -> list[tuple[int, int]]:
    """The number of each decision in ``docs/decisions*.md``, with how many paragraphs it has."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("decisions*.md"))
    found = []
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        title, *paragraphs = section.strip().split("\n\n")
        if match := re.match(r"(\d+)\. \S", title):
            found.append((int(match[1]), len(paragraphs)))
    return sorted(found)


def test_no_test_names_an_unknown_id() -> None:
    known = {requirement.id for requirement in requirements()}
    unknown = [f"{id_} ({', '.join(at)})" for id_, at in proofs().items() if id_ not in known]
    assert not unknown, f"tests name ids that requirements.toml does not list:{bullets(unknown)}"


def test_every_requirement_of_a_built_part_is_proved() -> None:
    missing = [
        f"{requirement.part}: {requirement.id}: {requirement.text}"
        for requirement in requirements()
        if parts().get(requirement.part) == "built" and requirement.id not in proofs()
    ]
    assert not missing, f"{len(missing)} requirements without a test:{bullets(missing)}"


def test_open_requirements_are_listed(record_property: Callable[[str, object], None]) -> None:
    if summary := open_summary():
        record_property("table: Requirements that are still open", summary)


def open_summary() -> str:
    """For each open part one count and the ids that no test proves yet."""
    lines = []
    for part in (part for part, state in parts().items() if state == "open"):
        ids = [r.id for r in requirements() if r.part == part]
        unproved = [id_ for id_ in ids if id_ not in proofs()]
        lines.append(f"open: {part}: {len(unproved)} of {len(ids)} requirements")
        lines += textwrap.wrap(
            " ".join(unproved),
            width=100,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)
