"""The editor of the prompt; the only module that imports prompt_toolkit."""

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession

from ..output import clean, print_stdout, typed_ahead
from ._history_file import HistoryFile
from ._line_rules import (
    SAY_LINE,
    Edit,
    after_alt_enter,
    after_enter,
    after_keys,
    after_typed_ahead,
    completed_words,
    file_prefix,
)
from ._reader import LineCleared, ReadInterrupted, is_yes

_TERMINATED = 128 + signal.SIGTERM


class Editor:
    """Reads messages of one or more lines from a terminal."""

    editing = True

    def __init__(self, prompt: str, history: HistoryFile) -> None:
        self._multi = False
        self.typed = ""
        self._gives_way: Callable[[], bool] = bool
        self._output = _terminal_output()
        self._session: PromptSession[str] = PromptSession(
            prompt,
            prompt_continuation=_continuation,
            multiline=True,  # the keys decide, see `_line_rules`
            key_bindings=self._key_bindings(),
            history=_StoredHistory(history),
            completer=_SlashCompleter(),
            complete_while_typing=False,
            # A list below the line, as in shells: a menu would need to know the cursor's position.
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            search_ignore_case=True,
            enable_suspend=True,
            include_default_pygments_style=False,
            output=self._output,
        )

    def read(self, gives_way: Callable[[], bool] = bool, *, asked: bool = False) -> str:
        """Return the next message.

        Raises:
            EOFError: Ctrl-D was pressed.
            LineCleared: Ctrl-C was pressed.
            ReadInterrupted: `gives_way` has returned True; the prompt has disappeared.
            SystemExit: SIGTERM has arrived; the terminal is as before.
        """
        print_stdout("")
        try:
            with _exit_on_sigterm():
                typed, self.typed = after_keys(self.typed + typed_ahead(sys.stdin.fileno())), ""
                text, sends = after_typed_ahead(clean(typed), multi=self._multi, asked=asked)
                self._gives_way = bool if sends else gives_way
                self._session.app.erase_when_done = False
                return self._session.prompt(
                    default=text, accept_default=sends, pre_run=self._give_way
                )
        except LineCleared:
            raise
        except KeyboardInterrupt:  # before or after the terminal was in raw mode
            raise LineCleared from None

    def interrupt(self) -> None:
        """Make a `read` that waits call `gives_way`; from any thread."""
        if (loop := self._session.app.loop) is not None:
            with suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._give_way)

    def _give_way(self) -> None:
        app = self._session.app
        if app.is_running and not app.is_done and self._gives_way():
            self.typed = self._session.default_buffer.text
            app.erase_when_done = True
            app.exit(exception=ReadInterrupted)

    def typing(self, say: Callable[[str], object]) -> str:
        """Return the last line that was typed while an answer is shown."""
        typed = after_keys(self.typed + typed_ahead(sys.stdin.fileno(), keeps_raw=True))
        for text in SAY_LINE.findall(typed):
            say(clean(text).strip())
        self.typed = SAY_LINE.sub("", typed)
        return clean(self.typed.rstrip("\n").rpartition("\n")[2])

    def switch_mode(self) -> str:
        """Switch between sending with Enter and with Alt-Enter; return a sentence about it."""
        self._multi = not self._multi
        if self._multi:
            return "Enter starts a new line; Alt-Enter (or Esc, then Enter) sends the message."
        return "Enter sends the message; Alt-Enter or Ctrl-J starts a new line."

    def confirm(self, question: str) -> bool:
        """Return True if the user answers yes."""
        session: PromptSession[str] = PromptSession(output=self._output)
        try:
            return is_yes(session.prompt(f"{question} [y/N] "))
        except (EOFError, KeyboardInterrupt):
            return False

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)  # and not searching the history

        @keys.add("enter", filter=typing)
        def _enter(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            _apply(event, after_enter(buffer.text, buffer.cursor_position, multi=self._multi))

        @keys.add("escape", "enter", filter=typing)
        def _alt_enter(event: KeyPressEvent) -> None:
            _apply(event, after_alt_enter(multi=self._multi))

        @keys.add("c-j", filter=typing)
        def _ctrl_j(event: KeyPressEvent) -> None:
            _apply(event, Edit.NEW_LINE)

        @keys.add("c-c", filter=typing)
        @keys.add("<sigint>")
        def _ctrl_c(event: KeyPressEvent) -> None:
            event.app.exit(exception=LineCleared(event.current_buffer.text), style="class:aborting")

        @keys.add("c-@")
        def _ignore(event: KeyPressEvent) -> None:
            """Do nothing; a Ctrl-D that was pressed during an answer arrives as this key."""

        return keys


def _apply(event: KeyPressEvent, edit: Edit) -> None:
    buffer = event.current_buffer
    if edit is Edit.SEND:
        buffer.validate_and_handle()
        return
    if edit is Edit.REPLACE_BACKSLASH:
        buffer.delete_before_cursor()
    buffer.insert_text("\n")


def _continuation(width: int, line_number: int, is_soft_wrap: int) -> str:
    """Return the text before the second and later lines: as wide as the prompt."""
    return " " * width


def _terminal_output() -> Output:
    output = create_output(stdout=sys.stdout)
    if isinstance(output, Vt100_Output):
        # The reply of a slow terminal could arrive when nobody waits for it any more.
        output.enable_cpr = False
    return output


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Exit on SIGTERM in the usual way, which restores the terminal."""

    def exit_(number: int, frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, exit_)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _StoredHistory(History):
    """The history of the editor, in the file."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """Return the lines, the latest first."""
        return reversed(self._file.load())

    def store_string(self, string: str) -> None:
        """Add a line."""
        self._file.append(string)


class _SlashCompleter(Completer):
    """Completes commands, and the names of files after those that take one."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Any:
        """Return the completions at the cursor."""
        before = document.text_before_cursor
        for word in completed_words(before):
            yield Completion(word, start_position=-len(before), display=word.strip())
        if (prefix := file_prefix(before)) is not None:
            for found in self._paths.get_completions(Document(prefix), complete_event):
                path = Path(prefix + found.text).expanduser()
                slash = "/" if path.is_dir() else ""
                yield Completion(f"{found.text}{slash}", found.start_position, found.display)
