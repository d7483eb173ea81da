"""The code of every page runs as printed, with only the addresses changed."""

from pathlib import Path

import pytest

from .conftest import Services
from .session import Session
from .terminals import uses_terminals

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "docs").rglob("*.md")
    if path.parent.name != "migrate"  # they are run by `test_compared.py`, before and after
    and not uses_terminals(path.read_text(encoding="utf-8"))  # see `test_walkthroughs.py`
)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.timeout(180)  # a page may start several servers, on a busy machine
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, services: Services) -> None:
    Session(ROOT / page, tmp_path, services.known, services.model).run()
