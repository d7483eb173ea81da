"""The pages of the documentation: where they are found, and their order."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from coreason_client.agents import _documentation

ROOT = Path(__file__).parents[2]


def test_the_pages_of_a_folder_are_sorted_with_the_readme_first(tmp_path: Path) -> None:
    for name in ("b.md", "README.md", "a.md", "notes.txt", "c.md.orig"):
        (tmp_path / name).write_text(f"# {name} ü", encoding="utf-8")
    found = list(_documentation._pages(tmp_path / "README.md", tmp_path))
    assert [page.path for page in found] == ["README.md", "docs/a.md", "docs/b.md"]
    assert [page.text for page in found] == ["# README.md ü", "# a.md ü", "# b.md ü"]


def test_files_that_do_not_exist_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    found = _documentation._pages(tmp_path / "README.md", tmp_path)
    assert [page.path for page in found] == ["docs/a.md"]
    assert list(_documentation._pages(tmp_path / "README.md", tmp_path / "docs")) == []


def test_a_checkout_has_every_page_but_those_that_repeat_others() -> None:
    found = [page.path for page in _documentation.load_pages()]
    assert found[0] == "README.md"
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - _documentation._FOR_THE_SITE
    assert found[1:] == sorted(f"docs/{name}" for name in names)
    assert "docs/index.md" not in found


def test_the_wheel_has_the_same_pages() -> None:
    """Not the folders of the site, which are large and which nothing in the package reads."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    forced = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    place = "coreason_client/agents/_docs"
    pages = [page.path for page in _documentation.load_pages()]
    wanted = {path: f"{place}/{Path(path).name}" for path in pages}
    assert {path: to for path, to in forced.items() if to.startswith(place)} == wanted


def test_it_works_from_an_installed_package_outside_of_a_checkout(tmp_path: Path) -> None:
    """As the wheel lays it out, and then without any documentation at all."""
    archive = tmp_path / "site.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (ROOT / "src").rglob("*.py"):
            packed.write(path, path.relative_to(ROOT / "src"))
    site = tmp_path / "site"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(site)
    docs = site / "coreason_client" / "agents" / "_docs"
    docs.mkdir()
    (docs / "README.md").write_text("# Hello\n\nwords")
    (docs / "cap.md").write_text("# Cap\n\nmore words")
    assert pages_of(site) == ["README.md", "docs/cap.md"]
    for page in docs.iterdir():
        page.unlink()
    docs.rmdir()
    assert pages_of(site) == []


def pages_of(site: Path) -> list[str]:
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from coreason_client.agents import _documentation\n"
        f"assert _documentation.__file__.startswith({str(site)!r})\n"
        "print(*(page.path for page in _documentation.load_pages()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.split()
