"""Tools to test programs that use this package: fake servers, faults, and a clock without waits.

Each name is imported when it is first used (PEP 562). `pytest` is needed only by the fixtures of
`coreason_client.testing.plugin` and by the contracts; everything else works with any test runner.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._chaos import ChaosProxy as ChaosProxy
    from ._chaos import ConnectionPlan as ConnectionPlan
    from ._exactly_once import assert_exactly_once as assert_exactly_once
    from ._fake_a2a import A2ARequest as A2ARequest
    from ._fake_a2a import FakeA2A as FakeA2A
    from ._fake_a2a import fake_a2a as fake_a2a
    from ._fake_agent import FakeAgent as FakeAgent
    from ._fake_agent import fake_agent as fake_agent
    from ._fake_model import FakeModel as FakeModel
    from ._fake_model import fake_model as fake_model
    from ._models._turns import ModelFailure as ModelFailure
    from ._models._turns import ModelRequest as ModelRequest
    from ._models._turns import ModelToolCall as ModelToolCall
    from ._models._turns import ModelTurn as ModelTurn
    from ._no_network import NetworkBlocked as NetworkBlocked
    from ._no_network import no_network as no_network
    from ._received import ReceivedRequest as ReceivedRequest
    from ._record import Recorder as Recorder
    from ._record import record as record
    from ._recording._file import RecordingError as RecordingError
    from ._replay import Replay as Replay
    from ._replay import recorded as recorded
    from ._replay import replay as replay
    from ._script import artifact as artifact
    from ._script import ask as ask
    from ._script import delay as delay
    from ._script import disconnect as disconnect
    from ._script import fail as fail
    from ._script import message as message
    from ._script import reject as reject
    from ._script import status as status
    from ._virtual_clock import VirtualClock as VirtualClock
    from ._virtual_clock import virtual_clock as virtual_clock
    from .contracts.log_contract import DurableLogContract as DurableLogContract
    from .contracts.log_contract import LogContract as LogContract
    from .contracts.log_contract import ManualClock as ManualClock
    from .contracts.server_contract import ServerContract as ServerContract
    from .contracts.server_contract import ServerUnderTest as ServerUnderTest
    from .faults import FAULTS as FAULTS
    from .faults import Fault as Fault
    from .faults import FaultRun as FaultRun
    from .faults import FaultServer as FaultServer
    from .faults import RecordedRequest as RecordedRequest

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

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
