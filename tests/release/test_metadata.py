"""A build in a workflow has links to its repository; the description on PyPI has no other files."""

import re
from pathlib import Path
from typing import Any

import pytest

from scripts.release_metadata import absolute_links, get_metadata_hook

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGETS = re.compile(r"\]\(([^)]+)\)")


def updated(metadata: dict[str, Any]) -> dict[str, Any]:
    get_metadata_hook()(str(ROOT), {}).update(metadata)
    return metadata


def test_links_lead_to_the_files_of_the_tag() -> None:
    text = "[a](docs/a.md#b) ![c](images/c.png) [d](https://d.example) [e](#e) [f](mailto:f@x)"
    assert absolute_links(text, "o/n", "1.2.0") == (
        "[a](https://github.com/o/n/blob/v1.2.0/docs/a.md#b) "
        "![c](https://raw.githubusercontent.com/o/n/v1.2.0/images/c.png) "
        "[d](https://d.example) [e](#e) [f](mailto:f@x)"
    )


def test_every_link_of_the_readme_leads_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "Owner/name")
    found = updated({"version": "1.2.0"})
    targets = TARGETS.findall(found["readme"]["text"])
    files = [
        re.fullmatch(r"https://\S+?/Owner/name/(?:blob/)?v1\.2\.0/([^#]+)(?:#.*)?", target)
        for target in targets
    ]
    assert len(targets) > 20
    assert [target for file, target in zip(files, targets, strict=True) if file is None] == []
    assert [file[1] for file in files if file and not (ROOT / file[1]).is_file()] == []
    assert found["urls"]["Repository"] == "https://github.com/Owner/name"
    assert found["urls"]["Documentation"] == "https://owner.github.io/name/"


def test_elsewhere_the_readme_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    found = updated({"version": "1.2.0"})
    assert (found["readme"]["text"], found["urls"]) == (README, {})


def test_a_source_distribution_keeps_what_it_was_built_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/fork")
    built = {"readme": {"text": "with links"}, "urls": {"Repository": "https://x.example"}}
    assert updated(dict(built)) == built
