"""Follows a conversation: shows what others ask there, and the answers."""

import threading
from collections.abc import Callable, Iterator
from itertools import chain
from queue import Empty, SimpleQueue
from time import sleep

from coreason_client import CAPConnectionError, CAPError, Position
from coreason_manifest.definitions.presentation import Packet

from ..exits import Failure, report_error
from ..output import open_output, print_dimmed, print_stdout
from ..prompt import LineReader
from ._answer import explained, packets_of, show_begun
from ._packets import PacketPresenter, message_of, text_of
from ._service import ChatService

_NOT_ORDERED, _GONE = 404, 410
_RETRY_SECONDS = 3.0


def follow(service: ChatService, conversation: str, *, as_json: bool) -> None:
    """Show the answers of a conversation one after the other, until Ctrl-C.

    Raises:
        CAPError, Failure: the conversation cannot be followed.
    """
    try:
        with explained(service.url), service.client.follow_conversation(conversation) as packets:
            for first in packets:
                answer = packets_of(first.stream_id, chain([first], packets))
                with PacketPresenter(open_output(as_json=as_json)) as presenter:
                    left = _show_until_ctrl_c(answer, presenter)
                if left:
                    return
                if not as_json:
                    print_stdout("")
    except KeyboardInterrupt:
        return


def _show_until_ctrl_c(answer: Iterator[Packet], presenter: PacketPresenter) -> bool:
    """Show an answer; return True if Ctrl-C was pressed, which does not stop the agent."""
    try:
        for packet in answer:
            presenter.show(packet)
    except Failure as error:  # text in a pipe cannot be taken back; the next answer can be shown
        report_error(error)
        for _ in answer:
            pass
    except KeyboardInterrupt:
        return True
    return False


class OtherTurns:
    """Reads a conversation in a thread, for a prompt that gives way to what others ask there."""

    def __init__(self, service: ChatService, conversation: str, *, as_json: bool) -> None:
        self._service = service
        self._conversation = conversation
        self._as_json = as_json
        self._queue: SimpleQueue[Packet | CAPError] = SimpleQueue()
        self._next: Packet | CAPError | None = None
        self.question = self.answer = ""

    def begin(self, interrupt: Callable[[], None]) -> None:
        """Begin to read; `interrupt` is called in the thread when something has arrived."""
        threading.Thread(target=self._read, args=[interrupt], daemon=True).start()

    def _read(self, interrupt: Callable[[], None]) -> None:
        after: Position | None = None
        last: Packet | None = None
        while True:
            following = self._service.client.follow_conversation(self._conversation, after)
            try:
                for last in following:
                    self._queue.put(last)
                    interrupt()
            except CAPConnectionError:  # a prompt may wait for longer than a client tries
                after = following.position
            except CAPError as error:
                is_gone = error.status_code == _GONE  # after a restart, or a long time
                is_over = last is None or last.is_last
                # An agent without an order has nothing to follow.
                if not is_over or error.status_code not in (_NOT_ORDERED, _GONE):
                    self._queue.put(error)
                    interrupt()
                if not is_gone:
                    return
                after = last = None
            sleep(_RETRY_SECONDS)

    def waiting(self) -> bool:
        """Return True if there is something to show; packets of shown answers are dropped."""
        while self._next is None or self._was_shown(self._next):
            try:
                self._next = self._queue.get_nowait()
            except Empty:
                self._next = None
                return False
        return True

    def _was_shown(self, found: Packet | CAPError) -> bool:
        if isinstance(found, CAPError):  # the answer that is gone was one of this prompt
            return found.status_code == _GONE
        return str(found.stream_id) in self._service.shown

    def show(self, reader: LineReader) -> bool:
        """Show the answer that is there; Ctrl-C stops its agent. True if it ends with a question.

        Raises:
            CAPError, Failure: the answer is incomplete.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        first, self._next = self._next, None
        self.question = self.answer = ""
        if first is None or isinstance(first, CAPError):
            print_dimmed(f"What others ask here is no longer shown: {first}")
            return False
        self.question, received = message_of(first.p), list[Packet]()
        service, packets, as_json = self._service, chain([first], self._packets()), self._as_json
        try:
            return show_begun(service, first.stream_id, packets, received, reader, as_json=as_json)
        finally:
            self.answer = text_of(received)

    def _packets(self) -> Iterator[Packet]:
        while True:
            found = self._queue.get()
            if isinstance(found, CAPError):
                raise found
            yield found
