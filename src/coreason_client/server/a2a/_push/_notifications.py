"""The notifications for events of a task. No I/O.

A notification is an event of protocol 1.0, or the whole task for a client of 0.3. While a webhook
is slow, events gather; then text that is appended to the same artifact becomes one event, and an
event that replaces the artifact stands for the one before it. Its
`metadata.generation` is that of the last event, and `metadata.coreason.firstGeneration` that of the
first, so that a client still knows whether it has missed one.

If a store has lost a part of a task, its generations begin again at a smaller number. The packets
after that have another epoch, `metadata.coreason.epoch`; the first one is not named.

A process that takes a delivery over cannot know whether its predecessor has sent one more
notification. So it groups the events as the predecessor did: no notification covers events on both
sides of a `boundary`, a generation. Then the webhook has received each notification either as a
whole or not at all, and its generation is enough to recognise it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from coreason_client.server.a2a._v03._conversions import RESULTS_TO_V03

from .._fold import GENERATION, JSON, Event, TaskFold, merge_texts
from .._reading import EventPosition, Streamed

_UPDATE: Final = "artifactUpdate"
_OWN: Final = "coreason"
_MAX_TEXT: Final = 65_536  # characters of merged text


@dataclass(frozen=True, slots=True)
class Notification:
    """The body of a request, and what a webhook has received with it.

    Everything up to `position`, if there is one, and up to `generation`.
    """

    body: bytes
    position: EventPosition | None
    generation: int
    merged: bool = False


def generation_of(event: Event) -> int | None:
    """Return the generation of an event; a message has none."""
    [content] = event.values()
    return _generation(content)


def _generation(content: JSON) -> int | None:
    found: int | None = content.get("metadata", {}).get(GENERATION)
    return found


def notifications(
    streamed: Iterable[Streamed], delivered: int, latest: int, boundary: int = 0
) -> list[Notification]:
    """Return the notifications for events after a generation.

    `latest` is the generation of the task, for the message that an agent answers with.
    """
    new = [one for one in streamed if (generation_of(one.event) or latest) > delivered]
    return [
        Notification(
            to_json(_with_epoch(one)),
            one.position,
            generation_of(one.event) or latest,
            merged=_OWN in one.event.get(_UPDATE, {}).get("metadata", {}),
        )
        for one in merge_events(new, boundary)
    ]


def _with_epoch(streamed: Streamed) -> Event:
    """Return an event whose metadata names the epoch of its packet, if that is a later one."""
    [(kind, content)] = streamed.event.items()
    epoch = 1 if streamed.position is None else streamed.position.epoch
    if epoch == 1 or kind == "message":
        return streamed.event
    metadata = content["metadata"]
    own = {**metadata.get(_OWN, {}), "epoch": epoch}
    return {kind: {**content, "metadata": {**metadata, _OWN: own}}}


def task_notifications(
    streamed: Sequence[Streamed], delivered: int, fold: TaskFold
) -> list[Notification]:
    """Return the notification for a client of 0.3: the task, if its status may have changed.

    The text of an answer alone is not a reason for one, because each has the whole task.
    """
    changed = any(
        (generation_of(one.event) or 0) > delivered and not one.event.keys() & {_UPDATE, "message"}
        for one in streamed
    )
    if not changed or fold.message is not None:
        return []
    positions = [one.position for one in streamed if one.position is not None]
    body = to_json(RESULTS_TO_V03["task"](fold.task()))
    return [Notification(body, positions[-1] if positions else None, fold.generation)]


def merge_events(streamed: Iterable[Streamed], boundary: int = 0) -> list[Streamed]:
    """Return events with text that is appended to the same artifact joined, and none replaced.

    The event with the generation `boundary` is not joined with the next one.
    """
    merged: list[Streamed] = []
    for one in streamed:
        joined = None
        if merged and generation_of(merged[-1].event) != boundary:
            joined = _join(merged[-1].event, one.event)
        if joined is not None:
            merged[-1] = Streamed(joined, one.position or merged[-1].position)
        else:
            merged.append(one)
    return merged


def _join(first: Event, second: Event) -> Event | None:
    """Return one event for two, None if they must stay apart."""
    before, after = first.get(_UPDATE), second.get(_UPDATE)
    if before is None or after is None or not _is_same_artifact(before, after):
        return None
    joined: JSON
    if not after.get("append"):
        joined = {**after}
    elif _continues(before, after):
        parts = [*before["artifact"]["parts"], *after["artifact"]["parts"]]
        if sum(len(part["text"]) for part in parts) > _MAX_TEXT:
            return None
        joined = {**before, "artifact": {**before["artifact"], "parts": merge_texts(parts)}}
        if after.get("lastChunk"):
            joined["lastChunk"] = True
    else:
        return None
    joined["metadata"] = {
        _OWN: {"firstGeneration": _first_generation(before)},
        GENERATION: _generation(after),
    }
    return {_UPDATE: joined}


def _is_same_artifact(before: JSON, after: JSON) -> bool:
    same: bool = before["artifact"]["artifactId"] == after["artifact"]["artifactId"]
    return same and after["metadata"].keys() == {GENERATION}


def _continues(before: JSON, after: JSON) -> bool:
    plain = after["artifact"].keys() == {"artifactId", "parts"}
    texts = (
        part.keys() == {"text"} for one in (before, after) for part in one["artifact"]["parts"]
    )
    return plain and not before.get("lastChunk") and all(texts)


def _first_generation(update: JSON) -> Any:
    own = update["metadata"].get(_OWN, {})
    return own.get("firstGeneration", _generation(update))
