"""Pages that use the AI SDK, driven from Python: one process of Node for each major version."""

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.installed import npm_package

from ..peer import LIMIT

PACKAGES: Final = {
    5: ("ai@5.0.277", "zod@4.6.7"),
    6: ("ai@6.0.326", "zod@4.6.7"),
    7: ("ai@7.0.170", "@ai-sdk/workflow@2.0.43", "zod@4.6.7"),
}
VERSIONS: Final = tuple(PACKAGES)
APPROVALS: Final = ["tool-approval-request", "tool-approval-response"]
CAPABILITIES: Final = {5: [], 6: ["tool-approval-request"], 7: ["reset-step", *APPROVALS]}
"""The chunks beyond the oldest version that each version knows."""
_NODE: Final = ["node", "--no-warnings", str(Path(__file__).with_name("page.mjs"))]

Shown = dict[str, Any]


class Pages:
    """A process of Node with one version of the SDK."""

    def __init__(self, version: int) -> None:
        self.version = version
        folder = npm_package(*PACKAGES[version])
        pipe = subprocess.PIPE
        command = [*_NODE, str(folder)]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._numbers = count()
        self._open: dict[int, Future[Any]] = {}
        self._thread = threading.Thread(target=self._read, name=f"pages-{version}")
        self._thread.start()

    def begin(self, act: str, **asked: Any) -> "Future[Any]":
        """Let a page do something, and return its result when it has one."""
        number, future = next(self._numbers), Future[Any]()
        self._open[number] = future
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'number': number, 'act': act, **asked})}\n")
        self._process.stdin.flush()
        return future

    def call(self, act: str, **asked: Any) -> Any:
        return self.begin(act, **asked).result(LIMIT)

    def chat(self, api: str, chat_id: str, **options: Any) -> "Chat":
        """Open a page with a chat; see `open` in `page.mjs`."""
        return Chat(self, api, chat_id, options)

    def check(self, bodies: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Return for each list of chunks those that are not valid, the message and the error."""
        found: list[dict[str, Any]] = self.call("check", bodies=bodies)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._thread.join(LIMIT)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._open.pop(answer["number"])
            if "failure" in answer:
                future.set_exception(AssertionError(answer["failure"]))
            else:
                future.set_result(answer["result"])
        for future in self._open.values():
            future.set_exception(AssertionError("the process of the pages has ended"))


class Chat:
    """A chat of a page; every method returns what the page then shows."""

    _names = count()

    def __init__(self, pages: Pages, api: str, chat_id: str, options: dict[str, Any]) -> None:
        self._pages = pages
        self._name = f"chat {next(self._names)}"
        pages.call("open", chat=self._name, id=chat_id, api=api, **options)

    def begin(self, act: str, **asked: Any) -> "Future[Shown]":
        return self._pages.begin(act, chat=self._name, **asked)

    def _do(self, act: str, **asked: Any) -> Shown:
        return self.begin(act, **asked).result(LIMIT)

    def send(self, text: str | None = None, message_id: str | None = None) -> Shown:
        """Send a message, or the messages as they are; with an id, in place of that message."""
        return self._do("send", message=said(text, message_id))

    def begin_send(self, text: str | None = None) -> "Future[Shown]":
        return self.begin("send", message=said(text))

    def resume(self) -> Shown:
        return self._do("resume")

    def regenerate(self, message_id: str | None = None) -> Shown:
        return self._do("regenerate", messageId=message_id)

    def approve(self, question_id: str, approved: bool, reason: str | None = None) -> Shown:
        answer = {"id": question_id, "approved": approved}
        return self._do(
            "approve", answer=answer if reason is None else {**answer, "reason": reason}
        )

    def until(self, text: str) -> Shown:
        """Wait until the messages have a text."""
        return self._do("until", text=text)

    def answered(self, count: int) -> Shown:
        """Wait until so many requests have the head of their response."""
        return self._do("answered", count=count)

    def shown(self) -> Shown:
        return self._do("shown")

    def close(self) -> None:
        self._pages.call("close", chat=self._name)


def said(text: str | None, message_id: str | None = None) -> dict[str, Any] | None:
    if text is None:
        return None
    return {"text": text} | ({} if message_id is None else {"messageId": message_id})


_RUNNING: dict[int, Pages] = {}


def pages_of(version: int) -> Pages:
    """Return the process of a version, which `all_pages` ends."""
    if version not in _RUNNING:
        _RUNNING[version] = Pages(version)
    return _RUNNING[version]


@contextmanager
def all_pages() -> Iterator[None]:
    try:
        yield
    finally:
        for pages in _RUNNING.values():
            pages.close()
        _RUNNING.clear()
