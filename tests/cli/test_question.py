"""The question of a command is an argument, stdin, or both; it waits for neither in vain."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coreason_client.cli import _question
from coreason_client.cli._question import joined_words, question
from coreason_client.cli.exits import Failure

from .command import COMMAND, PATIENCE, coreason_here, environment
from .conftest import Service
from .models import MODEL, answer, model


@contextmanager
def stdin_from(fd: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with os.fdopen(fd) as file, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", file)
        yield


def pipe_with(text: str) -> int:
    ours, theirs = os.pipe()
    os.write(theirs, text.encode())
    os.close(theirs)
    return ours


@pytest.mark.parametrize(
    ("words", "piped", "asked"),
    [
        (["Explain:"], "x = 1\n", "Explain:\n\nx = 1"),
        (["Explain:", "-"], "x = 1\n", "Explain:\n\nx = 1"),
        (["Explain:"], "", "Explain:"),
        (["Explain:"], " \n", "Explain:"),
        (["-"], "x = 1\n", "x = 1"),
        ([], "x = 1\ny = 2\n", "x = 1\ny = 2"),
        (None, "x = 1\n", "x = 1"),
    ],
)
def test_an_argument_is_followed_by_what_is_piped_in(
    words: list[str] | None, piped: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin_from(pipe_with(piped), monkeypatch):
        assert question(words) == asked


@pytest.mark.parametrize(
    ("words", "piped", "asked"),
    [
        ([], "", ""),
        (None, "x = 1\n", "x = 1"),
        (["Explain:"], "x = 1\n", "Explain:\n\nx = 1"),
        (["-"], "x = 1\n", "x = 1"),
    ],
)
def test_a_question_can_be_optional(
    words: list[str] | None, piped: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin_from(pipe_with(piped), monkeypatch):
        assert question(words, optional=True) == asked


def test_a_used_stdin_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin_from(pipe_with("a file"), monkeypatch):
        assert question(["Explain:"], optional=True, stdin_is_used=True) == "Explain:"
        assert question([], optional=True, stdin_is_used=True) == ""
        with pytest.raises(Failure, match="stdin is already the attachment"):
            question(["Explain:", "-"], optional=True, stdin_is_used=True)
        assert sys.stdin.read() == "a file"


@pytest.mark.parametrize("words", [["a", "b"], ["-", "-", "a"], [""], [" "], []])
def test_no_question_or_several_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin_from(pipe_with(""), monkeypatch), pytest.raises(Failure):
        question(words)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (None, []),
        (["what"], ["what"]),
        (["what", "is", "SSE"], ["what is SSE"]),
        (["what  is", "this"], ["what  is this"]),
        (["-"], ["-"]),
        (["explain", "this", "-"], ["explain this", "-"]),
        (["-", "explain"], ["explain", "-"]),
        (["7", "-", "3"], ["7 - 3"]),
        (["-", "-"], ["-", "-"]),
    ],
)
def test_words_without_quotes_are_one_text(words: list[str] | None, arguments: list[str]) -> None:
    assert joined_words(words) == arguments


def never_closed_pipe() -> tuple[int, Callable[[], None]]:
    ours, theirs = os.pipe()
    return ours, lambda: os.close(theirs)


def never_closed_socket() -> tuple[int, Callable[[], None]]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.close


@pytest.mark.parametrize("make", [never_closed_pipe, never_closed_socket])
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    make: Callable[[], tuple[int, Callable[[], None]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_question, "FIRST_BYTE_TIMEOUT", 0.05)
    fd, close = make()
    with stdin_from(fd, monkeypatch):
        assert question(["Hello"]) == "Hello"
    close()
    assert re.fullmatch(r"warning: nothing arrived on stdin within .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_a_device_is_not_read_beside_an_argument(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin_from(os.open(path, os.O_RDONLY), monkeypatch):
        assert question(["Hello"]) == "Hello"


def test_a_file_is_read_and_a_closed_stdin_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("from a file\n")
    with stdin_from(os.open(tmp_path / "x", os.O_RDONLY), monkeypatch):
        assert question(["Hello"]) == "Hello\n\nfrom a file"
    monkeypatch.setattr("sys.stdin", None)
    assert question(["Hello"]) == "Hello"
    with pytest.raises(Failure):
        question([])


# The commands


def test_chat_and_llm_ask_both(service: Service) -> None:
    done = coreason_here("chat", "--url", service.url, "Explain:", stdin="this\n")
    assert done.stdout == "Before: []. Now: Explain:\n\nthis.\n"
    done = coreason_here("chat", "--url", service.url, "-", stdin="this\n")
    assert done.stdout == "Before: []. Now: this.\n"
    with model(answer("Yes.")) as served:
        coreason_here("llm", "--model", MODEL, "Explain:", stdin="this\n", env=served.env)
    assert served.sent() == [("user", "Explain:\n\nthis")]


@pytest.fixture(scope="module")
def peer(a2a_peer: str) -> str:
    return f"{a2a_peer}/rest-1.0"


@pytest.mark.parametrize(
    ("command", "arguments", "stdin"),
    [
        ("send", ["-"], "hello my\n\nAnn\n"),
        ("send", ["hello my"], "Ann\n"),
        ("stream", ["hello my"], "Ann\n"),
    ],
)
def test_a2a_asks_both(peer: str, command: str, arguments: list[str], stdin: str) -> None:
    done = coreason_here("a2a", command, peer, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Hello, my\n\nAnn!\n"


def test_a_closed_stdin_is_no_question_and_no_traceback(service: Service) -> None:
    line = [*COMMAND, "chat", "--url", service.url]
    for arguments, code in ((["hello"], 0), ([], 2)):
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" <&-', "sh", *line, *arguments],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
