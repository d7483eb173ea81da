"""Pages become sections with the addresses that a reader would open."""

from coreason_client.agents._documentation import DocumentPage, plain, split_page

TEXT = """\
# The page

Introduction with a [link](other.md).

## `POST /assist`

### Empty above

First paragraph.

```
# not a heading

still code
```

| a | b |
|---|---|

## Again

one

## Again

two
"""


def test_headings_split_a_page_and_code_does_not() -> None:
    sections = split_page(DocumentPage("docs/x.md", TEXT))
    assert [(section.title, section.uri) for section in sections] == [
        ("The page", "docs/x.md#the-page"),
        ("Empty above", "docs/x.md#empty-above"),
        ("Again", "docs/x.md#again"),
        ("Again", "docs/x.md#again-1"),
    ]
    assert sections[0].full_title == "The page"
    assert sections[1].full_title == "The page: Empty above"
    assert sections[1].paragraphs == [
        "First paragraph.",
        "```\n# not a heading\n\nstill code\n```",
        "| a | b |\n|---|---|",
    ]


def test_a_summary_is_prose_without_marks() -> None:
    first, *_ = split_page(DocumentPage("docs/x.md", TEXT))
    assert first.summary == "Introduction with a link."
    [table] = split_page(DocumentPage("docs/y.md", "# Table\n\n| a |\n|---|"))
    assert table.summary == "Table"
    assert plain("**`x`** and [y](z)") == "x and y"


def test_a_list_of_links_is_told_apart() -> None:
    links, words = split_page(
        DocumentPage("x", "# A\n\n* [a](b): c\n* [d](e)\n\n# B\n\n* a [b](c)")
    )
    assert links.is_links
    assert not words.is_links


def test_a_page_without_headings_is_one_section() -> None:
    [section] = split_page(DocumentPage("notes.md", "only words"))
    assert (section.title, section.text) == ("notes.md", "only words")
    assert split_page(DocumentPage("empty.md", "")) == []


def test_pictures_are_not_part_of_the_text() -> None:
    text = "# A\n\nwords\n\n![a view](images/a.png)\n\n```\n![code](b)\n```\n"
    [section] = split_page(DocumentPage("docs/a.md", text))
    assert section.paragraphs == ["words", "```\n![code](b)\n```"]
