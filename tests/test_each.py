"""A test with `each` runs with all values and names those that fail."""

import inspect

import pytest

from tests.each import each


def test_all_values_are_used_with_the_fixtures() -> None:
    seen: list[tuple[int, str]] = []

    @each("number", [1, 2, 3])
    def test(number: int, fixture: str) -> None:
        seen.append((number, fixture))

    assert list(inspect.signature(test).parameters) == ["fixture"]
    test(fixture="x")
    assert seen == [(1, "x"), (2, "x"), (3, "x")]


def test_two_of_them_give_all_pairs() -> None:
    seen: list[tuple[int, str]] = []

    @each("number", [1, 2])
    @each("letter", "ab")
    def test(number: int, letter: str) -> None:
        seen.append((number, letter))

    test()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_several_names_take_rows() -> None:
    seen: list[tuple[int, str]] = []

    @each(("number", "letter"), [(1, "a"), (2, "b")])
    def test(letter: str, number: int) -> None:
        seen.append((number, letter))

    test()
    assert seen == [(1, "a"), (2, "b")]


def test_every_value_that_fails_is_named() -> None:
    seen: list[int] = []

    @each("number", range(4), lambda number: f"number {number}")
    def test(number: int) -> None:
        seen.append(number)
        assert number != 1
        if number == 3:
            raise KeyError(number)

    with pytest.raises(AssertionError) as caught:
        test()
    assert seen == [0, 1, 2, 3]
    assert caught.value.__notes__ == [
        "It fails with 2 of 4 values of number:",
        "  number 1: AssertionError",
        "  number 3: KeyError",
    ]


def test_marks_are_kept() -> None:
    @each("number", [1])
    @pytest.mark.timeout(5)
    def test(number: int) -> None: ...

    assert [mark.name for mark in test.pytestmark] == ["timeout"]  # type: ignore[attr-defined]


def test_nothing_to_do_is_an_error() -> None:
    with pytest.raises(AssertionError, match="without cases"):
        each("number", [])
    with pytest.raises(AssertionError, match="marks"):
        each("number", [pytest.param(1)])

    def test() -> None: ...

    with pytest.raises(AssertionError, match="does not take number"):
        each("number", [1])(test)
