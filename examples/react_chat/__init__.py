"""A chat in React: `agent.py` serves the agent and the page, which npm builds."""
