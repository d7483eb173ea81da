"""SIGHUP: a closed terminal ends the server, anything else reads files again."""

import re
import signal
from functools import partial
from pathlib import Path

import httpx2

from coreason_client.server.process._draining_server import Hangup, is_ignored
from tests.cli.command import PATIENCE, Process


def test_a_terminal_is_closed_only_if_there_was_one() -> None:
    for had, has, closed in (
        (True, True, False),
        (True, False, True),
        (False, False, False),
        (False, True, False),
    ):
        answers = iter([had, has])
        assert Hangup(partial(next, answers)).terminal_closed() is closed


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert is_ignored()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not is_ignored()


def test_a_server_ends_with_its_terminal(tmp_path: Path) -> None:
    with Process("serve", "--port", "0", cwd=tmp_path, terminal=True) as process:
        printed = process.expect("}'")
        [url] = re.findall(r"at (http://[\d.:]+),", printed)
        process.signal(signal.SIGHUP)  # the terminal is still there
        assert httpx2.get(f"{url}/health", timeout=PATIENCE).json()["status"] == "ok"
        process.hang_up()
        assert process.wait() >= 0  # it was not killed; its last output could not be written
