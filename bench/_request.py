"""The request that the benchmarks send."""

from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.service import ServiceRequest
from coreason_manifest.definitions.session import SessionContext

__all__ = ["chat_request"]


def chat_request(message: str, conversation: str = "conversation") -> ServiceRequest:
    """Return a user's message in an envelope, as `chat` sends it."""
    return ServiceRequest(
        context=SessionContext(session_id=conversation, user_id="user"),
        payload=AgentRequest(messages=[ChatMessage.user(message)], session_id=conversation),
    )
