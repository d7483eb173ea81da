"""The additions of the Griffe extension to the reference, on a package that is never imported."""

from pathlib import Path
from typing import Any

import griffe
import pytest

from tests.each import each

EXTENSION = Path(__file__).parents[2] / "scripts" / "griffe_reference.py"
PACKAGE = '''
"""A package."""
from enum import StrEnum
from typing import Annotated, NotRequired, TypeAlias, TypedDict, Unpack
from dataclasses import dataclass
from pydantic import BaseModel, Field

from .llm.types import CallOptions

__all__ = ["Event", "FooError", "Name", "Stage", "Usage", "WordStream", "call"]

LIMIT = 3
Text = Annotated[str, "checked"]
Key: TypeAlias = str | bytes
Event: TypeAlias = int | str


class CoreasonError(Exception):
    """Any error."""


class FooError(CoreasonError):
    """Foo.

    Attributes:
        code: the code.
    """

    def __init__(self, code: int) -> None:
        self.code = code


class _Progress:
    @property
    def text(self) -> str:
        """The text so far."""


class WordStream(_Progress):
    """A stream."""

    def __init__(self, machine: object) -> None: ...


class Name(BaseModel):
    """A name."""

    first: Text
    last: Text | None = None
    others: list[str] = Field(default_factory=list)
    titles: list[str] | None = Field(None, fail_fast=True)
    number: int = Field(ge=0)


class Stage(StrEnum):
    """A stage."""

    BEGIN = "begin"


class Usage(TypedDict):
    """Tokens.

    Attributes:
        tokens: the number of tokens.
    """

    tokens: int
    cached: NotRequired[int]


def call(key: Key, event: Event, limit: int = LIMIT, _internal: bool = False,
         **options: Unpack[CallOptions]) -> Text:
    """Call.

    Args:
        key: the key.
        event: the event.
        limit: the limit.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.
    """
'''
OPTIONS = '''
from typing import TypedDict


class CallOptions(TypedDict, total=False):
    """Options.

    Attributes:
        stop: where the answer ends.
    """

    stop: str
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("src")
    for path, code in {"": PACKAGE, "llm": "", "llm/types.py": OPTIONS}.items():
        file = folder / "coreason_client" / path
        file = file if file.suffix else file / "__init__.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return griffe.load(
        "coreason_client",
        search_paths=[folder],
        extensions=griffe.load_extensions(str(EXTENSION)),
        docstring_parser="google",
    )


def listed(found: Any, kind: str) -> dict[str, tuple[str, str]]:
    """Return the items of a section: their types and descriptions by name."""
    sections = [each for each in found.docstring.parsed if each.kind.value == kind]
    items = sections[0].value if sections else []
    return {item.name: (str(item.annotation), item.description) for item in items}


@each(
    ("name", "fields"),
    [
        (
            "Name",
            {
                "first": ("str", "required"),
                "last": ("str | None", "by default `None`"),
                "others": ("list[str]", "empty by default"),
                "titles": ("list[str] | None", "by default `None`"),
                "number": ("int", "required"),
            },
        ),
        ("Stage", {"BEGIN": ("None", "`'begin'`")}),
        (
            "Usage",
            {"tokens": ("int", "the number of tokens."), "cached": ("int", "may be absent")},
        ),
    ],
)
def test_fields_are_listed_with_type_and_default(
    package: Any, name: str, fields: dict[str, tuple[str, str]]
) -> None:
    assert listed(package[name], "attributes") == fields


def test_types_and_constants_are_shown_as_what_they_stand_for(package: Any) -> None:
    call = package["call"]
    shown = {each.name: str(each.annotation) for each in call.parameters}
    assert shown == {
        "key": "str | bytes",
        "event": "Event",  # a public name has an entry
        "limit": "int",
        "options": "Unpack[CallOptions]",
    }
    assert (str(call.parameters["limit"].default), str(call.returns)) == ("3", "str")


def test_options_are_listed_instead_of_the_name_of_their_class(package: Any) -> None:
    found = listed(package["call"], "parameters")
    assert [*found] == ["key", "event", "limit", "stop"]
    assert found["stop"] == ("str", "where the answer ends.")


def test_users_do_not_see_how_errors_and_streams_are_made(package: Any) -> None:
    assert "__init__" not in package["FooError"].all_members
    assert "__init__" not in package["WordStream"].all_members


def test_members_of_a_private_base_belong_to_the_class(package: Any) -> None:
    assert "text" in package["WordStream"].members
    assert "text" not in package["FooError"].members
