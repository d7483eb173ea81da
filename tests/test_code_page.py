"""Every file that the page about the code or a table of CONTRIBUTING names exists."""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "coreason_client"
PAGE = (ROOT / "docs" / "how-the-code-works.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

FILE = re.compile(r"(?<![\w/.-])[\w/.-]+\.py\b")
QUOTED_PATH = re.compile(r"`([\w.-]*(?:/[\w.-]*)+)`")


def paths(text: str) -> set[str]:
    """Return the Python files in a text, in diagrams too, and every quoted path with a slash."""
    return {*FILE.findall(text), *QUOTED_PATH.findall(text)}


def missing(names: Iterable[str]) -> list[str]:
    """Return the names that exist neither in the package nor in `src` nor in the project."""
    roots = (PACKAGE, ROOT / "src", ROOT)
    return sorted(name for name in names if not any((root / name).exists() for root in roots))


def table_rows(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def packages() -> set[str]:
    """Return the packages below `coreason_client`, as CONTRIBUTING names them."""
    found = PACKAGE.rglob("__init__.py")
    return {str(file.parent.relative_to(PACKAGE)) for file in found} - {"."}


def test_a_name_without_a_file_is_noticed() -> None:
    text = "a diagram -> cap/_resume.py -> cap/_no_such_file.py, and `server/log/` and `no/such/`"
    assert paths(text) == {"cap/_resume.py", "cap/_no_such_file.py", "server/log/", "no/such/"}
    assert missing(paths(text)) == ["cap/_no_such_file.py", "no/such/"]
    assert missing(["_redirect.py"]), "a file needs its package in front"


def test_every_file_on_the_page_exists() -> None:
    assert len(paths(PAGE)) > 40
    assert not missing(paths(PAGE))


def test_every_file_in_the_tables_of_contributing_exists() -> None:
    names = paths(table_rows(CONTRIBUTING))
    assert len(names) > 30
    assert not missing(names)


def test_every_package_has_a_row_in_contributing() -> None:
    rows = table_rows(CONTRIBUTING)
    assert not {name for name in packages() if f"| `{name}` |" not in rows}
