"""Results of steps as JSON, and arguments as a digest."""

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client.server.durable._results import (
    MAX_RESULT_BYTES,
    ResultError,
    ResultType,
    arguments_digest,
    failure_of,
    function_name,
)


class Receipt(BaseModel):
    number: int


@dataclass
class Point:
    x: int


def receipt() -> Receipt: ...  # type: ignore[empty-body]
async def points() -> list[Point]: ...  # type: ignore[empty-body]
def moment() -> datetime: ...  # type: ignore[empty-body]
def pair() -> tuple[int, str]: ...  # type: ignore[empty-body]
def nothing() -> None: ...
def anything(): ...  # type: ignore[no-untyped-def]
def unknown() -> "NotDefined": ...  # type: ignore[name-defined]  # noqa: F821


def any_arguments(*args: object, **kwargs: object) -> None: ...


class Callee:
    def __call__(self) -> Receipt: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (receipt, Receipt(number=3)),
        (partial(receipt), Receipt(number=3)),
        (Callee(), Receipt(number=3)),
        (points, [Point(1), Point(2)]),
        (moment, datetime(2026, 1, 2, tzinfo=UTC)),
        (pair, (1, "a")),
        (nothing, None),
        (anything, {"a": [1, None, "x", 2.5, True]}),
        (unknown, ["a"]),
        (lambda: 1, 7),
    ],
)
def test_a_result_comes_back_as_it_was(function: Any, result: object) -> None:
    kind = ResultType("step#1", function)
    assert kind.parse(kind.dump(result)) == result


def test_without_an_annotation_a_result_becomes_json() -> None:
    kind = ResultType("step#1", anything)
    assert kind.parse(kind.dump((1, 2))) == [1, 2]


@pytest.mark.parametrize("result", [object(), lambda: 1, {1: object()}, "\ud800"])
def test_a_result_that_is_not_json_is_refused(result: object) -> None:
    with pytest.raises(ResultError, match="the result of the step step#1 must be JSON"):
        ResultType("step#1", anything).dump(result)


@pytest.mark.parametrize("result", ["text", 3, None])
def test_a_result_that_does_not_fit_the_annotation_is_refused(result: object) -> None:
    kind = ResultType("step#1", receipt)
    with pytest.raises(ResultError, match="fit the return annotation"):
        kind.parse(kind.dump(result))


def test_a_stored_result_must_fit_the_annotation_of_today() -> None:
    with pytest.raises(ResultError, match="does not fit the return annotation"):
        ResultType("step#1", receipt).parse(b'{"total": 3}')


def test_a_result_has_a_limit() -> None:
    kind = ResultType("step#1", anything)
    assert len(kind.dump("x" * (MAX_RESULT_BYTES - 2))) == MAX_RESULT_BYTES
    with pytest.raises(ResultError, match=f"may have {MAX_RESULT_BYTES} bytes of JSON"):
        kind.dump("x" * (MAX_RESULT_BYTES - 1))


def test_the_journal_keeps_the_beginning_of_a_message_of_an_error() -> None:
    assert failure_of(ValueError("x" * 2000)) == {"type": "ValueError", "message": "x" * 2000}
    assert failure_of(ValueError("x" * 2000 + "y"))["message"] == "x" * 2000


def test_the_digest_depends_on_the_arguments() -> None:
    given: list[list[Any]] = [
        [],
        [1],
        ["1"],
        [[1]],
        [1, 2],
        [{"a": 1}],
        [Receipt(number=1)],
        [Receipt(number=2)],
    ]
    digests = [arguments_digest(receipt, arguments) for arguments in given]
    assert len(set(digests)) == len(given)
    digests += [arguments_digest(partial(any_arguments, a), []) for a in (1, 2)]
    digests += [arguments_digest(partial(any_arguments, a=a), []) for a in (1, 2)]
    assert len(set(digests)) == len(given) + 4
    assert arguments_digest(partial(any_arguments, b=1, a=2), []) == arguments_digest(
        partial(any_arguments, a=2, b=1), []
    )


def test_of_an_object_that_is_not_json_only_the_type_counts() -> None:
    class Client:
        pass

    assert arguments_digest(receipt, [Client()]) == arguments_digest(receipt, [Client()])
    assert arguments_digest(receipt, [Client()]) != arguments_digest(receipt, [object()])
    assert arguments_digest(receipt, [receipt]) != arguments_digest(receipt, [points])


def test_the_name_of_a_function_is_that_of_the_function_inside() -> None:
    assert function_name(receipt) == function_name(partial(partial(receipt))) == "receipt"
    assert function_name(Callee()) == "Callee"


class Box:
    def __init__(self) -> None:
        self.names = {"a"}


@pytest.mark.parametrize(
    "argument",
    [b"\xff\x00", "file \udc80", {b"\xff": 1}, {"a": [b"\xff"]}, [{1, "a"}], Box()],
    ids=["bytes", "surrogate", "key", "inside", "set", "object"],
)
def test_any_argument_has_a_digest(argument: object) -> None:
    digest = arguments_digest(len, [argument])
    assert digest == arguments_digest(len, [argument])
    assert digest != arguments_digest(len, [[argument]])


def test_the_digest_of_bytes_depends_on_them() -> None:
    assert arguments_digest(len, [b"\xff"]) != arguments_digest(len, [b"\xfe"])


def test_the_digest_of_an_iterator_does_not_use_it_up() -> None:
    for iterator in (iter([1]), (n for n in [1]), map(int, "1")):
        arguments_digest(len, [[iterator]])
        assert list(iterator) == [1]


def test_the_digest_of_a_set_is_the_same_in_every_process() -> None:
    code = (
        "from coreason_client.server.durable._results import arguments_digest\n"
        "for kind in (set, frozenset):\n"
        "    print(arguments_digest(len, [[kind(['a', 'b', 'c', 'd', 'e'])]]))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(digests) == 1
