"""Every relative link of the documents leads to a file, and to a heading if it names one."""

import re
from pathlib import Path

import pytest

from coreason_client.agents._documentation import DocumentPage, split_page

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
    *sorted(path.name for path in ROOT.glob("*.md")),
    "bench/README.md",
]
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)")


def headings(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    sections = split_page(DocumentPage(path.name, text))
    # The site has an anchor for each entry of the reference too.
    return {*(section.uri.partition("#")[2] for section in sections), *ENTRY.findall(text)}


def broken(text: str, page: Path) -> list[str]:
    """Return the links in the text of a page that lead nowhere."""
    found = []
    for file, heading in LINK.findall(text):
        target = page.parent / file if file else page
        if not target.exists() or (heading and heading not in headings(target)):
            found.append(f"{file}#{heading}" if heading else file)
    return found


def test_a_broken_link_is_noticed() -> None:
    text = "[a](decisions.md) [b](no.md) [c](server.md#keys) [d](server.md#no) [e](#no)"
    assert broken(text, ROOT / "docs" / "server.md") == ["no.md", "server.md#no", "#no"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    assert not broken(page.read_text(encoding="utf-8"), page)
