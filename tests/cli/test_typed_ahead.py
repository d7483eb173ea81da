"""The keys typed before a prompt, from the buffer of a real terminal."""

import os
import pty
import select
import termios

import pytest

from coreason_client.cli.output import typed_ahead


@pytest.mark.parametrize("typed", ["", "half a li", "one\r", "one\rtwo 漢字", "a\x7fb\r\r"])
def test_complete_and_unfinished_lines_are_taken(typed: str) -> None:
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        os.write(ours, typed.encode())
        if typed:  # what was typed is echoed when it has arrived
            assert select.select([ours], [], [], 30)[0]
        expected = typed.replace("a\x7f", "").replace("\r", "\n")
        assert typed_ahead(theirs) == expected
        assert typed_ahead(theirs) == ""
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_terminal_of_others_is_left_alone_during_an_answer() -> None:
    """A job in the background would be stopped."""
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        os.write(ours, b"one\r")
        assert select.select([ours], [], [], 30)[0]
        assert typed_ahead(theirs, keeps_raw=True) == ""
        assert termios.tcgetattr(theirs) == before
        assert typed_ahead(theirs) == "one\n"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_pipe_has_nothing() -> None:
    ours, theirs = os.pipe()
    try:
        assert typed_ahead(ours) == ""
    finally:
        os.close(ours)
        os.close(theirs)
