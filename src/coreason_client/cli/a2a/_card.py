"""`coreason a2a card`."""

from ._agent import AgentOptions
from ._commands import AsJson, agent_command
from ._groups import EXAMPLES, app

__all__ = ["card"]


@agent_command(app, EXAMPLES[:1], without=("origins", "extensions"))
def card(agent: AgentOptions, as_json: AsJson = False) -> None:
    """Show the card of an agent: its name, skills and interfaces."""
    from ._connect import fetch_card
    from ._events import show_card

    show_card(fetch_card(agent), as_json=as_json)
