"""Lines that are read without an editor."""

import io

import pytest

from coreason_client.cli.prompt._reader import LineCleared, PlainReader, is_yes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_of_a_pipe_are_read_and_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n two \n"))
    reader = PlainReader()
    assert [reader.read(), reader.read()] == ["one\n", " two \n"]
    with pytest.raises(EOFError):
        reader.read()
    assert not reader.confirm("Overwrite it?")
    assert "Overwrite" not in capsys.readouterr().err
    assert "not a terminal" in reader.switch_mode()


@pytest.mark.parametrize(("answer", "yes"), [("y\n", True), ("", False), ("no\n", False)])
def test_a_terminal_without_an_editor_is_asked(
    answer: str, yes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert PlainReader().confirm("Overwrite it?") is yes


def test_yes_has_two_forms() -> None:
    assert [is_yes(text) for text in ("y", " YES ", "", "n", "yep")] == [True, True, *[False] * 3]


def test_ctrl_c_is_a_line_without_a_known_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("coreason_client.cli.prompt._reader.prompt", interrupt)
    with pytest.raises(LineCleared) as caught:
        PlainReader().read()
    assert caught.value.text == ""
