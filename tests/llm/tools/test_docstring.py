"""Descriptions in docstrings."""

import pytest

from coreason_client.llm.tools._function_schema import read_docstring


@pytest.mark.parametrize("docstring", [None, "", "   \n  "])
def test_no_docstring(docstring: str | None) -> None:
    assert read_docstring(docstring) == ("", {})


def test_the_text_before_the_sections_is_the_description() -> None:
    text = """Return the weather.

        It may be wrong.

        Returns:
            the weather: as text.
        """
    assert read_docstring(text) == ("Return the weather.\n\nIt may be wrong.", {})


def test_parameters() -> None:
    text = """Return the weather.

    Args:
        city: the name of the city,
            such as Rome: in English.
        days (int, optional): how many days.

            At most 7.
        **more: ignored.

    Raises:
        ValueError: never.
    """
    assert read_docstring(text).parameters == {
        "city": "the name of the city, such as Rome: in English.",
        "days": "how many days. At most 7.",
        "more": "ignored.",
    }


def test_text_after_the_section_is_not_part_of_it() -> None:
    text = "Do it.\n\nArgs:\n  a: one\nand more\n  b: two"
    assert read_docstring(text).parameters == {"a": "one"}


def test_a_line_before_the_first_parameter_is_ignored() -> None:
    assert read_docstring(
        "Do.\n\nArgs:\n    these ones\n    a: one\nReturns:\n    b: c"
    ).parameters == {"a": "one"}
