"""The log of a replica, in Valkey or in Postgres, and one that records its acknowledgements."""

import os
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from coreason_client.server import Fenced, ValkeyStreamLog
from coreason_client.server.log import DurableLog, Notes, PostgresStreamLog

from .options import ReplicaOptions


def make_log(options: ReplicaOptions) -> DurableLog:
    """Return the log of a replica."""
    kind = PostgresStreamLog if options.in_postgres else ValkeyStreamLog
    return kind(options.url, **_arguments(options))


class NotingLog(DurableLog):
    """The first base of a log that writes a line to a file for each acknowledgement of its store.

    A line is written with one call, so it is complete or absent if the process is killed.
    """

    def __init__(self, options: ReplicaOptions, notes: str) -> None:
        super().__init__(options.url, **_arguments(options))  # type: ignore[call-arg]
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._taken_over: set[tuple[UUID, int]] = set()
        self._continued: set[tuple[UUID, int]] = set()

    def note(self, *words: object) -> None:
        os.write(self._notes, f"{' '.join(map(str, words))}\n".encode())

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        try:
            cancel = await super().append(  # type: ignore[safe-super]
                stream_id, epoch, first_seq, entries, notes
            )
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        if entries:
            self._note_entries(stream_id, epoch, first_seq, len(entries))
        elif epoch > 1:  # the note of a restart
            self._note_takeover(stream_id, epoch)
        return cancel

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        try:
            await super().close(  # type: ignore[safe-super]
                stream_id, epoch, first_seq, entries, outcome
            )
        except Fenced:
            self.note("fenced", stream_id, epoch)
            raise
        self._note_entries(stream_id, epoch, first_seq, len(entries))
        if epoch > 1:
            self._note_takeover(stream_id, epoch)

    async def release(self, stream_id: UUID, epoch: int) -> None:
        self.note("released", stream_id, epoch, time.monotonic())
        await super().release(stream_id, epoch)  # type: ignore[safe-super]

    def _note_takeover(self, stream_id: UUID, epoch: int) -> None:
        if (stream_id, epoch) not in self._taken_over:
            self._taken_over.add((stream_id, epoch))
            self.note("takeover", stream_id, epoch, time.monotonic())

    def _note_entries(self, stream_id: UUID, epoch: int, first_seq: int, number: int) -> None:
        self.note("ack", stream_id, epoch, first_seq, number)
        if epoch > 1 and (stream_id, epoch) not in self._continued:
            self._continued.add((stream_id, epoch))
            self.note("continued", stream_id, epoch, time.monotonic())


class NotingValkeyLog(NotingLog, ValkeyStreamLog):
    """The Valkey log with a record of its acknowledgements."""


class NotingPostgresLog(NotingLog, PostgresStreamLog):
    """The Postgres log with a record of its acknowledgements."""


def make_noting_log(options: ReplicaOptions, notes: str) -> NotingLog:
    """Return the log of a replica that records acknowledgements in a file."""
    kind = NotingPostgresLog if options.in_postgres else NotingValkeyLog
    return kind(options, notes)


def _arguments(options: ReplicaOptions) -> dict[str, Any]:
    """Return the arguments of the log beside its address."""
    found = {
        "schema" if options.in_postgres else "prefix": options.prefix,
        "lease": options.lease,
        "patience": options.patience,
    }
    if options.cluster:
        found["cluster"] = True
    if options.confirmations:
        found["replicas"] = options.confirmations
    return found
