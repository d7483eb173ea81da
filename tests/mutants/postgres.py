"""Mutants of the log in Postgres: of its functions in the database, and of its connections."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server/log"
_FUNCTIONS = f"{_T}/test_postgres_functions.py"
_FAILURES = f"{_T}/test_postgres_failures.py"
_SCHEMA = f"{_T}/test_postgres_schema.py"
_CONTRACT = f"{_T}/test_contract.py::TestPostgres"
_ANNOUNCEMENTS = f"{_T}/test_postgres_announcements.py"
_OPERATIONS = f"{_T}/test_postgres_operations.py"
_QUOTAS = f"{_T}/test_quota_store.py"
_TASKS = f"{_T}/test_tasks.py"


def _sql(name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, "coreason_client/server/log/postgres/schema.sql", old, new, tests)


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/log/postgres/{file}", old, new, tests)


MUTANTS = (
    _sql(
        "in the database, entries of an earlier epoch count as a repetition",
        "held := s.claimed_seq < first AND first <= final",
        "held := first <= final",
        _FUNCTIONS,
    ),
    _sql(
        "in the database, a stream that has ended is appended to",
        "IF s.epoch <> p_epoch OR (s.ended_at IS NOT NULL AND NOT held) THEN\n    state",
        "IF s.epoch <> p_epoch THEN\n    state",
        _FUNCTIONS,
    ),
    _sql(
        "in the database, notes that are missing are not noticed",
        "IF NOT noted AND note <> last_note + 1 THEN state := 'gap'; RETURN; END IF;",
        "",
        _CONTRACT,
    ),
    _sql(
        "in the database, a lone append of another epoch is stored",
        "p_id AND epoch = p_epoch AND ended_at IS NULL FOR",
        "p_id AND ended_at IS NULL FOR",
        _FUNCTIONS,
    ),
    _sql(
        "in the database, a lone append to a stream that has ended is stored",
        "p_id AND epoch = p_epoch AND ended_at IS NULL FOR",
        "p_id AND epoch = p_epoch FOR",
        _FUNCTIONS,
    ),
    _sql(
        "in the database, a lone append leaves out entries",
        "AND first = 1 + coalesce",
        "AND first >= 1 + coalesce",
        _FUNCTIONS,
    ),
    _sql(
        "in the database, a lone append leaves out notes",
        "AND (note IS NULL OR note = 1 + coalesce",
        "AND (note IS NULL OR note >= 1 + coalesce",
        _CONTRACT,
    ),
    _sql(
        "in the database, epochs are counted",
        "    epoch = greatest(epoch + 1, number),\n",
        "    epoch = epoch + 1,\n",
        _CONTRACT,
    ),
    _sql(
        "in the database, a lease is renewed in any epoch",
        "  ) l WHERE l.epoch = mine.epoch;\n",
        "  ) l;\n",
        _CONTRACT,
    ),
    _sql(
        "in the database, a repeated release is refused",
        "  IF s.released = p_epoch THEN RETURN 'ok'; END IF;\n",
        "",
        _CONTRACT,
    ),
    _sql(
        "in the database, a turn of an earlier epoch replaces a later one",
        "    WHERE t.epoch < excluded.epoch;\n",
        "    ;\n",
        _CONTRACT,
    ),
    _sql(
        "in the database, streams are claimed on a server that may have lost its latest state",
        "since <= now_ AND now_ < since + lease",
        "false",
        _FAILURES,
    ),
    _sql(
        "in the database, a lease begins before its lock is there",
        "SELECT coalesce(given, extract(epoch FROM clock_timestamp())::float8)",
        "SELECT coalesce(given, extract(epoch FROM now())::float8)",
        _OPERATIONS,
    ),
    _sql(
        "in the database, a standby is read from",
        "  IF pg_is_in_recovery() THEN\n",
        "  IF false THEN\n",
        _OPERATIONS,
    ),
    _sql(
        "in the database, a stream that is known is returned before a standby has it",
        "    PERFORM FROM {schema}.streams WHERE request = p_request FOR NO KEY UPDATE;\n",
        "",
        _OPERATIONS,
    ),
    _sql(
        "in the database, a repeated claim does not wait for a standby",
        "  PERFORM FROM {schema}.streams s WHERE s.claim = p_claim ORDER BY s.stream_id FOR NO KEY",
        "  PERFORM FROM {schema}.streams s WHERE s.claim = p_claim; --",
        _OPERATIONS,
    ),
    _sql(
        "in the database, a claim does not see an append at the same time",
        "s.ended_at IS NULL\n        FOR NO KEY UPDATE SKIP LOCKED;",
        "s.ended_at IS NULL;",
        _OPERATIONS,
    ),
    _sql(
        "in the database, a renewal visits all earlier rows of a lease",
        "INDEX leases_latest ON {schema}.leases (n, until DESC)",
        "UNIQUE INDEX leases_latest ON {schema}.leases (n)",
        _OPERATIONS,
    ),
    _sql(
        "in the database, full buckets are searched in the whole table",
        "full_at < (now_ * 1000000)::bigint",
        "full_at < now_ * 1000000",
        _OPERATIONS,
    ),
    _sql(
        "in the database, another version of an agent does not wait",
        "CASE WHEN l.version = p_version THEN 0 ELSE lease END",
        "0",
        _CONTRACT,
    ),
    _sql(
        "in the database, times that are too far ahead count as reservations",
        "r.until BETWEEN now_ AND now_ + 2 * lease",
        "r.until >= now_",
        _QUOTAS,
    ),
    _sql(
        "in the database, a change of a task is stored twice",
        "IF new_revision = ANY (known.revisions) THEN RETURN 'applied'; END IF;",
        "",
        _TASKS,
    ),
    _sql(
        "in the database, entries are dropped before readers are told",
        "s.ended_at IS NOT NULL, s.body > 0, s.epochs",
        "s.ended_at IS NOT NULL, false, s.epochs",
        _FUNCTIONS,
    ),
    _mutant(
        "_session.py",
        "an opening of the database counts as created by everybody",
        'created = row["opening"] == arguments[_OPENING]',
        'created = row["stream_id"] == stream.stream_id',
        _SCHEMA,
    ),
    _mutant(
        "_connection.py",
        "a commit without its standby is acknowledged",
        "            if self._unconfirmed:\n",
        "            if False:\n",
        _FAILURES,
    ),
    _mutant(
        "_connection.py",
        "a standby is used as a primary",
        "            if standby:\n",
        "            if False:\n",
        _FAILURES,
    ),
    _mutant(
        "_connection.py",
        "a standby that answers instead of the primary opens all connections again",
        "raise next((error for error in errors if not is_read_only(error)), errors[0])",
        "raise errors[-1]",
        _FAILURES,
    ),
    _mutant(
        "_connection.py",
        "all connections find out at once why the database does not answer",
        "            async with self._server.probing:\n",
        "            if True:\n",
        _OPERATIONS,
    ),
    _mutant(
        "_announcements.py",
        "a listener stays at a server that is no longer the primary",
        "        store.server.listen(self._lost.set)\n",
        "",
        _ANNOUNCEMENTS,
    ),
    _mutant(
        "_connection.py",
        "a call without a reply is cancelled",
        "            connection.terminate()\n            await asyncio.wait({task})\n",
        "            task.cancel()\n            await asyncio.wait({task})\n",
        _OPERATIONS,
    ),
    _mutant(
        "_connection.py",
        "each host of the database may use the whole time",
        " / len(hosts)\n",
        "\n",
        _FAILURES,
    ),
    _mutant(
        "_connection.py",
        "replicas are not checked",
        "if self._replicas and (",
        "if False and (",
        _FAILURES,
    ),
    _mutant(
        "_log.py",
        "a missing run of entries is skipped",
        "if first > after_seq + 1 or len(entries)",
        "if len(entries)",
        _FUNCTIONS,
    ),
    _mutant(
        "_announcements.py",
        "a listener that connects again does not wake its readers",
        "        self._failures = 0\n        self._wake_all()\n",
        "        self._failures = 0\n",
        _FAILURES,
    ),
    _mutant(
        "_announcements.py",
        "a reader does not look again after it has subscribed",
        "            self._waiters.wake(stream_id)  # what was announced before was not heard\n",
        "",
        _ANNOUNCEMENTS,
    ),
    _mutant(
        "_announcements.py",
        "a listener does not notice that its connection is silent",
        '            await answered(connection, connection.fetchval("SELECT 1"), _PING_INTERVAL)\n',
        "",
        _ANNOUNCEMENTS,
    ),
    _mutant(
        "_announcements.py",
        "an announcement is too long for Postgres",
        "_DIGESTS_AT_ONCE = 400",
        "_DIGESTS_AT_ONCE = 4000",
        _ANNOUNCEMENTS,
    ),
    _mutant(
        "_session.py",
        "a repeated append to the database is not announced",
        "            self.announce(stream_id)  # the first one may not have been announced\n",
        "",
        _ANNOUNCEMENTS,
    ),
    _mutant(
        "_announcements.py",
        "nobody looks for announcements that were lost",
        "if last is None or last > positions[stream_id]:",
        "if False:",
        _FAILURES,
    ),
    _mutant(
        "_store.py",
        "appends of one stream that wait together are sent in one call",
        "left = [place for place in left if place not in replies]",
        "left = []",
        _FUNCTIONS,
    ),
    _mutant(
        "_store.py",
        "ends that share a call lock leases in any order",
        'in sorted(first, key=attrgetter("int"))]',
        "in first]",
        _OPERATIONS,
    ),
    _mutant(
        "_store.py",
        "an append to a stream that is locked is lost",
        'StreamBusy() if row["state"] == "busy" else row',
        "row",
        _FAILURES,
    ),
    _mutant(
        "_schema.py",
        "a schema of a newer release is used",
        "    if oldest > _VERSION:\n",
        "    if False:\n",
        _SCHEMA,
    ),
)
