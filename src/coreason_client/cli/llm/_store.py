"""The saved conversations in an SQLite file; several processes can use it at the same time.

Each operation opens the file, so a command holds no lock while a model answers. The file and its
directory are readable by the owner only.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..exits import Failure
from ._turns import COLUMNS, SavedTurn, Summary, turn_of, turn_row

if TYPE_CHECKING:
    from sqlite3 import Connection

LOCK_TIMEOUT = 5.0  # seconds to wait for another process
_VERSION = 1
_SCHEMA = (
    """
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL,
        time TEXT NOT NULL,
        model TEXT NOT NULL,
        provider TEXT,
        base_url TEXT,
        system TEXT,
        messages TEXT NOT NULL,
        usage TEXT NOT NULL,
        seconds REAL,
        complete INTEGER NOT NULL,
        question TEXT NOT NULL,
        answer TEXT NOT NULL
    )
    """,
    "CREATE INDEX turns_by_conversation ON turns (conversation, id)",
    "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE turn_blobs (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        sha256 TEXT NOT NULL REFERENCES blobs (sha256),
        PRIMARY KEY (turn, sha256)
    ) WITHOUT ROWID
    """,
    f"PRAGMA user_version = {_VERSION}",
)
_NAMES = ", ".join(COLUMNS)
_INSERT = f"INSERT INTO turns ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_SUMMARIES = """
    SELECT newest.conversation, newest.time, newest.model, turns, oldest.question
    FROM (
        SELECT COUNT(*) AS turns, MAX(id) AS last, MIN(id) AS first
        FROM turns {where} GROUP BY conversation ORDER BY last DESC LIMIT :limit
    )
    JOIN turns AS newest ON newest.id = last JOIN turns AS oldest ON oldest.id = first
    ORDER BY last DESC
"""
_SEARCH = """
    WHERE conversation IN (
        SELECT conversation FROM turns WHERE contains(question, :text) OR contains(answer, :text)
    )
"""


class StoreError(Failure):
    """The saved conversations cannot be used; the message begins with the path of the file."""


class ConversationStore:
    """The conversations in a file, which is created when the first turn is saved."""

    def __init__(self, path: Path, lock_timeout: float | None = None) -> None:
        self.path = path
        self._lock_timeout = LOCK_TIMEOUT if lock_timeout is None else lock_timeout

    def save(self, turn: SavedTurn) -> None:
        """Add a turn to its conversation.

        Raises:
            StoreError: it cannot be saved.
        """
        with self._errors():
            row, blobs = turn_row(turn)
            _create_private(self.path)
        with self._write() as db:
            added = db.execute(_INSERT, row).lastrowid
            for digest, content in blobs.items():
                db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, content))
                db.execute("INSERT INTO turn_blobs VALUES (?, ?)", (added, digest))

    def turns(self, conversation: str) -> list[SavedTurn]:
        """Return the turns of a conversation.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        with self._read() as db:
            if db is None:
                return []
            found = db.execute(
                f"SELECT {_NAMES} FROM turns WHERE conversation = ? ORDER BY id",  # noqa: S608
                (conversation,),
            ).fetchall()
            blobs = dict(
                db.execute(
                    "SELECT sha256, content FROM blobs WHERE sha256 IN (SELECT sha256 "
                    "FROM turn_blobs JOIN turns ON turn = id WHERE conversation = ?)",
                    (conversation,),
                ).fetchall()
            )
            return [turn_of(row, blobs) for row in found]

    def conversations(self, limit: int, text: str = "") -> list[Summary]:
        """Return the latest conversations, the latest first; -1 means no limit.

        With `text`, only those with a question or an answer that contains it.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        with self._read() as db:
            if db is None:
                return []
            db.create_function("contains", 2, _contains, deterministic=True)
            query = _SUMMARIES.format(where=_SEARCH if text else "")
            rows = db.execute(query, {"limit": limit, "text": text.casefold()})
            return [Summary(*row) for row in rows]

    def ids(self, prefix: str, limit: int) -> list[str]:
        """Return the ids of conversations that begin with a prefix.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        query = (
            "SELECT DISTINCT conversation FROM turns "
            "WHERE substr(conversation, 1, ?) = ? ORDER BY conversation LIMIT ?"
        )
        return self._texts(query, (len(prefix), prefix, limit))

    def models(self) -> list[str]:
        """Return the models that have answered.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        return self._texts("SELECT DISTINCT model FROM turns ORDER BY model", ())

    def delete(self, conversation: str) -> None:
        """Delete a conversation, and attachments that no other conversation has.

        Raises:
            StoreError: it cannot be deleted.
        """
        with self._write() as db:
            db.execute("DELETE FROM turns WHERE conversation = ?", (conversation,))
            db.execute("DELETE FROM blobs WHERE sha256 NOT IN (SELECT sha256 FROM turn_blobs)")

    def _texts(self, query: str, values: tuple[Any, ...]) -> list[str]:
        with self._read() as db:
            return [] if db is None else [text for (text,) in db.execute(query, values)]

    @contextmanager
    def _read(self) -> "Iterator[Connection | None]":
        """Return a connection, None if nothing has been saved yet."""
        with self._errors():
            if not self.path.exists():
                yield None
                return
            with closing(self._connect()) as db:
                yield db if _version(db) else None

    @contextmanager
    def _write(self) -> "Iterator[Connection]":
        """Return a connection inside a transaction."""
        with self._errors(), closing(self._connect()) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or rolls back after an error
                if not _version(db):
                    for statement in _SCHEMA:
                        db.execute(statement)
                yield db

    def _connect(self) -> "Connection":
        import sqlite3

        return sqlite3.connect(self.path, timeout=self._lock_timeout, isolation_level=None)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            import sqlite3
        except ImportError:
            raise StoreError(f"{self.path}: this Python has no sqlite3") from None
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path}: a turn is damaged: {error}") from None


def _contains(text: str, part: str) -> bool:
    return part in text.casefold()


def _version(db: "Connection") -> int:
    """Return the version of the tables, 0 if there are none.

    Raises:
        OSError: a newer version of this package has created them.
    """
    [version] = db.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise OSError(f"a newer version of coreason has written it (format {version})")
    return int(version)


def _create_private(path: Path) -> None:
    """Create the file and its directory for the owner only, and repair wider permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for private, mode in ((path.parent, 0o700), (path, 0o600)):
        if private.stat().st_mode & 0o077 and os.name == "posix":
            private.chmod(mode)
