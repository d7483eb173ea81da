"""An artifact so far, and the comparison of a repetition with it."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.a2a import Artifact, Part
from coreason_client.a2a._artifacts import PartialArtifact, ReplayMatch, compact

DATA, FILE = Part(data={"a": 1}), Part(url="https://files.example/x")


def texts(*pieces: str) -> list[Part]:
    return [Part(text=piece) for piece in pieces]


def match(*delivered: Part) -> ReplayMatch:
    return ReplayMatch(compact(delivered))


def partial(*parts: Part, **fields: Any) -> PartialArtifact:
    return PartialArtifact(Artifact(artifact_id="a", parts=list(parts), **fields))


def joined(parts: list[Part]) -> str:
    return "".join(part.text or "" for part in parts)


# Compact parts


def test_only_a_part_that_is_nothing_but_text_becomes_a_string() -> None:
    rich = Part(text="b", media_type="text/markdown")
    assert compact([Part(text="a"), rich, DATA, Part(text="")]) == ["a", rich, DATA, ""]


def test_an_artifact_keeps_its_parts_through_the_compact_form() -> None:
    parts = [Part(text="a"), Part(text="b", metadata={"k": 1}), DATA, Part(text="c")]
    kept = partial(*parts, name="n")
    assert kept.as_artifact() == Artifact(artifact_id="a", name="n", parts=parts)
    assert kept.text == "abc"


# A repetition


@pytest.mark.parametrize(
    ("delivered", "repeated", "new"),
    [
        (texts("abc"), texts("abc"), []),
        (texts("abc"), texts("a", "bc"), []),  # the division of text has no meaning
        (texts("ab", "c"), texts("abcd"), texts("d")),
        (texts("abc"), texts("ab"), []),  # not yet caught up
        ([], texts("a"), texts("a")),
        (texts("", ""), texts("a"), texts("a")),
        (texts("a"), [*texts("a"), DATA], [DATA]),
        ([DATA], [DATA], []),
        ([DATA], [DATA, FILE], [FILE]),
        ([*texts("a"), DATA, *texts("b")], [*texts("a"), DATA, *texts("bc")], texts("c")),
        ([*texts("a"), DATA], [*texts("", "a", ""), DATA], []),
        ([Part(text="ab", media_type="text/markdown")], texts("a", "bc"), texts("c")),
    ],
)
def test_the_rest_after_a_repetition_is_new(
    delivered: list[Part], repeated: list[Part], new: list[Part]
) -> None:
    compared = match(*delivered)
    assert compared.skip_known(repeated) == new
    assert not compared.contradicts
    assert compared.received == repeated


@pytest.mark.parametrize(
    ("delivered", "repeated"),
    [
        (texts("abc"), texts("abx")),
        (texts("abc"), texts("x")),
        (texts("abc"), texts("bc")),
        (texts("ab"), [DATA]),
        ([DATA], texts("ab")),
        ([DATA], [FILE]),
        ([*texts("a"), DATA], texts("ab")),  # a part is missing between the texts
        ([DATA], [Part(data={"a": 2}), FILE]),
    ],
)
def test_a_repetition_that_differs_contradicts_and_has_nothing_new(
    delivered: list[Part], repeated: list[Part]
) -> None:
    compared = match(*delivered)
    assert compared.skip_known(repeated) == []
    assert compared.contradicts


def test_new_text_keeps_the_other_fields_of_its_part() -> None:
    part = Part(text="abc", media_type="text/markdown", metadata={"k": 1})
    assert match(*texts("ab")).skip_known([part]) == [part.model_copy(update={"text": "c"})]


def test_a_repetition_catches_up_over_several_updates() -> None:
    compared = match(*texts("abcd"))
    assert compared.skip_known(texts("ab")) == []
    assert not compared.caught_up
    assert compared.skip_known(texts("cd")) == []
    assert compared.caught_up
    assert compared.skip_known([*texts("e"), DATA]) == [*texts("e"), DATA]
    assert joined(compared.received) == "abcde"


def test_nothing_delivered_is_caught_up_at_once() -> None:
    assert match().caught_up
    assert match(*texts("")).caught_up
    assert not match(DATA).caught_up


# Details


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({}, {"name": "n", "description": "d", "extensions": ["x"], "metadata": {"k": 1}}),
        ({"name": "", "extensions": [], "metadata": {}}, {"name": "n", "extensions": ["x"]}),
        ({"name": "new"}, {"name": "new", "description": "d"}),
        ({"description": "new"}, {"name": "n", "description": "new"}),
        ({"extensions": ["y"]}, {"extensions": ["y"]}),
        ({"metadata": {"l": 2}}, {"metadata": {"k": 1, "l": 2}}),
        ({"metadata": {"k": 3}}, {"metadata": {"k": 3}}),
    ],
)
def test_details_are_replaced_and_metadata_is_merged(
    update: dict[str, Any], expected: dict[str, Any]
) -> None:
    kept = partial(*texts("a"), name="n", description="d", extensions=["x"], metadata={"k": 1})
    kept.update_details(Artifact(artifact_id="a", parts=texts("ignored"), **update))
    found = kept.as_artifact()
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.parts == texts("a")


def test_details_that_are_not_new_leave_the_same_object() -> None:
    kept = partial(name="n", metadata={"k": 1})
    before = kept.artifact
    kept.update_details(Artifact(artifact_id="a", name="n", metadata={"k": 1}))
    assert kept.artifact is before


def test_an_artifact_lacks_what_a_longer_one_has() -> None:
    kept = partial(*texts("ab"), DATA)
    assert kept.lacks([*texts("ab"), DATA, FILE])
    assert not kept.lacks([*texts("a", "b"), DATA])
    assert not kept.lacks(texts("a"))
    assert not kept.lacks(texts("x"))  # a contradiction is not more


def cut(text: str, places: list[int]) -> list[Part]:
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return texts(*(text[start:end] for start, end in pairwise(edges)))


places = st.lists(st.integers(0, 8), max_size=3)


@settings(max_examples=60)
@given(st.text("ab", max_size=8), st.text("ab", max_size=8), places, places)
def test_text_is_new_from_the_first_character_that_was_not_delivered(
    delivered: str, repeated: str, first: list[int], second: list[int]
) -> None:
    compared = match(*cut(delivered, first))
    new = compared.skip_known(cut(repeated, second))
    shared = min(len(delivered), len(repeated))
    assert compared.contradicts is (delivered[:shared] != repeated[:shared])
    assert joined(new) == ("" if compared.contradicts else repeated[shared:])
