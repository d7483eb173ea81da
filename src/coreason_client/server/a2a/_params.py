"""The parameters of the operations, checked. No I/O."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json, to_json

from ..log.tasks import TaskPosition
from ._incoming import wrong
from ._states import STATES

__all__ = [
    "Listing",
    "dump_page_token",
    "history_length",
    "optional_object",
    "parse_listing",
    "returns_immediately",
    "task_id_of",
]

_DEFAULT_PAGE: Final = 50
_LARGEST_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """What a client wants to have listed."""

    size: int
    context_id: str | None
    state: str | None
    changed_since: float | None
    after: TaskPosition | None
    history: int | None
    artifacts: bool


def task_id_of(params: Mapping[str, Any], name: str = "id") -> UUID | None:
    """Return the id of a task in the parameters, None if no task can have it.

    Raises:
        InvalidParamsError: there is none.
    """
    given = params.get(name)
    if not isinstance(given, str) or not given:
        raise wrong(name, "is required and must be a string")
    try:
        found = UUID(given)
    except ValueError:
        return None
    return found if str(found) == given else None


def optional_object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a parameter that is an object, an empty one if it is not given.

    Raises:
        InvalidParamsError: it is something else.
    """
    given = params.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise wrong(name, "must be an object")
    return given


def returns_immediately(params: Mapping[str, Any]) -> bool:
    """Return True if a client that sends a message does not wait for the answer.

    Raises:
        InvalidParamsError: the configuration is not an object.
    """
    return optional_object(params, "configuration").get("returnImmediately") is True


def history_length(params: Mapping[str, Any]) -> int | None:
    """Return the greatest number of messages in the history, None for all.

    Raises:
        InvalidParamsError: it is not a number from 0 on.
    """
    return _integer(params, "historyLength", 0, None)


def parse_listing(params: Mapping[str, Any]) -> Listing:
    """Check the parameters of a list.

    Raises:
        InvalidParamsError: one of them is wrong; the error names it.
    """
    size = _integer(params, "pageSize", 1, _LARGEST_PAGE)
    state = params.get("status") or None
    if state is not None and state not in STATES:
        raise wrong("status", "must be the state of a task, such as TASK_STATE_WORKING")
    context = params.get("contextId") or None
    if context is not None and not isinstance(context, str):
        raise wrong("contextId", "must be a string")
    return Listing(
        size=_DEFAULT_PAGE if size is None else size,
        context_id=context,
        state=state,
        changed_since=_time(params.get("statusTimestampAfter")),
        after=_page_token(params.get("pageToken")),
        history=history_length(params),
        artifacts=params.get("includeArtifacts") is True,
    )


def _integer(
    params: Mapping[str, Any], name: str, smallest: int, largest: int | None
) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
        raise wrong(name, f"must be a whole number from {smallest} on")
    if largest is not None and value > largest:
        raise wrong(name, f"must be at most {largest}")
    return value


def _time(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong("statusTimestampAfter", "must be a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise wrong("statusTimestampAfter", "must have a time zone, such as Z")
    return moment.timestamp()


def dump_page_token(position: TaskPosition) -> str:
    """Return the token for the page after a position."""
    return urlsafe_b64encode(to_json([position.changed, str(position.task_id)])).decode("ascii")


def _page_token(value: Any) -> TaskPosition | None:
    if value is None or value == "":
        return None
    try:
        changed, task_id = from_json(urlsafe_b64decode(value))
        return TaskPosition(float(changed), UUID(task_id))
    except (Base64Error, ValueError, TypeError, AttributeError):
        raise wrong("pageToken", "must be the nextPageToken of an earlier list") from None
