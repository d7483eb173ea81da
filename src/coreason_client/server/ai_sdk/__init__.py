"""An agent for pages that use the AI SDK: `useChat` and its transports.

This module has the settings, and what is known of an answer beside its log. `_routes.py` has the
handlers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from .._options import check_api_path, check_max_tool_result

__all__ = ["AISDK", "CAPABILITIES", "AnswerFacts", "GivenApproval", "facts_in", "message_id"]

CAPABILITIES: Final = ("reset-step", "tool-approval-request", "tool-approval-response")
"""The chunks that not every version of the SDK knows; a request names those that may be sent."""

_FINGERPRINT: Final = "ai-sdk:"


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
        check_max_tool_result(self.max_tool_result)


class GivenApproval(NamedTuple):
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
    approval: GivenApproval | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the request."""
        return f"{_FINGERPRINT}{to_json(self).decode()}"


def facts_in(fingerprint: str) -> AnswerFacts | None:
    """Return what a fingerprint says, None if it is that of another protocol."""
    if not fingerprint.startswith(_FINGERPRINT):
        return None
    key, capabilities, continues, approval = from_json(fingerprint.removeprefix(_FINGERPRINT))
    return AnswerFacts(key, capabilities, continues, GivenApproval(*approval) if approval else None)


def message_id(stream_id: UUID) -> str:
    """Return the id of the message that a stream begins."""
    return f"msg_{stream_id.hex}"
