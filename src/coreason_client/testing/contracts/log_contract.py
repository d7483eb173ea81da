"""The contract of a log as tests, for people who write one."""

from abc import abstractmethod
from pathlib import Path

from ...server.log import DurableLog
from ._log_durable import ClaimRules, JournalRules
from ._log_lifetime import ConversationRules, LeaseRules, RetentionRules
from ._log_positions import EpochRules, PositionRules
from ._log_streams import EntryRules, ReaderRules, RequestRules
from ._log_tests import LogTests, ManualClock

__all__ = ["DurableLogContract", "LogContract", "ManualClock"]


class LogContract(
    RequestRules,
    EntryRules,
    ReaderRules,
    EpochRules,
    PositionRules,
    LeaseRules,
    RetentionRules,
    ConversationRules,
    LogTests,
):
    """The tests that every `StreamLog` must pass; see `coreason_client.server.log.base`.

    Derive a test class from it that makes your log::

        class TestMyLog(LogContract):
            def make_log(self, clock: ManualClock, folder: Path) -> StreamLog:
                return MyLog(folder / "log.db", clock=clock)
    """


class DurableLogContract(LogContract, JournalRules, ClaimRules):
    """The tests that every `DurableLog` must pass, which are those of `LogContract` and more."""

    @abstractmethod
    def make_log(self, clock: ManualClock, folder: Path) -> DurableLog:
        """Return a new, empty log that has not been started; see `LogTests.make_log`."""
