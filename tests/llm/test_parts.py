"""Data and types of files in messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._call import data_of, extension_of, is_text, mime_type_of, text_of


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:text/plain;base64,aGk=", ("text/plain", "aGk=")),
        ("https://a.example/b;base64,c", None),
        ("data:text/plain,hi", None),
        ("", None),
    ],
)
def test_the_data_of_a_url(url: str, data: tuple[str, str] | None) -> None:
    assert data_of(url) == data


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.pdf", "application/pdf"),
        ("A.PDF", "application/pdf"),
        ("https://a.example/b.csv?size=2#top", "text/csv"),
        ("https://a.example/b", None),
        ("a", None),
        ("", None),
    ],
)
def test_the_type_of_a_file_by_its_name(name: str, mime_type: str | None) -> None:
    assert mime_type_of(name) == mime_type


@given(st.text())
def test_any_name_has_a_type_or_none(name: str) -> None:
    found = mime_type_of(name)
    assert found is None or "/" in found


def test_the_extension_of_a_type() -> None:
    assert extension_of("data:application/pdf;base64,AAAA") == ".pdf"
    assert extension_of("data:a/b;base64,AAAA") == ""
    assert extension_of("https://a.example/b.pdf") == ""


@pytest.mark.parametrize(
    ("mime_type", "text"),
    [
        ("text/csv", True),
        ("application/json", True),
        ("application/pdf", False),
        ("image/x", False),
    ],
)
def test_which_files_are_text(mime_type: str, text: bool) -> None:
    assert is_text(mime_type) is text


@pytest.mark.parametrize(
    ("data", "text"), [("aMOk", "hä"), ("77u/aGk=", "hi"), ("/w==", None), ("a", None)]
)
def test_the_text_in_data(data: str, text: str | None) -> None:
    assert text_of(data) == text
