"""The built-in agent and what it finds its answers with."""
