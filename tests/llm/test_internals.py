"""Each undocumented name of aiohttp and `os` may be missing."""

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import ClientSession, StreamReader

from coreason_client._fallback import report_fallback
from coreason_client.llm._internals import (
    environment_reader,
    fail_readers,
    request_function,
    unread_bytes,
)


@pytest.fixture(autouse=True)
def fresh_report(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    report_fallback.cache_clear()
    caplog.set_level(logging.DEBUG, "coreason_client")
    yield
    report_fallback.cache_clear()


class Content:
    """A reader of aiohttp, as far as it is used."""

    total_bytes = 3

    def __init__(self) -> None:
        self.error: Exception | None = None

    def _read_nowait(self, size: int) -> bytes:
        assert size == -1
        return b"abc"

    def set_exception(self, error: Exception) -> None:
        self.error = error


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if "not as expected" in record.message]
    assert {record.levelname for record in found} <= {"DEBUG"}
    return [record.message for record in found]


class Session:
    """A session of aiohttp that has only the documented method."""

    async def request(self) -> None: ...


def test_the_function_behind_a_request_is_used(caplog: pytest.LogCaptureFixture) -> None:
    assert "_request" in vars(ClientSession), "aiohttp has changed: see request_function"
    session = ClientSession.__new__(ClientSession)
    assert request_function(session) == session._request
    assert not reports(caplog)


def test_without_it_the_documented_method_is_used(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    assert request_function(session) == session.request
    [line] = reports(caplog)
    assert "aiohttp" in line


def test_what_aiohttp_still_holds_is_returned(caplog: pytest.LogCaptureFixture) -> None:
    content = Content()
    assert unread_bytes(content) == b"abc"
    content.total_bytes = 0
    assert unread_bytes(content) == b""
    assert not reports(caplog)


@pytest.mark.parametrize("name", ["_read_nowait", "total_bytes"])
def test_without_the_name_there_is_nothing_unread(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(Content, name)
    assert unread_bytes(Content()) == unread_bytes(Content()) == b""
    [line] = reports(caplog)
    assert "aiohttp" in line


def test_readers_are_told_of_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    content, error = Content(), ValueError("closed")
    fail_readers(content, error)
    assert content.error is error
    monkeypatch.delattr(Content, "set_exception")
    fail_readers(Content(), error)
    [line] = reports(caplog)
    assert "aiohttp" in line


def test_the_real_reader_has_the_names() -> None:
    assert callable(StreamReader._read_nowait)
    assert callable(StreamReader.set_exception)


class Environ(dict[str, str]):
    """A mapping without the names of `os.environ`."""


def test_the_environment_is_read_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    read = environment_reader(["COREASON_TEST_A", "COREASON_TEST_B"])
    before = read()
    assert before == read()
    monkeypatch.setenv("COREASON_TEST_A", "1")
    changed = read()
    assert changed != before
    monkeypatch.setenv("COREASON_TEST_A", "2")
    assert read() not in (before, changed)


@pytest.mark.parametrize("name", ["_data", "encodekey"])
def test_the_environment_can_be_read_without_the_name(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    odd: Any = Environ(COREASON_TEST_A="1")
    if name == "encodekey":
        odd._data = {}
    else:
        odd.encodekey = str
    monkeypatch.setattr(os, "environ", odd)
    read = environment_reader(["COREASON_TEST_A", "COREASON_TEST_B"])
    assert read() == read() == ("1", None)
    [line] = reports(caplog)
    assert line.startswith("os.environ is not as expected")
