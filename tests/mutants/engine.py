"""Mutants of the engine, the serving process, the routes, and the stores of the logs."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server"


def _mutant(file: str, name: str, old: str, new: str, tested_by: str = "") -> Mutant:
    """Return a mutant of a module of the server, tested by the file of its name or another one."""
    package, _, stem = file.removesuffix(".py").rpartition("/")
    stem = tested_by or stem
    folder = f"{_T}/{package.partition('/')[0]}".rstrip("/")
    inner = package.partition("/")[2]  # the tests of a package in a package have its name
    test = f"{folder}/test_{inner}{'_' * bool(inner)}{stem.lstrip('_')}.py"
    return Mutant(name, f"coreason_client/server/{file}", old, new, (test,))


_ENGINE = (
    Mutant(
        "a request that is cancelled keeps the unit that was reserved for it",
        "coreason_client/server/engine",
        "            if quota.stop_waiting(principal):\n"
        "                self._exchange_soon(principal)\n",
        "            quota.stop_waiting(principal)\n",
        (f"{_T}/test_quotas.py",),
    ),
    _mutant(
        "engine/_watchdog.py",
        "a thread other than the main one watches the flag of the server",
        "if threading.current_thread() is not threading.main_thread():",
        "if False:",
        "exit_watch",
    ),
    _mutant(
        "engine/_watchdog.py",
        "the exit is reported before the flag is set",
        "while not should_exit():",
        "while should_exit():",
        "exit_watch",
    ),
    _mutant(
        "engine/_threads.py",
        "a cancelled task does not wait for its function",
        "        await done\n        raise",
        "        raise",
    ),
    _mutant(
        "engine/_threads.py",
        "an agent that raises SystemExit is not reported by its own name",
        "    except BaseException as error:  # noqa: BLE001 - an agent must not end the server\n"
        "        return None, _wrapped(error)",
        "    except BaseException as error:  # noqa: BLE001 - an agent must not end the server\n"
        "        return None, RuntimeError(str(error))",
    ),
    _mutant(
        "engine/_threads.py",
        "an expected error of an agent that nobody waits for is logged",
        "_EXPECTED = (StreamCancelled, StreamEnded, LogError)",
        "_EXPECTED = (StreamCancelled, LogError)",
    ),
    _mutant(
        "engine/_orphans.py",
        "only the first batch of lost streams is ended",
        "while claims := await self._log.claim_lost(self._owner, _BATCH):",
        "if claims := await self._log.claim_lost(self._owner, _BATCH):",
    ),
    _mutant(
        "engine/_orphans.py",
        "an end that the log did not accept becomes producer_lost",
        "self._loss(claim) if end is None else end.error_in(claim.epoch)",
        "self._loss(claim)",
    ),
    _mutant(
        "engine/_orphans.py",
        "a cancelled stream whose producer is lost is not cancelled",
        "CANCELLED if meta.cancel_requested else PRODUCER_LOST",
        "PRODUCER_LOST",
    ),
    _mutant(
        "engine/_orphans.py",
        "a log that may still fail gets all ends at once",
        "left, at_once = len(self._unwritten), 1 ",
        "left, at_once = len(self._unwritten), _BATCH ",
    ),
    _mutant(
        "engine/_orphans.py",
        "a turn that could not be stored before the end is lost",
        "if failure is not None and (failure := await self._store_turn(claim, error)) is not None:",
        "if failure is not None:",
    ),
    _mutant(
        "engine/_orphans.py",
        "the log quotes a damaged question",
        'return f"its stored question or text is damaged ({type(failure).__name__})"',
        "return str(failure)",
    ),
)
_LOGS = (
    _mutant(
        "log/_memory_store.py",
        "dropped entries are counted as freed twice",
        "freed, self.size = self.size, 0\n        self.entries = []",
        "freed = self.size\n        self.entries = []",
        "memory_records",
    ),
    _mutant(
        "log/_memory_store.py",
        "the growth of a conversation ignores the turns that it dropped",
        "return self.memory - before",
        "return len(turn)",
        "memory_records",
    ),
    _mutant(
        "log/_sql_claims.py",
        "a claimed stream keeps the cached state of its earlier owner",
        "    db.states.pop(stream_id, None)\n",
        "",
    ),
    _mutant(
        "log/_sql.py",
        "a stream is dropped while some of its entries are left",
        "ended_at <= ? AND body_gone = 1 ORDER BY",
        "ended_at <= ? AND body_gone > 0 ORDER BY",
    ),
    _mutant(
        "log/_sql.py",
        "a long conversation is checked again and again",
        'db.execute("UPDATE turns SET added_at = ? WHERE id = ?", (latest, id_))',
        "pass",
    ),
    _mutant(
        "log/_sql.py",
        "a page has the first entries of the run before its position",
        "max(after_seq + 1 - first_seq, 0)",
        "0",
    ),
    _mutant(
        "log/_schema.py",
        "an upgraded stream counts its entries from 1",
        "insert_runs(db, n, first_seq, (entry for (entry,) in rows))",
        "insert_runs(db, n, 1, (entry for (entry,) in rows))",
    ),
    _mutant(
        "log/_schema.py",
        "an upgrade keeps the questions of ended streams",
        "(SELECT n FROM streams WHERE outcome IS NULL)",
        "(SELECT n FROM streams WHERE outcome IS NULL) AND FALSE",
    ),
    _mutant(
        "log/_file.py",
        "what a connection has cached outlives a rollback",
        "connection.stale = True",
        "connection.stale = False",
    ),
    _mutant(
        "log/_file.py",
        "a transaction whose rollback failed is continued",
        "if connection.in_transaction:  # an earlier rollback has failed\n"
        "            _roll_back(connection)",
        'if connection.in_transaction:\n            connection.execute("COMMIT")',
    ),
    _mutant(
        "log/_file.py",
        "a file that was replaced counts as in place",
        "if (found.st_dev, found.st_ino) != known:",
        "if False:",
    ),
)
_VALKEY = (
    _mutant(
        "log/valkey/_entries.py",
        "a repeated append shows its own bytes instead of the stored ones",
        "        session.drop_entries(stream_id)\n",
        "        session.add_entries(stream_id, first_seq, entries)\n",
    ),
    _mutant(
        "log/valkey/_entries.py",
        "a fenced producer still owns its stream",
        '    session.disown(stream_id)\n    if reply[0] == b"fenced":',
        '    if reply[0] == b"fenced":',
    ),
    _mutant(
        "log/valkey/_entries.py",
        "an end fails if the indexes cannot be changed",
        "with suppress(LogUnavailable):\n            if",
        "with suppress(UnknownStream):\n            if",
    ),
    _mutant(
        "log/valkey/_leases.py",
        "more streams are claimed than were asked for",
        'await self._claim_all(due[:count], "")',
        'await self._claim_all(due, "")',
        "expiry",
    ),
    _mutant(
        "log/valkey/_leases.py",
        "a failure in one index stops the work on the others",
        "        errors += await _handle_due(session, index, due, work)\n",
        "        errors += await _handle_due(session, index, due, work)\n"
        "        if errors:\n            break\n",
        "expiry",
    ),
    _mutant(
        "log/valkey/_leases.py",
        "a batch with a failure is handled again and again",
        "while not errors and (members",
        "while (members",
        "expiry",
    ),
    _mutant(
        "log/remote/_owned.py",
        "a wake without entries in memory does not lead to the store",
        "(woken and not page.entries)",
        "False",
        "follower",
    ),
    _mutant(
        "log/remote/_owned.py",
        "a reader of a stopping log reads once more",
        "            if waiters.wake_all_count != wake_all_count:\n                return page\n",
        "",
        "follower",
    ),
    _mutant(
        "log/valkey/_opening.py",
        "an opener that was slower leaves its stream behind",
        "            if created_meta is not None:\n"
        "                await delete_unused(session, keys, stream)\n",
        "",
    ),
    _mutant(
        "log/valkey/_opening.py",
        "a stream that was created slowly is not in the index",
        "if session.now() >= until:",
        "if session.now() > until + 1:",
    ),
    _mutant(
        "log/valkey/_opening.py",
        "ownership begins after the reply of the store",
        "    session.owned.own_new(stream.stream_id, until)\n"
        "    return Opened(new_meta(stream, now)",
        "    session.owned.own_new(stream.stream_id, now + lease)\n"
        "    return Opened(new_meta(stream, now)",
    ),
)
_PROCESS = (
    _mutant(
        "process/_listen.py",
        "a failed handshake is counted as an open connection",
        "            self._connections.release()\n            sock.close()",
        "            sock.close()",
        "accept",
    ),
    _mutant(
        "process/_listen.py",
        "a listener without descriptors accepts again at once",
        "        self._loop.remove_reader(self._sock)\n        self._resuming",
        "        self._resuming",
        "accept",
    ),
    _mutant(
        "process/_listen.py",
        "any error of accept closes waiting connections",
        "if error.errno in _NO_RESOURCES:",
        "if True:",
        "accept",
    ),
    _mutant(
        "process/_address_lock.py",
        "a link in the place of the lock file is followed",
        " | os.O_NOFOLLOW",
        "",
    ),
    _mutant(
        "process/_address_lock.py",
        "a fork has the claims of its parent",
        "        _pid[:] = [os.getpid()]\n        _claims.clear()",
        "        _pid[:] = [os.getpid()]",
    ),
    _mutant(
        "process/_address_lock.py",
        "the first release of two ends the lock",
        "if not _claims[address] and (file := _open()) is not None:",
        "if (file := _open()) is not None:",
    ),
    _mutant(
        "process/_lifespan.py",
        "the shutdown of an application that did not start is awaited",
        '"message": str(error)})\n        return',
        '"message": str(error)})',
    ),
    _mutant(
        "process/_listen.py",
        "an IPv6 socket also takes the IPv4 port",
        "sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)",
        "sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)",
    ),
    _mutant(
        "process/_listen.py",
        "a host of which no address exists has no sockets and no error",
        "if refused is not None and not sockets:",
        "if False and refused:",
    ),
    _mutant(
        "process/_listen.py",
        "anything at the path of a Unix socket is removed",
        'if sys.platform == "win32" or not stat.S_ISSOCK(mode):',
        "if False:",
    ),
    _mutant(
        "process/_listen.py",
        "the umask changes the permissions of a Unix socket",
        "        file.chmod(mode)\n",
        "",
    ),
    _mutant(
        "process/_draining_server.py",
        "a service without a terminal ends on SIGHUP",
        "return self._had_terminal and not",
        "return not",
        "hangup",
    ),
    _mutant(
        "process/_tls.py",
        "a missing password is asked for in the terminal",
        "if _ENCRYPTED in key and not password:",
        "if False:",
    ),
    _mutant(
        "process/_reload.py",
        "a removed file is no change",
        "before.keys() | now.keys()",
        "now.keys()",
    ),
    _mutant(
        "_keys_file.py",
        "a file is read while it is written",
        "return settled and seen != self._read",
        "return seen != self._read",
    ),
    _mutant(
        "_keys_file.py",
        "a broken file is reported again and again",
        "        self._settling.mark_read(version_of(self._path))\n        try:",
        "        try:",
    ),
    _mutant(
        "http/_hosts.py",
        "a prefix that the proxy has passed on is added again",
        'if not outer and path.startswith(f"{prefix}/"):',
        "if False:",
        "root_path",
    ),
    _mutant(
        "process/_single_process.py",
        "a reloading server counts its workers",
        'return 1 if getattr(config, "reload", False) else max(configured, 1)',
        "return max(configured, 1)",
    ),
    _mutant(
        "process/_single_process.py",
        "each later request waits for the address too",
        "self._wait = 0.0",
        "pass",
    ),
    _mutant(
        "process/_single_process.py",
        "names of test clients are kept for ever",
        "if len(self._known) >= _MAX_ADDRESSES:",
        "if False:",
    ),
)
_ROUTES = (
    _mutant(
        "http/_cursor.py",
        "a position is accepted as the id of a stream",
        'if cursor is None or ":" in text:',
        "if cursor is None:",
    ),
    Mutant(
        "a reader at the end of a dropped stream gets an error",
        "coreason_client/server/http/_stream_response.py",
        "if meta.outcome is not None and after.seq == meta.last_seq:",
        "if meta.outcome is not None and after.seq == meta.last_seq and not meta.body_gone:",
        (f"{_T}/cap/test_routes.py",),
    ),
    _mutant(
        "cap/_routes.py",
        "a server that drains is reported as degraded",
        '    if runtime.closing:\n        return "maintenance"\n',
        "",
    ),
)

MUTANTS = (*_ENGINE, *_LOGS, *_VALKEY, *_PROCESS, *_ROUTES)
