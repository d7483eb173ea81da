"""The files in the root and in `.github`, which GitHub and the reader of a release look for."""

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from coreason_client import __version__
from coreason_client.cli.exits import ExitCode
from coreason_client.cli.llm import _store
from coreason_client.server.log import _schema as sqlite
from coreason_client.server.log.postgres import _schema as postgres
from coreason_client.testing._recording import _file
from tests.each import each
from tests.test_project import PYPROJECT

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
FORMS = sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml"))
# https://docs.github.com: the elements of a form, and the attribute that each must have.
ELEMENTS = {
    "markdown": "value",
    "input": "label",
    "textarea": "label",
    "dropdown": "options",
    "checkboxes": "options",
}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def problems_of(form: Any) -> list[str]:
    """Return what GitHub would refuse in an issue form."""
    if not isinstance(form, dict) or not form.keys() >= {"name", "description", "body"}:
        return ["a form has a name, a description and a body"]
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    names = [one.get("id") for one in fields]
    labels = [one.get("attributes", {}).get("label") for one in fields]
    return [
        *([] if fields else ["a form has a field"]),
        *(
            f"ids and labels exist and differ: {values}"
            for values in (names, labels)
            if None in values or len(set(values)) < len(values)
        ),
        *(
            f"{one['type']} is not known, or lacks an attribute"
            for one in form["body"]
            if ELEMENTS.get(one["type"]) not in one.get("attributes", {})
        ),
    ]


@each(("path",), [(path,) for path in FORMS if path.name != "config.yml"])
def test_an_issue_form_is_one_that_github_shows(path: Path) -> None:
    assert problems_of(yaml.safe_load(path.read_text())) == []


def test_a_wrong_form_is_noticed() -> None:
    field: dict[str, Any] = {"type": "input", "id": "a", "attributes": {"label": "A"}}
    form: dict[str, Any] = {"name": "n", "description": "d", "body": [field]}
    assert problems_of(form) == []
    for wrong in (
        [],
        [field, field],
        [{**field, "type": "text"}],
        [{**field, "attributes": {}}],
        [{"type": "markdown", "attributes": {"value": "x"}}],
    ):
        assert problems_of({**form, "body": wrong})
    assert problems_of({"name": "n"})


def test_there_are_forms_and_no_way_around_them() -> None:
    assert [path.stem for path in FORMS] == ["bug", "config", "feature"]
    config = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / "config.yml").read_text())
    assert config["blank_issues_enabled"] is False
    assert "make check test" in read(".github/PULL_REQUEST_TEMPLATE.md")


def test_the_changelog_begins_with_this_version() -> None:
    text = read("CHANGELOG.md")
    [(version, date)] = re.findall(r"^## (\S+) — (\d{4}-\d\d-\d\d)$", text, re.MULTILINE)[:1]
    assert version == __version__
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation["cff-version"] == "1.2.0"
    assert (citation["version"], str(citation["date-released"])) == (version, date)
    project = PYPROJECT["project"]
    assert (citation["title"], citation["license"]) == (project["name"], project["license"])


def test_the_source_distribution_has_the_root_files() -> None:
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    files = {path.name for path in ROOT.glob("*.md")} | {"CITATION.cff", "LICENSE"}
    assert files <= {name.removeprefix("/") for name in included}


def test_the_page_about_versions_has_the_formats_of_stored_data() -> None:
    text = " ".join(read("VERSIONING.md").split())
    assert (
        f"SQLite log {sqlite.SCHEMA_VERSION}, Postgres schema {postgres._VERSION}, "
        f"`coreason llm` {_store._VERSION}, recordings {_file._VERSION}."
    ) in text
    # What it calls public is described where it says.
    codes = read("docs/cli.md")
    assert all(f"| {code.value} |" in codes for code in ExitCode)
    warns = any("DeprecationWarning" in path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert warns is not (f"Nothing is deprecated in {__version__.rpartition('.')[0]}." in text)
