"""SIGKILL between two steps of a turn: it begins once, and its end is never lost."""

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import IO, TypeAlias

import pytest

from coreason_client.a2a.errors import TaskNotCancelableError
from coreason_client.server.log import ValkeyStreamLog
from tests.preloaded import WITH_STORES, PreloadedProcess

from ..aio import LIMIT, aio
from ..log import postgres_server
from ..log.valkey_server import fresh_prefix, shared_cluster, shared_server
from .dying import counting, log_of
from .serving import ANN, in_state, message, served

STORES = ["valkey", "valkey_cluster"]


@pytest.fixture(params=["sqlite", "postgres", *STORES])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def place(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        return str(folder / "log.db")
    if kind == "postgres":
        return f"{postgres_server.shared_server().url} {postgres_server.fresh_schema()}"
    server = shared_cluster() if kind == "valkey_cluster" else shared_server()
    return f"{server.url} {fresh_prefix()}"


Running: TypeAlias = tuple[PreloadedProcess, IO[str]]


@contextmanager
def process(kind: str, where: str, runs: Path, point: str, *texts: str) -> Iterator[Running]:
    """Start a process; it is there with what it writes, and is killed at the end."""
    readable, writable = os.pipe()
    with os.fdopen(readable) as out, Path(os.devnull).open("rb") as null:
        child = PreloadedProcess(
            ["-m", "tests.server.a2a.dying", kind, where, str(runs), point, *texts],
            stdin=null.fileno(),
            stdout=writable,
            stderr=2,
            libraries=WITH_STORES,
        )
        os.close(writable)
        try:
            yield child, out
        finally:
            child.kill()
            child.wait(LIMIT)


def killed(kind: str, where: str, runs: Path, point: str, *texts: str) -> str:
    """Run a process until it has killed itself; return the id of its task, if it was told."""
    with process(kind, where, runs, point, *texts) as (child, out):
        assert child.wait(10 * LIMIT) == -9
        return out.readline().strip()


def test_a_turn_that_was_opened_and_not_started_is_started_once(kind: str, tmp_path: Path) -> None:
    runs, where = tmp_path / "runs", place(kind, tmp_path)
    killed(kind, where, runs, "opened", "hello")
    assert not runs.exists()

    @aio
    async def check() -> None:
        async with served(log_of(kind, where), counting(runs)) as app:
            # Sent again, and nobody else does anything.
            task = (await app.service.send(ANN, message("hello", "m0")))["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert task["artifacts"][0]["parts"] == [{"text": "You said hello."}]
            assert (await app.service.list(ANN, {}))["totalSize"] == 1

    check()
    assert runs.read_text() == "hello\n"


def test_a_further_turn_that_was_opened_and_not_started_is_started_once(
    kind: str, tmp_path: Path
) -> None:
    runs, where = tmp_path / "runs", place(kind, tmp_path)
    task_id = killed(kind, where, runs, "opened again", "ask", "hello")

    @aio
    async def check() -> None:
        async with served(log_of(kind, where), counting(runs)) as app:
            # Nobody sends anything: whoever claims the stream starts it.
            task = await in_state(app.service, task_id, "COMPLETED")
            assert task["artifacts"][0]["parts"] == [{"text": "You said hello."}]

    check()
    assert runs.read_text() == "ask\nhello\n"


@pytest.mark.parametrize("kind", STORES, indirect=True)
def test_a_turn_that_its_task_does_not_name_is_not_started(kind: str, tmp_path: Path) -> None:
    runs, where = tmp_path / "runs", place(kind, tmp_path)
    task_id = killed(kind, where, runs, "before the turn is named", "ask", "hello")

    @aio
    async def check() -> None:
        log = log_of(kind, where)
        assert isinstance(log, ValkeyStreamLog)
        async with served(log, counting(runs)) as app:
            sent = await app.service.send(ANN, message("hello", "m1", taskId=task_id))
            assert sent["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            while await log._session().indexes.due(log._keys.leases, float("inf"), 10):
                await app.runtime.orphans.close_lost()
                await asyncio.sleep(0.05)

    check()
    assert runs.read_text() == "ask\nhello\n"


@pytest.mark.parametrize("texts", [("hello",), ("ask", "hello")], ids=["first", "further"])
def test_a_task_is_complete_after_its_entries_have_expired(
    kind: str, texts: tuple[str, ...], tmp_path: Path
) -> None:
    runs, where = tmp_path / "runs", place(kind, tmp_path)
    with process(kind, where, runs, "ended", *texts) as (child, out):
        [task_id] = {out.readline().strip() for _ in texts}
        sleep(random.uniform(0.0, 0.03))
        child.kill()
    is_complete(kind, where, task_id)


@pytest.mark.parametrize("kind", STORES, indirect=True)
def test_the_state_of_a_further_turn_is_stored_before_its_entries_expire(
    kind: str, tmp_path: Path
) -> None:
    runs, where = tmp_path / "runs", place(kind, tmp_path)
    task_id = killed(kind, where, runs, "before the state is stored", "ask", "hello")
    is_complete(kind, where, task_id)


@aio
async def is_complete(kind: str, where: str, task_id: str) -> None:
    """Check that nothing of a task is lost when its entries have expired before it is read."""
    async with served(log_of(kind, where), retention=0.0) as app:
        for _ in range(2):
            await app.runtime.log.expire(0.0, 86400.0)
            await asyncio.sleep(1.2)  # longer than a lease
            await app.runtime.orphans.close_lost()
        task = await app.service.get(ANN, {"id": task_id})
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "You said hello."}]
        [listed] = (await app.service.list(ANN, {"includeArtifacts": True}))["tasks"]
        assert (listed["status"], listed["artifacts"]) == (task["status"], task["artifacts"])
        with pytest.raises(TaskNotCancelableError):
            await app.service.cancel(ANN, {"id": task_id})
