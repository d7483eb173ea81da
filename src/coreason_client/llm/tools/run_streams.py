"""The streams of runs that the clients return."""

from ._run_async import AsyncRunStream
from ._run_sync import RunStream

__all__ = ["AsyncRunStream", "RunStream"]
