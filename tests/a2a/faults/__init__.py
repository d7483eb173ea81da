"""The faulty server learns A2A: streams of one task, lost, bent or refused by name.

with FaultServer() as server:
    run = start(server, "cut", dialect="1.0", after=8, how="rst")
    ...  # a client of run.card() streams a message
    assert run.calls == ["stream", "subscribe"]
    assert the_text == run.text
"""

from .model import Dialect, Model
from .scripts import A2A_FAULTS, Call, TaskRun, start

__all__ = ["A2A_FAULTS", "Call", "Dialect", "Model", "TaskRun", "start"]
