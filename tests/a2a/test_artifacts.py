"""The artifacts of a task: what of an update is new, and what leaves a gap."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from coreason_client.a2a._artifacts import Gap, KnownArtifacts, PartialArtifact
from coreason_client.a2a.types import Event

UPDATE = TaskArtifactUpdateEvent


def known(*, attached: bool = False) -> KnownArtifacts:
    return KnownArtifacts([], attached=attached)


def artifact(*texts: str, name: str = "a") -> Artifact:
    return Artifact(artifact_id=name, parts=[Part(text=text) for text in texts])


def update(
    *texts: str, append: bool = True, name: str = "a", last: bool = False
) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(
        task_id="t", artifact=artifact(*texts, name=name), append=append, last_chunk=last
    )


def task(*artifacts: Artifact) -> Task:
    return Task(id="t", artifacts=list(artifacts))


def text_of(news: Iterable[Event]) -> str:
    return "".join(event.text for event in news if isinstance(event, TaskArtifactUpdateEvent))


def text_so_far(artifacts: KnownArtifacts) -> list[str]:
    return ["".join(part.text or "" for part in item.parts) for item in artifacts.as_artifacts()]


def test_on_the_first_connection_every_update_is_new() -> None:
    artifacts = known()
    updates = [update("a", append=False), update("b"), update("x", append=False)]
    assert [artifacts.apply(event) for event in updates] == [(event,) for event in updates]
    assert text_so_far(artifacts) == ["x"]  # written anew


def test_a_last_chunk_that_repeats_the_artifact_adds_nothing() -> None:
    artifacts = known()
    artifacts.apply(update("He", append=False))
    artifacts.apply(update("llo"))
    repeated = update("Hello", append=False, last=True)
    assert artifacts.apply(repeated) == (update("", last=True),)
    assert text_so_far(artifacts) == ["Hello"]
    assert artifacts.complete_ids == {"a"}


def test_a_last_chunk_that_replaces_the_artifact_is_passed_on() -> None:
    artifacts = known()
    artifacts.apply(update("Hello", append=False))
    replaced = update("Bye", append=False, last=True)
    assert artifacts.apply(replaced) == (replaced,)
    assert text_so_far(artifacts) == ["Bye"]


def test_the_last_chunk_completes_an_artifact() -> None:
    artifacts = known()
    artifacts.apply(update("a"))
    assert artifacts.complete_ids == set()
    artifacts.apply(update("b", last=True))
    assert artifacts.complete_ids == {"a"}


def test_artifacts_are_added_to_the_content_in_their_order() -> None:
    content: list[PartialArtifact | Message] = []
    artifacts = KnownArtifacts(content, attached=False)
    for name in ("b", "a", "b"):
        artifacts.apply(update("x", name=name))
    assert len(content) == 2
    assert [item.artifact_id for item in artifacts.as_artifacts()] == ["b", "a"]


@pytest.mark.parametrize("append", [True, False])
def test_after_a_loss_an_unknown_artifact_is_a_gap_until_a_snapshot_had_all(append: bool) -> None:
    artifacts = known()
    artifacts.apply(update("a"))
    artifacts.reconnect(may_repeat=True)
    assert not artifacts.gapless
    with pytest.raises(Gap):
        artifacts.apply(update("x", append=append, name="new"))
    artifacts.compare(task(artifact("a")))
    assert artifacts.gapless
    if append:
        with pytest.raises(Gap):
            artifacts.apply(update("x", name="new"))
    else:
        assert text_of(artifacts.apply(update("x", append=False, name="new"))) == "x"


def test_after_a_loss_more_of_an_artifact_needs_its_beginning() -> None:
    artifacts = known()
    artifacts.apply(update("ab"))
    artifacts.reconnect(may_repeat=True)
    with pytest.raises(Gap):
        artifacts.apply(update("c"))
    assert text_of(artifacts.apply_snapshot(task(artifact("abc")))) == "c"
    assert text_of(artifacts.apply(update("d"))) == "d"
    assert text_so_far(artifacts) == ["abcd"]


def test_a_snapshot_without_a_known_artifact_has_a_gap() -> None:
    artifacts = known()
    artifacts.apply(update("x"))
    artifacts.reconnect(may_repeat=True)
    artifacts.compare(task())
    assert not artifacts.gapless


def test_a_snapshot_that_contradicts_is_a_rewrite() -> None:
    artifacts = known()
    artifacts.apply(update("abc"))
    artifacts.reconnect(may_repeat=True)
    (event,) = artifacts.apply_snapshot(task(artifact("xyz")))
    assert isinstance(event, TaskArtifactUpdateEvent)
    assert (event.text, event.append) == ("xyz", False)
    assert text_so_far(artifacts) == ["xyz"]


def test_a_repetition_that_contradicts_later_is_a_gap() -> None:
    artifacts = known()
    artifacts.apply(update("abc"))
    artifacts.reconnect(may_repeat=True)
    assert artifacts.apply(update("ab", append=False)) == ()
    with pytest.raises(Gap):
        artifacts.apply(update("x"))


def test_a_stream_that_attaches_may_have_missed_the_beginning() -> None:
    artifacts = known(attached=True)
    assert not artifacts.gapless
    artifacts.gapless = True  # as the first snapshot makes it
    with pytest.raises(Gap):
        artifacts.apply(update("x"))
    assert text_of(artifacts.apply(update("x", append=False))) == "x"


def test_a_connection_that_continues_brings_only_new_updates() -> None:
    artifacts = known()
    artifacts.apply(update("abc"))
    artifacts.reconnect(may_repeat=True)
    artifacts.resume()
    assert (artifacts.gapless, artifacts.may_repeat) == (True, False)
    updates = [update("d"), update("a", append=False), update("x", append=False, name="new")]
    assert [artifacts.apply(event) for event in updates] == [(event,) for event in updates]
    assert text_so_far(artifacts) == ["a", "x"]


@pytest.mark.parametrize(
    ("text", "newer", "expected"),
    [
        ("ab", False, None),  # it lags behind
        ("ab", True, ("ab", False)),
        ("", True, ("", False)),
        ("abcd", True, ("d", True)),
        ("abc", True, None),
    ],
)
def test_an_artifact_of_a_newer_snapshot_may_be_shorter(
    text: str, newer: bool, expected: tuple[str, bool] | None
) -> None:
    artifacts = known()
    artifacts.apply(update("abc"))
    artifacts.reconnect(may_repeat=True)
    found = artifacts.apply_snapshot(task(artifact(text)), newer=newer)
    texts = [(event.text, event.append) for event in found if isinstance(event, UPDATE)]
    assert texts == ([] if expected is None else [expected])
    assert text_so_far(artifacts) == [text if newer else "abc"]


@pytest.mark.parametrize(
    ("event", "is_new"),
    [
        (update("", last=True), False),
        (update("", ""), False),
        (update("x"), True),
        (update("", name="b", last=True), True),  # completes it
    ],
)
def test_an_update_that_changes_nothing_is_not_repeated_after_a_loss(
    event: TaskArtifactUpdateEvent, is_new: bool
) -> None:
    artifacts = known()
    for name in ("a", "b"):
        artifacts.apply(update("1", append=False, name=name, last=name == "a"))
    artifacts.reconnect(may_repeat=True)
    artifacts.apply_snapshot(task(artifact("1"), artifact("1", name="b")))
    assert bool(artifacts.apply(event)) is is_new
    assert artifacts.apply(event) == () or event.text  # once


def test_new_details_are_a_change() -> None:
    artifacts = known()
    artifacts.apply(update("1", append=False))
    artifacts.reconnect(may_repeat=True)
    artifacts.apply_snapshot(task(artifact("1")))
    details = artifact("").model_copy(update={"name": "report"})
    named = update("").model_copy(update={"artifact": details})
    assert artifacts.apply(named) == (named,)
    assert artifacts.as_artifacts()[0].name == "report"
    assert artifacts.apply(named) == ()


@pytest.mark.parametrize("state", list(TaskState))
def test_an_end_after_a_gap_is_not_believed(state: TaskState) -> None:
    artifacts = known()
    status = TaskStatus(state=state)
    artifacts.check_end(status)
    artifacts.reconnect(may_repeat=True)
    if status.is_terminal or status.is_interrupted:
        with pytest.raises(Gap):
            artifacts.check_end(status)
    else:
        artifacts.check_end(status)


@pytest.mark.parametrize(
    ("found", "agrees"),
    [
        ([], True),  # a snapshot may leave them out
        ([artifact("a", "b")], True),
        ([artifact("ab", "")], True),
        ([artifact("a")], False),
        ([artifact("abc")], False),
        ([artifact("ax")], False),
        ([artifact("ab"), artifact("", name="new")], False),
    ],
)
def test_whether_a_task_has_the_same_content(found: list[Artifact], agrees: bool) -> None:
    artifacts = known()
    artifacts.apply(update("ab"))
    assert artifacts.agree_with(task(*found)) is agrees


@pytest.mark.parametrize(
    ("found", "behind"),
    [
        ([], False),
        ([artifact("ab")], False),
        ([artifact("a")], False),
        ([artifact("a", "bc")], True),
        ([artifact("x", name="new")], True),
        ([artifact(name="new")], False),
    ],
)
def test_whether_a_task_has_more(found: list[Artifact], behind: bool) -> None:
    artifacts = known()
    artifacts.apply(update("ab"))
    assert artifacts.lack_content_of(task(*found)) is behind


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


CUTS = st.lists(st.integers(0, 12), max_size=4)


@given(st.text("ab", max_size=12), st.integers(0, 12), CUTS, CUTS, st.booleans())
def test_however_it_is_cut_and_repeated_each_character_is_new_once(
    text: str, delivered: int, first: list[int], second: list[int], snapshot: bool
) -> None:
    artifacts = known()
    news: list[Event] = []
    for number, piece in enumerate(pieces(text[:delivered], first)):
        news += artifacts.apply(update(piece, append=number > 0))
    artifacts.reconnect(may_repeat=True)
    if snapshot:
        news += artifacts.apply_snapshot(task(artifact(*pieces(text, second))))
    else:
        for number, piece in enumerate(pieces(text, second)):
            news += artifacts.apply(update(piece, append=number > 0))
    assert text_of(news) == text
    assert text_so_far(artifacts) == [text]
