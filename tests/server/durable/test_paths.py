"""The paths of steps."""

from uuid import UUID

import pytest

from coreason_client import ArgumentError
from coreason_client.server.durable._journal import MAX_NAME, Paths, derived_uuid


@pytest.mark.proves("DUR-1-identity")
def test_calls_of_one_name_are_numbered_in_their_step() -> None:
    paths = Paths()
    assert [paths.take("", "search", None, 1) for _ in range(2)] == ["search#1", "search#2"]
    assert paths.take("", "plan", None, 1) == "plan#1"
    assert paths.take("plan#1", "search", None, 1) == "plan#1/search#1"


@pytest.mark.proves("DUR-1-identity")
def test_calls_from_several_tasks_need_keys() -> None:
    paths = Paths()
    paths.take("", "search", None, "one task")
    with pytest.raises(RuntimeError, match=r"'search' is called in several tasks.*key="):
        paths.take("", "search", None, "another task")
    assert paths.take("", "search", "a", "another task") == "search@a"
    assert paths.take("", "search", "b", "a third task") == "search@b"
    assert paths.take("plan#1", "search", "a", "one task") == "plan#1/search@a"


def test_a_key_is_used_once() -> None:
    paths = Paths()
    paths.take("", "search", "a", 1)
    with pytest.raises(
        ArgumentError, match="key must be different in each call of the step 'search'"
    ):
        paths.take("", "search", "a", 1)


@pytest.mark.parametrize("name", ["", "a/b", "a#b", "a@b", "x" * (MAX_NAME + 1), 3, None])
def test_a_name_that_is_not_unique_in_a_path_is_refused(name: object) -> None:
    with pytest.raises(ArgumentError, match="name must be a string of 1 to 200 characters"):
        Paths().take("", name, None, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "a/b", 7])
def test_a_key_follows_the_same_rule(key: object) -> None:
    with pytest.raises(ArgumentError, match="key must be a string"):
        Paths().take("", "search", key, 1)  # type: ignore[arg-type]


def test_derived_ids_depend_on_the_stream_and_on_every_part() -> None:
    stream = UUID(int=1)
    ids = {
        derived_uuid(stream, "uuid", "a#1", 1),
        derived_uuid(stream, "uuid", "a#1", 2),
        derived_uuid(stream, "uuid", "a#2", 1),
        derived_uuid(stream, "step", "a#1", 1),
        derived_uuid(UUID(int=2), "uuid", "a#1", 1),
    }
    assert len(ids) == 5
    assert derived_uuid(stream, "uuid", "a#1", 1) in ids
