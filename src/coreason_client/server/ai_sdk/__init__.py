"""An agent for pages that use the AI SDK: `useChat` and its transports.

This module has the settings, and what is known of an answer beside its log. `_routes.py` has the
handlers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from ...errors import ArgumentError
from .._options import check_api_path

__all__ = [
    "AISDK",
    "CAPABILITIES",
    "AnswerFacts",
    "Approval",
    "facts_in",
    "is_call_id",
    "message_id",
    "message_stream",
    "repeated_call_id",
    "run_id",
    "run_stream",
    "settings_of",
]

CAPABILITIES: Final = ("reset-step", "tool-approval-request", "tool-approval-response")
"""The chunks that not every version of the SDK knows; a request names those that may be sent."""

_FINGERPRINT: Final = "ai-sdk:"
_ID = re.compile(r"(msg|run)_([0-9a-f]{32})", re.ASCII)
_REPEATED = re.compile(r"-repeat-[0-9]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AISDK:
    """Settings for `AgentApp(ai_sdk=...)`.

    Attributes:
        path: the path of the chat, as in the `api` of a transport.
        max_tool_result: the number of characters of a tool's result that clients get; a longer one
            is cut with a mark, and the log has all of it.

    Raises:
        ArgumentError: a value is not valid.
    """

    path: str = "/api/chat"
    max_tool_result: int = 65_536

    def __post_init__(self) -> None:
        check_api_path("path", self.path)
        if type(self.max_tool_result) is not int or self.max_tool_result < 0:
            rule = "must be a whole number, 0 or more"
            raise ArgumentError("max_tool_result", rule, self.max_tool_result)


def settings_of(ai_sdk: bool | AISDK) -> AISDK:
    """Return the settings; True has all defaults."""
    if ai_sdk is True:
        return AISDK()
    if not isinstance(ai_sdk, AISDK):
        raise ArgumentError("ai_sdk", "must be True, False or an AISDK", type(ai_sdk).__name__)
    return ai_sdk


class Approval(NamedTuple):
    """The user's answer to the question whether a tool may be called."""

    question_id: str
    call_id: str
    approved: bool
    reason: str | None = None


class AnswerFacts(NamedTuple):
    """What the log must keep of a request, because the chunks of its answer depend on it.

    It is stored as the fingerprint of the request, in which only equal requests are equal.

    Attributes:
        key: what makes it the same request when it comes again.
        capabilities: the `CAPABILITIES` of the client.
        continues: the id of the message that the answer continues, empty if it has its own.
        approval: the answer of the user with which it begins.
    """

    key: str
    capabilities: Sequence[str] = ()
    continues: str = ""
    approval: Approval | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the request."""
        return f"{_FINGERPRINT}{to_json(self).decode()}"


def facts_in(fingerprint: str) -> AnswerFacts | None:
    """Return what a fingerprint says, None if it is that of another protocol."""
    if not fingerprint.startswith(_FINGERPRINT):
        return None
    key, capabilities, continues, approval = from_json(fingerprint.removeprefix(_FINGERPRINT))
    return AnswerFacts(key, capabilities, continues, Approval(*approval) if approval else None)


# Ids that the server makes; a chat must not have one of this form.


def message_id(stream_id: UUID) -> str:
    """Return the id of the message that a stream begins."""
    return f"msg_{stream_id.hex}"


def run_id(stream_id: UUID) -> str:
    """Return the id of a stream in the header and the path of the workflow transport."""
    return f"run_{stream_id.hex}"


def repeated_call_id(call_id: str, count: int) -> str:
    """Return the id of a call whose id was used before; a client needs different ones."""
    return f"{call_id}-repeat-{count}"


def is_call_id(given: str, call_id: str) -> bool:
    """Return True if a client may know a call under this id."""
    return given == call_id or _REPEATED.sub("", given) == call_id


def message_stream(given: Any) -> UUID | None:
    """Return the stream that has begun a message, None if the id has another form."""
    return _stream(given, "msg")


def run_stream(given: Any) -> UUID | None:
    """Return the stream that an id of a run names, None if it has another form."""
    return _stream(given, "run")


def _stream(given: Any, prefix: str) -> UUID | None:
    found = _ID.fullmatch(given) if isinstance(given, str) else None
    return UUID(found[2]) if found is not None and found[1] == prefix else None
