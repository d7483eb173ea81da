"""The texts for programs: the index, the sentence of a page, and the entries of the reference."""

import pytest

from scripts.site_texts import NavPage, full_text, llms_index, nav_pages, page_markdown, summary
from tests.each import each

NAV = [{"Start": [{"Home": "index.md"}, {"More": [{"Deep": "a/b.md"}]}]}, {"Last": "z.md"}]
PAGES = [
    NavPage("Start", "Home", "index.md"),
    NavPage("Start: More", "Deep", "a/b.md"),
    NavPage("", "Last", "z.md"),
]


def test_the_pages_of_the_navigation_are_in_order() -> None:
    assert [*nav_pages(NAV)] == PAGES


@each(
    ("text", "sentence"),
    [
        ("# A\n\nOne\nline. Two.\n", "One line."),
        ("# A\n\n![x](y.svg)\n\n<!-- not run: no -->\n```sh\nls -l.\n\nx\n```\n\nB.\n", "B."),
        ("# A\n\n| a |\n|---|\n\n[Link](b.md) to `x.y` here.", "Link to `x.y` here."),
        ("# A\n\n* one.\n\nUntil the end", "Until the end"),
        ("# A\n\n::: b.c\n", ""),
        ('<div class="a" markdown>\n\n# A\n\nB.\n', "B."),
    ],
)
def test_the_first_sentence_says_what_a_page_is_about(text: str, sentence: str) -> None:
    assert summary(text) == sentence


def test_the_index_has_a_line_for_each_page() -> None:
    index = llms_index("Name", "About.", [(page, f"# X\n\n{page.title}.") for page in PAGES])
    assert index == (
        "# Name\n\n> About.\n\n## Start\n\n- [Home](index.md): Home.\n\n"
        "## Start: More\n\n- [Deep](a/b.md): Deep.\n\n## More\n\n- [Last](z.md): Last.\n"
    )
    assert full_text([(PAGES[0], "# A\n"), (PAGES[2], "# B")]) == (
        "<!-- index.md -->\n\n# A\n\n<!-- z.md -->\n\n# B\n"
    )


def test_entries_of_the_reference_become_signatures_and_docstrings() -> None:
    page = (
        "---\nhide: [toc]\n---\n# A\n\n<!-- model says: x -->\n"
        "::: coreason_client.Bookmark\n    options: {a: 1}\n\nEnd.\n"
    )
    text = page_markdown(page)
    assert text.startswith("# A\n\n### `coreason_client.Bookmark`\n\n```python\nBookmark(")
    assert "#### `to_json`\n\n```python\nto_json(self" in text
    assert text.endswith("\n\nEnd.\n")
    assert "options:" not in text
    function = page_markdown("::: coreason_client.server.create_ticket\n")
    assert "create_ticket(secret" in function
    constant = page_markdown("::: coreason_client.__version__\n\n::: coreason_client.sse\n")
    assert constant.startswith("### `coreason_client.__version__`\n\n### `coreason_client.sse`")


@each("name", ["coreason_client.NoSuchName", "no_such_package.Name"])
def test_an_entry_must_exist(name: str) -> None:
    with pytest.raises((AttributeError, ImportError)):
        page_markdown(f"::: {name}\n")
