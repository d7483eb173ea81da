"""The reader of a conversation; the editor itself is in `test_editor.py`."""

import io

import pytest

from coreason_client.cli.prompt import open_reader
from coreason_client.cli.prompt._reader import PlainReader


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("lacking", ["stdin", "stdout", "TERM", "json", "prompt_toolkit"])
def test_the_editor_needs_a_terminal_on_both_ends(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{name}", io.StringIO() if lacking == name else Terminal())
    monkeypatch.setenv("TERM", "dumb" if lacking == "TERM" else "xterm")
    if lacking == "prompt_toolkit":
        monkeypatch.setattr("coreason_client.cli.prompt.find_spec", lambda name: None)
    with open_reader(as_json=lacking == "json") as reader:
        assert isinstance(reader, PlainReader)
