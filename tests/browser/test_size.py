"""The files of the page are small, and none of them needs another origin."""

import gzip
import re
from pathlib import Path

import pytest

from . import tools

FILES = sorted(path for path in tools.STATIC.iterdir() if path.suffix in {".css", ".html", ".js"})


def compressed(*paths: Path) -> int:
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths)


@pytest.mark.proves("JS-size")
def test_the_client_is_small() -> None:
    assert compressed(tools.CLIENT) <= 13 * 1024


def test_the_page_with_the_client_is_small() -> None:
    assert compressed(tools.CLIENT, *FILES) <= 62_000


@pytest.mark.proves("PAGE-policy")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_obeys_the_policy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "innerHTML" not in text
    assert "insertAdjacentHTML" not in text
    assert not re.search(r"\b(?:eval|Function)\(", text)
    assert not re.search(r"""(?:src|href|url|import|from|fetch)\s*[=(]?\s*["'(]*https?://""", text)
    assert not re.search(r"<[a-z]+[^>]*\s(?:style|on[a-z]+)=", text)
