"""Names in the packets of the server that more than one protocol needs. No I/O."""

from typing import Final

__all__ = ["ARTIFACT", "AUTH_REQUIRED", "INPUT_REQUIRED", "MESSAGE", "QUESTION", "REJECTED"]

ARTIFACT: Final = "ARTIFACT"
"""The type of the EVENT packet with an artifact of the agent."""
AUTH_REQUIRED: Final = "auth_required"
"""The reason of the CLOSE packet with which an agent asks the user for an authorization."""
INPUT_REQUIRED: Final = "input_required"
"""The reason of the CLOSE packet with which an agent asks the user."""
MESSAGE: Final = "message"
"""The reason of the CLOSE packet of an answer that is a message and not a task."""
QUESTION: Final = "QUESTION"
"""The type of the EVENT packet before the text of a question: this text is not a result."""
REJECTED: Final = "rejected"
"""The code of the error with which an agent refuses a request."""
