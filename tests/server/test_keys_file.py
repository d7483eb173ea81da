"""A file of keys: what it may hold, when it is read again, and that no valid key is refused."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import ArgumentError
from coreason_client.server import AgentApp, running
from coreason_client.server import _keys_file as module
from coreason_client.server._keys_file import KeysFile, Settling, ValidFile, parse_keys
from coreason_client.server.http._auth import Keys
from coreason_client.server.http._problems import Problem
from tests.each import each

from .peer import LIMIT, Peer, envelope

HERE = Path("keys.txt")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("one", {"one": ""}),
        ("one\r\ntwo\r\n", {"one": "", "two": ""}),
        (
            "\ufeffone ann\n\n  # two\n\tthree\tbob and co  \n",
            {"one": "ann", "three": "bob and co"},
        ),
        ("a#b # c", {"a#b": "# c"}),
        ("k=1:2 Zoë", {"k=1:2": "Zoë"}),
    ],
)
def test_keys_and_names(text: str, keys: dict[str, str]) -> None:
    assert parse_keys(HERE, text.encode()) == keys


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file contains no key"),
        (b"# nothing\n\n", "the file contains no key"),
        (b"good\nsecret\n\nsecret\n", "line 4 has the same key as line 2"),
        (b"good\nsecret\xff\n", "line 2 is not UTF-8"),
        ("schlüssel\n".encode(), "line 1: a key must consist of printable ASCII characters"),
        (b"sec\x07ret\n", "line 1: a key must consist of printable ASCII characters"),
        (b"secret a\x07b\n", "line 1: a name must consist of printable characters"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(data: bytes, says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_keys(HERE, data)
    assert str(caught.value) == f"api_keys_file keys.txt: {says}"


@given(st.binary(max_size=60))
def test_any_bytes_give_keys_or_an_error(data: bytes) -> None:
    keys: Mapping[str, str] = {}
    with contextlib.suppress(ArgumentError):
        keys = parse_keys(HERE, data)
        assert keys
    assert all(key.isascii() and key.isprintable() and " " not in key for key in keys)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "keys.txt", "one ann\n")


def write(path: Path, text: str) -> Path:
    """Replace a file in one step, as the documentation says."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    return new.replace(path)


def known(keys: Keys, *candidates: str) -> dict[str, str]:
    """Return the principals of those keys that are accepted."""
    found = {}
    for key in candidates:
        with contextlib.suppress(Problem):
            found[key] = keys.principal(f"Bearer {key}")
    return found


# When a file is read again.


def test_a_change_counts_when_it_was_seen_twice() -> None:
    one, two, three = (1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0)
    settling = Settling(one)
    assert [settling.is_due(seen) for seen in (one, one, two, three, None)] == [False] * 5
    assert settling.is_due(None)  # it was removed
    settling.mark_read(None)
    assert not settling.is_due(None)
    assert not settling.is_due(two)
    assert settling.is_due(two)


@given(st.lists(st.sampled_from([None, (1, 0, 0, 0), (2, 0, 0, 0)]), max_size=12))
def test_a_version_that_stays_is_read_exactly_once(seen: list[Any]) -> None:
    settling, read = Settling(None), []
    for version in [*seen, (9, 9, 9, 9), (9, 9, 9, 9), (9, 9, 9, 9)]:
        if settling.is_due(version):
            settling.mark_read(version)
            read.append(version)
    assert read[-1] == (9, 9, 9, 9)
    assert all(first != second for first, second in pairwise(read))


def test_the_old_and_the_new_key_of_a_principal_work_together(path: Path) -> None:
    file = KeysFile(path, Keys({"fixed": "root", "one": "somebody"}))
    assert known(file.keys, "one", "two", "fixed") == {"one": "ann", "fixed": "root"}
    for text, expected in (
        ("one ann\ntwo ann\n", {"one": "ann", "two": "ann", "fixed": "root"}),
        ("two ann\n", {"one": "somebody", "two": "ann", "fixed": "root"}),
    ):
        write(path, text)
        file.check()  # may be in the middle of a write
        file.check()
        assert known(file.keys, "one", "two", "fixed") == expected


@each(
    ("content", "reason"),
    [
        ("", "the file contains no key"),
        ("one ann\ntwo\x07\n", "line 2: a key must consist of printable ASCII characters"),
        ("ticket1.x ann\n", "a key must not begin with ticket1., as tickets do"),
        (None, "no such file or directory"),
    ],
)
def test_a_broken_file_keeps_the_keys_and_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture, content: str | None, reason: str
) -> None:
    write(path, "one ann\n")
    file = KeysFile(path)
    caplog.clear()
    path.unlink() if content is None else write(path, content)
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        for _ in range(5):
            file.check()
        assert known(file.keys, "one") == {"one": "ann"}
        write(path, "two ann\n")
        for _ in range(3):
            file.check()
    assert known(file.keys, "one", "two") == {"two": "ann"}
    [error, again] = caplog.records
    assert error.getMessage() == (
        f"the keys were not read again, and those from before still apply: {path}: {reason}"
    )
    assert (error.levelname, again.levelname) == ("ERROR", "INFO")
    assert "two" not in caplog.text.replace(str(path), "")


