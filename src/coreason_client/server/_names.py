"""Names that several parts of the server need: in packets, and of callers. No I/O."""

from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

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

ANONYMOUS = "anybody"
"""The principal of every request if the server has no keys. Logs store this value."""


class Principal(NamedTuple):
    """The caller of an agent.

    Attributes:
        name: the name of the key, or the subject of the ticket.
        kind: "key", "ticket", or "anybody" if the server has no keys.
    """

    name: str
    kind: Literal["key", "ticket", "anybody"]


def approval_question(name: str, arguments: str) -> str:
    """Return the question whether a tool may be called; the arguments are JSON."""
    return f"May I call {name} with {arguments}?"


def full_principal(agent_id: str, name: str) -> str:
    """Return the owner of streams and conversations: a principal of one agent.

    Agents that share a log do not share streams or conversations. Both parts are encoded, so two
    pairs never give the same owner: agent `a/b` with principal `c` differs from agent `a` with
    principal `b/c`. Parts without `/` and `%` do not change.
    """
    return f"{_encoded(agent_id)}/{_encoded(name)}"


def ticket_principal(agent_id: str, subject: str) -> str:
    """Return the owner of what the holder of a ticket begins.

    It has one part more than that of a key, so the two never collide: whoever may issue tickets
    cannot name the principal of a key.
    """
    return f"{_encoded(agent_id)}/tickets/{_encoded(subject)}"


def parse_principal(full: str) -> Principal:
    """Return the caller that an owner of streams stands for."""
    *parts, name = map(unquote, full.split("/"))
    if len(parts) == 2:
        return Principal(name, "ticket")
    return Principal(name, "anybody" if name == ANONYMOUS else "key")


def _encoded(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")
