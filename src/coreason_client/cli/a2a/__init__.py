"""`coreason a2a`: messages, tasks and cards of agents that use the A2A protocol."""

# Importing a module registers its commands; the help lists them in this order.
from . import _messages, _tasks, _push  # isort: skip # noqa: F401
from ._commands import app

__all__ = ["app"]
