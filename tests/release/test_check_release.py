"""`scripts/check_release.py` names each thing that is missing or does not fit."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts import check_release
from tests.each import each

SHA = "0123456789abcdef0123456789abcdef01234567"
PYPROJECT = """
[project]
requires-python = ">=3.9"
classifiers = [
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.9",
    "Programming Language :: Python :: 3.10",
]
"""
TREE = {
    **dict.fromkeys(check_release.FILES, "text"),
    "src/coreason_client/_version.py": '__version__ = "1.2.0"\n',
    "js/package.json": json.dumps({"name": "@scope/client", "version": "1.2.0"}),
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2026)\n\n* [New](a.md).\n\n## 1.1.0\n\n* Old.\n",
    "pyproject.toml": PYPROJECT,
    ".github/workflows/test.yml": f'  python: ["3.9", "3.10"]\n  - uses: a/b@{SHA} # v1\n',
    ".github/workflows/release.yml": f"    uses: ./x.yml\n  - uses: a/b@{SHA} # v1\n",
}
METADATA = """Metadata-Version: 2.4
Name: coreason-client
Version: 1.2.0
Project-URL: Repository, https://example.com/a

[a page](https://example.com/b), [this page](#here)
"""
PACKAGE = json.dumps({"version": "1.2.0", "repository": {"type": "git"}})
WHEEL, SDIST, NPM, COMPONENTS = (
    "coreason_client-1.2.0-py3-none-any.whl",
    "coreason_client-1.2.0.tar.gz",
    "scope-client-1.2.0.tgz",
    "coreason-client-1.2.0.cdx.json",
)
INFORMATION = "coreason_client-1.2.0.dist-info"
DIST = {
    WHEEL: {f"{INFORMATION}/METADATA": METADATA, f"{INFORMATION}/licenses/LICENSE": "text"},
    SDIST: {"coreason_client-1.2.0/PKG-INFO": METADATA, "coreason_client-1.2.0/LICENSE": "text"},
    NPM: {"package/package.json": PACKAGE, "package/LICENSE": "text"},
}


def write(root: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def pack(path: Path, files: dict[str, str]) -> None:
    """Write a wheel, or an archive as PyPI and npm have them."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as wheel:
            for name, text in files.items():
                wheel.writestr(name, text)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(text)
            archive.addfile(item, io.BytesIO(text.encode()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    components = json.dumps({"metadata": {"component": {"version": "1.2.0"}}})
    write(tmp_path, {**TREE, f"dist/{COMPONENTS}": components})
    for name, files in DIST.items():
        pack(tmp_path / "dist" / name, files)
    return tmp_path


def test_a_complete_tree_is_released_with_its_notes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = root / "notes.md"
    arguments = ["--tag", "v1.2.0", "--dist", str(root / "dist"), "--notes", str(notes)]
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert check_release.main(arguments, root) == 0
    assert notes.read_text() == "* [New](a.md).\n"
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/n")  # a release has no other files
    assert check_release.main(arguments, root) == 0
    assert notes.read_text() == "* [New](https://github.com/o/n/blob/v1.2.0/a.md).\n"


@each(
    ("name", "text", "found"),
    [
        ("src/coreason_client/_version.py", '__version__ = "1.3.0"', "tag must be v1.3.0"),
        ("src/coreason_client/_version.py", "", "has no version"),
        ("js/package.json", '{"name": "c", "version": "1.1.0"}', "got 1.1.0"),
        ("CITATION.cff", "cff-version: 1.2.0\n", "CITATION.cff must have the version"),
        ("CITATION.cff", None, "CITATION.cff is missing"),
        ("LICENSE", None, "LICENSE is missing"),
        ("CHANGELOG.md", "## Unreleased\n\n* New.\n\n## 1.2.0\n", "must be 1.2.0, got Unreleased"),
        ("CHANGELOG.md", "## 1.2.0\n\n## 1.1.0\n\n* Old.\n", "is empty"),
        ("pyproject.toml", PYPROJECT.replace("3.10", "3.11"), "3.9, 3.11, but test.yml tests 3.9"),
        ("pyproject.toml", PYPROJECT.replace(">=3.9", ">=3.8"), "not the lowest classifier"),
        (".github/workflows/release.yml", "uses: a/c@v1\n", "release.yml: a/c must be pinned"),
        (".github/workflows/release.yml", f"uses: a/c@{SHA}\n", "a/c must be pinned"),
        (
            ".github/workflows/release.yml",
            f"uses: a/b@{SHA[::-1]} # v2\n",
            "a/b is pinned to 2 commits",
        ),
        ("CODE_OF_CONDUCT.md", None, "CODE_OF_CONDUCT.md is missing"),
        (f"dist/{SDIST}", None, "lacks coreason_client-1.2.0.tar.gz"),
        (f"dist/{COMPONENTS}", "{}", "the list of components is not that of"),
        ("dist/other.whl", "", "has other.whl, which is not published"),
    ],
)
def test_a_problem_is_named(root: Path, name: str, text: str | None, found: str) -> None:
    before = (root / name).read_bytes() if (root / name).exists() else None
    if text is None:
        (root / name).unlink()
    else:
        (root / name).write_text(text)
    problems = check_release.problems(root, "v1.2.0", root / "dist")
    assert [problem for problem in problems if found in problem], problems
    (root / name).unlink(missing_ok=True)
    if before is not None:
        (root / name).write_bytes(before)
    assert check_release.problems(root, "v1.2.0", root / "dist") == []


@each(
    ("package", "name", "text", "found"),
    [
        (WHEEL, f"{INFORMATION}/licenses/LICENSE", None, "has no LICENSE"),
        (WHEEL, f"{INFORMATION}/METADATA", None, "does not have the version 1.2.0"),
        (WHEEL, f"{INFORMATION}/METADATA", METADATA.replace("1.2.0", "1.1.0"), "the version 1.2.0"),
        (WHEEL, f"{INFORMATION}/METADATA", METADATA.replace("Project-URL", "A"), "relative links"),
        (WHEEL, f"{INFORMATION}/METADATA", METADATA + "![a](docs/b.svg)", "has relative links"),
        (SDIST, "coreason_client-1.2.0/LICENSE", None, "has no LICENSE"),
        (SDIST, "coreason_client-1.2.0/PKG-INFO", METADATA + "[a](b.md)", "has relative links"),
        (NPM, "package/LICENSE", None, "has no LICENSE"),
        (NPM, "package/package.json", '{"version": "1.1.0", "repository": 1}', "version 1.1.0"),
        (NPM, "package/package.json", '{"version": "1.2.0"}', "where its source is"),
    ],
)
def test_what_a_package_lacks_is_named(
    root: Path, package: str, name: str, text: str | None, found: str
) -> None:
    others = {key: value for key, value in DIST[package].items() if key != name}
    pack(root / "dist" / package, others if text is None else {**others, name: text})
    problems = check_release.problems(root, "v1.2.0", root / "dist")
    assert found in problems[0], problems
    assert all(problem.startswith(f"{package} ") for problem in problems)
    pack(root / "dist" / package, DIST[package])
    assert check_release.problems(root, "v1.2.0", root / "dist") == []


def test_between_releases_the_changelog_may_begin_with_unreleased(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "CHANGELOG.md").write_text("## Unreleased\n")
    assert check_release.main([], root) == 0
    (root / "CHANGELOG.md").write_text("## 1.1.0\n")
    assert check_release.main([], root) == 1
    assert "must be 1.2.0 or Unreleased, got 1.1.0" in capsys.readouterr().err
