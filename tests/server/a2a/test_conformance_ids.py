"""Holds the tests and the requirements of the A2A conformance kit together.

``requirements.toml`` lists the ids of the kit, and a test names those that it proves with
``@pytest.mark.conforms("ID")``. A test that may be skipped proves nothing.
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.test_requirements import bullets, skippable

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
LEVELS = {"MUST": 114, "SHOULD": 11, "MAY": 4}


@cache
def load() -> dict[str, Any]:
    with (HERE / "requirements.toml").open("rb") as file:
        return tomllib.load(file)


def requirements() -> list[dict[str, str]]:
    found: list[dict[str, str]] = load()["requirement"]
    return found


@cache
def proofs() -> dict[str, list[str]]:
    """Each id that a test names, with the places where it is named."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for id_, line in named_ids(path.read_text(encoding="utf-8")):
            found.setdefault(id_, []).append(f"{path.relative_to(TESTS)}:{line}")
    return found


def named_ids(source: str) -> Iterator[tuple[str, int]]:
    """The ids in every ``....conforms("ID", ...)`` call of a module, each with its line."""
    if "mark.conforms(" not in source:
        return
    tree = ast.parse(source)
    skipped = {id(node) for function in skippable(tree) for node in ast.walk(function)}
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if id(node) in skipped or not is_call:
            continue
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "conforms":
            for arg in node.args:
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                    yield arg.value, arg.lineno


def test_the_list_has_every_requirement_of_the_kit_once() -> None:
    assert Counter(one["level"] for one in requirements()) == LEVELS
    assert len({one["id"] for one in requirements()}) == len(requirements())


def test_every_requirement_has_an_area_and_one_sentence() -> None:
    areas = load()["areas"]
    assert set(areas.values()) <= {"built", "open"}
    wrong = [
        one["id"]
        for one in requirements()
        if one["area"] not in areas or not one["text"].endswith(".") or "\n" in one["text"]
    ]
    assert not wrong, f"ill-formed requirements:{bullets(wrong)}"


def test_no_test_names_an_unknown_id() -> None:
    known = {one["id"] for one in requirements()}
    unknown = [f"{id_} ({', '.join(at)})" for id_, at in proofs().items() if id_ not in known]
    assert not unknown, f"tests name ids that requirements.toml does not list:{bullets(unknown)}"


def test_every_requirement_of_a_built_area_is_proved() -> None:
    areas = load()["areas"]
    missing = [
        f"{one['id']}: {one['text']}"
        for one in requirements()
        if areas[one["area"]] == "built" and one["id"] not in proofs()
    ]
    assert not missing, f"{len(missing)} requirements without a test:{bullets(missing)}"


def test_a_test_that_may_be_skipped_proves_nothing() -> None:
    source = '@pytest.mark.conforms("A")\ndef test_a(): ...\n'
    source += '@pytest.mark.conforms("B")\ndef test_b():\n    pytest.skip("no")\n'
    assert [id_ for id_, _ in named_ids(source)] == ["A"]


def test_open_requirements_are_listed(record_property: Callable[[str, object], None]) -> None:
    for area in (area for area, state in load()["areas"].items() if state == "open"):
        ids = [one["id"] for one in requirements() if one["area"] == area]
        unproved = [id_ for id_ in ids if id_ not in proofs()]
        summary = f"open: {area}: {len(unproved)} of {len(ids)}: {' '.join(unproved)}"
        record_property("table: Requirements of the A2A kit that are still open", summary)