def test_a_process_that_starts_with_a_broken_file_uses_the_keys_from_before(path: Path) -> None:
    before = ValidFile(path)
    write(path, "two ann\n")
    before.read()
    assert before.read() == "two ann\n"
    write(path, "")
    assert [before.read() for _ in range(3)] == ["two ann\n"] * 3
    assert known(KeysFile(path, before=before.read()).keys, "one", "two") == {"two": "ann"}
    with pytest.raises(ArgumentError, match="the file contains no key"):
        KeysFile(path)
    write(path, "three\n")
    assert known(KeysFile(path, before="two ann").keys, "two", "three").keys() == {"three"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_the_place_of_the_file_stops_nothing(path: Path) -> None:
    write(path, "one ann\n")
    file, valid = KeysFile(path), ValidFile(path)
    path.unlink()
    os.mkfifo(path, 0o600)

    def use() -> None:
        file.reload()
        for _ in range(3):
            valid.read()

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive()
    writer = os.open(path, os.O_RDWR)  # it has not written yet
    file.reload()
    os.close(writer)
    assert known(file.keys, "one") == {"one": "ann"}
    assert valid.read() == "one ann\n"


# On a real server.


async def agent(request: Any, stream: Any) -> None:
    await stream.write("hello")


@contextmanager
def served(path: Path, **options: Any) -> Iterator[tuple[AgentApp, str]]:
    app = AgentApp(agent, api_keys_file=path, drain_timeout=0, **options)
    with running(app) as server:
        yield app, server.url


def test_no_request_with_a_valid_key_is_refused_during_a_rotation(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients use the old key until the new one is in the file, and then the new one."""
    monkeypatch.setattr(module, "_INTERVAL", 0.005)
    current, stop = ["key-0"], threading.Event()
    write(path, "key-0 ann\n")
    statuses: list[int] = []

    def ask(url: str) -> None:
        with httpx2.Client(base_url=url, timeout=LIMIT) as http:
            while not stop.is_set():
                headers = {"Authorization": f"Bearer {current[0]}"}
                statuses.append(http.get("/streams/none", headers=headers).status_code)

    with served(path) as (_, url), httpx2.Client(base_url=url, timeout=LIMIT) as http:
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(1, 6):
                write(path, f"key-{number - 1} ann\nkey-{number} ann\n")
                wait_for(http, f"key-{number}", accepted=True)
                current[0] = f"key-{number}"
                seen = len(statuses)
                while len(statuses) < seen + 2 * len(threads):  # all have changed their key
                    stop.wait(0.001)
                write(path, f"key-{number} ann\n")
                wait_for(http, f"key-{number - 1}", accepted=False)
        finally:
            stop.set()
            for thread in threads:
                thread.join(LIMIT)
    assert set(statuses) == {404}  # and never 401


def wait_for(http: httpx2.Client, key: str, *, accepted: bool) -> None:
    for _ in range(2000):
        headers = {"Authorization": f"Bearer {key}"}
        if (http.get("/streams/none", headers=headers).status_code != 401) is accepted:
            return
    raise AssertionError(f"{key} is still {'refused' if accepted else 'accepted'}")


def test_a_stream_of_the_old_key_is_read_with_the_new_one(path: Path) -> None:
    with served(path, metrics=True) as (app, url):
        peers = old, new = Peer(url, "one"), Peer(url, "two")
        body = envelope()
        first = old.ask(body)
        assert first.text == "hello"
        assert new.ask(envelope()).status == 401
        write(path, "one ann\ntwo ann\n")
        app.reload_keys()
        assert new.ask(body, f"{first.stream_id}:0").text == "hello"
        write(path, "two ann\n")
        app.reload_keys()
        assert (old.ask(envelope()).status, new.ask(envelope()).status) == (401, 200)
        # Without its own key, /metrics follows.
        assert [peer.http.get("/metrics").status_code for peer in peers] == [401, 200]
        for peer in peers:
            peer.close()


def test_an_application_without_a_file_has_nothing_to_read_again() -> None:
    AgentApp(agent, api_keys=["k"]).reload_keys()
    with pytest.raises(ValueError, match="api_keys_file nowhere: no such file"):
        AgentApp(agent, api_keys_file="nowhere")
