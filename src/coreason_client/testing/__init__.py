"""Tools to test programs that use this package: fake servers, faults, and a clock without waits.

Each name is imported when it is first used (PEP 562). `pytest` is needed only by the fixtures of
`coreason_client.testing.plugin` and by the contracts; everything else works with any test runner.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._chaos import ChaosProxy, ConnectionPlan
    from ._exactly_once import assert_exactly_once
    from ._fake_a2a import A2ARequest, FakeA2A, fake_a2a
    from ._fake_agent import FakeAgent, fake_agent
    from ._fake_model import FakeModel, fake_model
    from ._models._turns import ModelFailure, ModelRequest, ModelToolCall, ModelTurn
    from ._no_network import NetworkBlocked, no_network
    from ._received import ReceivedRequest
    from ._record import Recorder, record
    from ._recording._file import RecordingError
    from ._replay import Replay, recorded, replay
    from ._script import artifact, ask, delay, disconnect, fail, message, reject, status
    from ._virtual_clock import VirtualClock, virtual_clock
    from .contracts.log_contract import DurableLogContract, LogContract, ManualClock
    from .contracts.server_contract import ServerContract, ServerUnderTest
    from .faults import FAULTS, Fault, FaultRun, FaultServer, RecordedRequest

# The exported names, by the module that defines them.
_NAMES_BY_MODULE: dict[str, tuple[str, ...]] = {
    "._chaos": ("ChaosProxy", "ConnectionPlan"),
    "._exactly_once": ("assert_exactly_once",),
    "._fake_a2a": ("A2ARequest", "FakeA2A", "fake_a2a"),
    "._fake_agent": ("FakeAgent", "fake_agent"),
    "._fake_model": ("FakeModel", "fake_model"),
    "._models._turns": ("ModelFailure", "ModelRequest", "ModelToolCall", "ModelTurn"),
    "._no_network": ("NetworkBlocked", "no_network"),
    "._received": ("ReceivedRequest",),
    "._record": ("Recorder", "record"),
    "._recording._file": ("RecordingError",),
    "._replay": ("Replay", "recorded", "replay"),
    "._script": ("artifact", "ask", "delay", "disconnect", "fail", "message", "reject", "status"),
    "._virtual_clock": ("VirtualClock", "virtual_clock"),
    ".contracts.log_contract": ("DurableLogContract", "LogContract", "ManualClock"),
    ".contracts.server_contract": ("ServerContract", "ServerUnderTest"),
    ".faults": ("FAULTS", "Fault", "FaultRun", "FaultServer", "RecordedRequest"),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "FAULTS",
    "A2ARequest",
    "ChaosProxy",
    "ConnectionPlan",
    "DurableLogContract",
    "FakeA2A",
    "FakeAgent",
    "FakeModel",
    "Fault",
    "FaultRun",
    "FaultServer",
    "LogContract",
    "ManualClock",
    "ModelFailure",
    "ModelRequest",
    "ModelToolCall",
    "ModelTurn",
    "NetworkBlocked",
    "ReceivedRequest",
    "RecordedRequest",
    "Recorder",
    "RecordingError",
    "Replay",
    "ServerContract",
    "ServerUnderTest",
    "VirtualClock",
    "artifact",
    "ask",
    "assert_exactly_once",
    "delay",
    "disconnect",
    "fail",
    "fake_a2a",
    "fake_agent",
    "fake_model",
    "message",
    "no_network",
    "record",
    "recorded",
    "reject",
    "replay",
    "status",
    "virtual_clock",
]

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
