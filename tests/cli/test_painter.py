"""The thread that draws: actions are performed in order, and errors reach the main thread."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from rich.console import Console

from coreason_client.cli.output import _live as _painter
from coreason_client.cli.output._live import Painter
from coreason_client.cli.output._page import AnswerPage
from coreason_client.cli.output._screen import Screen

from .terminal import Emulator, EmulatorFile

LIMIT = 10.0


class Painted:
    """A painter on an emulated terminal, which can be made to fail."""

    def __init__(self) -> None:
        self.emulator = Emulator(40, 10)
        self.error: OSError | None = None
        self.page = AnswerPage()
        console = Console(
            file=EmulatorFile(self.emulator, self._fail), force_terminal=True, width=40, height=10
        )
        self._drawings = threading.Semaphore(0)
        self.painter = Painter(self.page, Screen(console), self._status)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    def _status(self) -> str:
        self._drawings.release()
        return ""

    def write(self, text: str) -> None:
        self.painter.do(lambda: self.page.write(text))

    def wait_for_drawings(self, count: int = 2) -> None:
        """Wait until drawings have begun since now; the last but one is then complete."""
        while self._drawings.acquire(blocking=False):
            pass
        for _ in range(count):
            assert self._drawings.acquire(timeout=LIMIT)

    @property
    def is_drawing(self) -> bool:
        return any(thread.name == "coreason-painter" for thread in threading.enumerate())


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Painted]:
    monkeypatch.setattr(_painter, "_INTERVAL", 0.001)
    made = Painted()
    yield made
    with suppress(OSError):
        made.painter.stop(LIMIT)
    assert not made.is_drawing


def test_an_action_is_drawn_while_the_thread_runs(painted: Painted) -> None:
    painted.painter.start()
    painted.write("one\n\ntwo")
    painted.wait_for_drawings(3)
    assert painted.emulator.lines == ["one", "", "two"]


def test_actions_are_performed_in_order(painted: Painted) -> None:
    painted.painter.start()
    done: list[int] = []
    for number in range(200):
        painted.painter.do(lambda number=number: done.append(number))  # type: ignore[misc]
    painted.painter.stop(LIMIT)
    assert done == list(range(200))


def test_the_end_of_the_answer_is_drawn_when_the_thread_stops(painted: Painted) -> None:
    painted.painter.start()
    painted.write("unfinished")
    painted.painter.stop(LIMIT)
    assert not painted.is_drawing
    assert painted.emulator.text == "unfinished"


def test_without_the_thread_an_action_is_drawn_at_once(painted: Painted) -> None:
    painted.painter.do(lambda: painted.page.add_block("now"))
    assert painted.emulator.text == "now"
    assert not painted.is_drawing


def test_stopping_twice_and_stopping_before_the_start_are_no_errors(painted: Painted) -> None:
    painted.painter.stop(LIMIT)
    painted.painter.start()
    painted.painter.stop(LIMIT)
    painted.painter.stop(LIMIT)


def test_a_pause_removes_the_unfinished_text_until_drawing_continues(painted: Painted) -> None:
    painted.painter.start()
    painted.write("one\n\nunfinished")
    painted.wait_for_drawings(3)
    assert "unfinished" in painted.emulator.text
    painted.painter.pause()
    assert painted.emulator.lines == ["one"]
    painted.write(" still")
    painted.painter.resume()
    painted.wait_for_drawings(3)
    assert "unfinished still" in painted.emulator.text


def test_a_pause_without_the_thread_does_nothing(painted: Painted) -> None:
    painted.painter.pause()
    painted.painter.resume()
    painted.painter.start()
    painted.write("text")
    painted.painter.stop(LIMIT)
    assert painted.emulator.text == "text"


def test_an_error_of_the_terminal_is_raised_for_the_next_action_and_at_the_end(
    painted: Painted,
) -> None:
    painted.page.write("text")
    painted.error = BrokenPipeError()
    painted.painter.start()
    with pytest.raises(BrokenPipeError):
        painted.painter.stop(LIMIT)
    with pytest.raises(BrokenPipeError):
        painted.write("more")


def test_an_error_of_an_action_is_raised_too(painted: Painted) -> None:
    def fail() -> None:
        raise OSError("no")

    painted.painter.start()
    painted.painter.do(fail)
    with pytest.raises(OSError, match="no"):
        painted.painter.stop(LIMIT)


def test_a_signal_handler_can_stop_it_whatever_the_terminal_does(painted: Painted) -> None:
    painted.page.write("text")
    painted.error = BrokenPipeError()
    painted.painter.start()
    painted.painter.stop_soon()
    assert not painted.is_drawing


def test_a_terminal_that_accepts_no_output_does_not_block_a_signal_handler(
    painted: Painted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_painter, "_STOP_TIMEOUT", 0.01)
    blocked, entered = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        assert blocked.wait(LIMIT)

    painted.painter.start()
    painted.painter.do(block)
    assert entered.wait(LIMIT)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "coreason-painter"]
    painted.painter.stop_soon()
    assert thread.is_alive()
    blocked.set()
    thread.join(LIMIT)
