"""gRPC in forked processes."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coreason_client import _ownership
from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.a2a._grpc._connection import ForkSupport
from tests.a2a.grpc.scripted import LIMIT, scripted, text, working

REFUSED = "gRPC was used before this process was forked, and does not work in it"
OLD_STREAM = (
    "child stream this stream was started before a fork, in the parent process; start a new one"
)


@pytest.mark.parametrize(
    ("kind", "switch", "child"),
    [
        ("sync", "1", [OLD_STREAM, "child hello"]),
        ("sync", "0", [OLD_STREAM, f"child {REFUSED}"]),
        ("async", "1", [f"child {REFUSED}"]),
    ],
)
def test_a_forked_child_works_or_gets_an_error(kind: str, switch: str, child: list[str]) -> None:
    over = threading.Event()

    def stream(request: Any, context: Any) -> Iterator[Any]:
        context.add_callback(over.set)
        yield working()
        over.wait(LIMIT)

    with scripted(SendMessage=lambda r, c: text("hello"), SendStreamingMessage=stream) as (at, _):
        found = subprocess.run(
            [sys.executable, "-m", "tests.a2a.grpc.fork_program", kind, at],
            cwd=Path(__file__).parents[3],
            env=os.environ | {"GRPC_ENABLE_FORK_SUPPORT": switch},
            capture_output=True,
            text=True,
            timeout=LIMIT * 2,
            check=True,
        )
    lines = [
        line.partition(";")[0] if REFUSED in line else line for line in found.stdout.splitlines()
    ]
    assert lines == ["parent hello", *child, "status 0", "parent hello"]


@pytest.fixture
def in_child(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend to be in a forked child from now on."""
    return lambda: monkeypatch.setattr(_ownership, "_generation", _ownership._generation + 1)


# Which API was used before the fork, which is used after it, and whether that works.
@pytest.mark.parametrize(
    ("before", "after", "works"),
    [
        (None, False, True),
        (None, True, True),
        (False, False, True),
        (False, True, False),
        (True, False, False),
        (True, True, False),
    ],
)
def test_what_works_in_a_child(
    before: bool | None, after: bool, works: bool, in_child: Any
) -> None:
    support = ForkSupport()
    if before is not None:
        support.check(is_async=before)
        support.check(is_async=before)
    in_child()
    if works:
        support.check(is_async=after)
        return
    with pytest.raises(TransportFailure, match=REFUSED) as caught:
        support.check(is_async=after)
    assert caught.value.kind is FailureKind.CONNECT


@pytest.mark.parametrize("value", ["0", "False"])
def test_the_switch_of_grpc(value: str, in_child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", value)
    support = ForkSupport()
    support.check(is_async=False)
    in_child()
    with pytest.raises(TransportFailure, match=REFUSED):
        support.check(is_async=False)
