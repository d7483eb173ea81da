"""The history of the prompt: who can read it, what it keeps, and what it survives."""

import logging
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.prompt import _history_file
from coreason_client.cli.prompt._history_file import HistoryFile


def test_lines_come_back_in_order_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "history"
    history = HistoryFile(path)
    assert history.load() == []
    for text in ("one", "two\nlines 漢字", "two\nlines 漢字", "one"):
        history.append(text)
    assert HistoryFile(path).load() == ["one", "two\nlines 漢字", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@given(st.lists(st.text(), max_size=5))
def test_every_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("history") / "file"
    history = HistoryFile(path)
    for text in texts:
        history.append(text)
    kept = [text for index, text in enumerate(texts) if index == 0 or text != texts[index - 1]]
    assert HistoryFile(path).load() == kept


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"one"\n\xff\xfe\n{"a": 1}\n"half\n\n"two"\n"cut off')
    assert HistoryFile(path).load() == ["one", "two"]


def test_a_large_file_keeps_its_latest_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history_file, "MAX_BYTES", 200)
    history = HistoryFile(tmp_path / "history")
    for number in range(100):
        history.append(f"line {number:04}")
    found = history.load()
    assert found[-1] == "line 0099"
    assert 5 <= len(found) <= 20
    assert found == [f"line {number:04}" for number in range(100 - len(found), 100)]
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["history"]
    before = len(found)
    history.append("x" * 100_000)  # a paste that is not worth keeping
    assert len(history.load()) == before


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"

    def write(name: str) -> None:
        history = HistoryFile(path)
        for number in range(50):
            history.append(f"{name} {number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    found = HistoryFile(path).load()
    assert sorted(found) == sorted(f"{name} {number}" for name in "abc" for number in range(50))


def test_a_file_that_was_replaced_meanwhile_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    HistoryFile(path).append("old")
    real = _history_file._open
    replaced: list[bool] = []

    def replace_after_open(name: Path) -> int:
        fd = real(name)
        if not replaced:
            replaced.append(True)
            (tmp_path / "other").write_text('"new"\n')
            (tmp_path / "other").replace(path)
        return fd

    monkeypatch.setattr(_history_file, "_open", replace_after_open)
    HistoryFile(path).append("mine")
    assert HistoryFile(path).load() == ["new", "mine"]


def test_a_file_that_cannot_be_used_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = HistoryFile(tmp_path)  # a directory
    with caplog.at_level(logging.WARNING):
        assert history.load() == []
        history.append("one")
        history.append("two")
    assert len(caplog.messages) == 1
    assert str(tmp_path) in caplog.messages[0]
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    nothing = HistoryFile(None)
    nothing.append("one")
    assert nothing.load() == []
