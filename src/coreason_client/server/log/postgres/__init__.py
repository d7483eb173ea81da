"""The log in a Postgres database, shared by many processes.

It is tested with PostgreSQL 15, directly and through PgBouncer in session and transaction mode.

Durability. An acknowledged entry was committed, with the `synchronous_commit` of the database. With
`on`, the default, it survives a crash of the machine; with a synchronous standby also a failover to
it. `replicas=N` checks with each connection that so many standbys confirm each commit. With `off`
the last moments may be lost: readers then get `PositionGone`, and nothing is mixed.

Operations. Each one is a call of a function (`schema.sql`): one statement, one transaction, one
round trip. Appends of different streams that wait at the same time share a call. Everything may be
repeated, because a lost connection leaves open whether a call was carried out.

Waiting. A cancelled statement that waits for a standby would be reported as carried out, although
the standby does not have it, and through a pooler a cancel request may hit another client. So no
statement is ever cancelled: a connection without an answer for 0.4 of the patience is closed. If
its statement waits for a standby, it is kept instead, because the next connection would wait too.

Announcements. NOTIFY in a transaction that appends would make all commits wait for each other. So
each process announces what it has appended every 10 ms, in a transaction of its own, on one channel
for all streams. A process can die in between, so every `poll` seconds it is looked up what was
missed. Announcements have no content but digests of ids: everybody can listen to a channel.

Time. Leases and ages use the clock of the database.

Failover. Each connection checks at its login that it talks to a primary, and to which one; each
read checks it again, because a pooler can change the server. When another server answers, all
connections are opened again, and nobody claims streams for one lease.

The password of an address never appears in errors, logs or `repr`.
"""

from ....errors import MissingExtraError

try:
    import asyncpg as _asyncpg  # type: ignore[import-untyped]  # noqa: F401
except ImportError:
    raise MissingExtraError("the Postgres log", "postgres") from None

from ._log import PostgresStreamLog
from ._schema import upgrade_schema

__all__ = ["PostgresStreamLog", "upgrade_schema"]
