"""The server behind `coreason inspect`: the page, and one agent behind it, over CAP or A2A."""

from .app import Inspector
from .target import A2ATarget, CAPTarget

__all__ = ["A2ATarget", "CAPTarget", "Inspector"]
