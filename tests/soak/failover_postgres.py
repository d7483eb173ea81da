"""A Postgres that fails over: its primary is killed, and its standby promoted by hand."""

import random
import time

from ..server.log.postgres_server import PostgresServer, PostgresStandby
from .failover_stores import OUTAGE, FailingStore, until

_REPLACEMENT = "replacement"


class KilledPostgres(FailingStore):
    """A primary and an asynchronous standby; the address has both."""

    synchronous = False
    primary: PostgresServer
    standby: PostgresStandby

    def hold(self) -> None:
        """Hold replication back from now on."""
        self.standby.set("primary_conninfo", "")
        received = "SELECT 1 FROM pg_stat_wal_receiver"
        until(lambda: not self.standby.execute(received), "the standby is disconnected")

    def _start(self) -> None:
        self.primary = self._stack.enter_context(PostgresServer())
        self.standby = self.primary.add_standby("standby", synchronous=self.synchronous)
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (self.primary, self.standby))
        self.url = f"postgresql://postgres@{hosts}/postgres"

    def _lacks(self) -> int:
        ((written,),) = self.primary.execute("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
        ((kept,),) = self.standby.execute("SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn")
        return int(written - kept)

    def _fail(self, dice: random.Random) -> None:
        self.primary.kill()
        time.sleep(OUTAGE * dice.random())
        self.standby.promote()

    def _is_promoted(self) -> bool:
        return self.standby.execute("SELECT pg_is_in_recovery()") == [(False,)]


class ReplacedPostgres(KilledPostgres):
    """The standby confirms each commit; after its promotion another one does."""

    synchronous = True

    def _fail(self, dice: random.Random) -> None:
        # Set before, as a manager does: otherwise commits would not be confirmed for a moment.
        self.standby.set("synchronous_standby_names", _REPLACEMENT)
        super()._fail(dice)
        self.standby.add_standby(_REPLACEMENT)
