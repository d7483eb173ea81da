"""The server is killed with SIGKILL in the middle of an answer and started again."""

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from coreason_client import Bookmark, CAPClient, CAPError, CAPRuntimeError
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from tests.preloaded import PROJECT, PreloadedProcess

LIMIT = 30.0

AGENT = '''
"""Writes fifty words and then thinks for ever."""

import asyncio


async def agent(request, stream):
    for number in range(1, 51):
        await stream.write(f"w{number} ")
    await stream.progress("thinking")  # not a DELTA, so everything before it is in the log
    await asyncio.Event().wait()
'''


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.1, 0.2, **given))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "thinker.py").write_text(AGENT)
    return tmp_path


@pytest.fixture
def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def serving(folder: Path, port: int) -> Iterator[PreloadedProcess]:
    command = ["-m", "coreason_client", "serve", "thinker:agent"]
    options = ["--store", f"sqlite:{folder / 'log.db'}", "--port", str(port)]
    readable, writable = os.pipe()
    with os.fdopen(readable) as written, Path(os.devnull).open("rb") as null:
        process = PreloadedProcess(
            [*command, *options],
            cwd=folder,
            stdin=null.fileno(),
            stdout=writable,
            stderr=writable,
            env={**os.environ, "NO_COLOR": "1"},
            libraries=PROJECT,
        )
        os.close(writable)
        try:
            for line in written:
                if re.search(rf"http://127.0.0.1:{port}\b", line):
                    break
            else:
                pytest.fail("the server did not start")
            # Somebody has to read the rest, or the server would block on a full pipe.
            rest = threading.Thread(target=written.read, daemon=True)
            rest.start()
            yield process
            process.kill()
            rest.join(LIMIT)
        finally:
            process.kill()
            process.wait(LIMIT)


def kill(process: PreloadedProcess) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(LIMIT)


@pytest.mark.proves("R35a", "R35b")
def test_a_reader_loses_nothing_and_learns_of_the_end(folder: Path, port: int) -> None:
    shown: list[str] = []
    ended: Queue[CAPError] = Queue()
    all_shown = threading.Event()

    def read() -> None:
        # With the defaults: the restart of a server is survived by whoever asks for nothing.
        with CAPClient(f"http://127.0.0.1:{port}", "key") as client:
            try:
                for text in client.chat("go"):
                    shown.append(text)
                    if len(shown) == 50:
                        all_shown.set()
            except CAPError as error:
                ended.put(error)

    with serving(folder, port) as process:
        reader = threading.Thread(target=read)
        reader.start()
        assert all_shown.wait(LIMIT)
        kill(process)
    with serving(folder, port):
        error = ended.get(timeout=LIMIT)
        reader.join(LIMIT)
    assert shown == [f"w{number} " for number in range(1, 51)]
    assert isinstance(error, CAPRuntimeError)
    assert error.stream_error is not None
    assert error.stream_error.code == "producer_lost"


def test_what_was_written_before_the_kill_can_be_read_after_it(folder: Path, port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    with serving(folder, port) as process, CAPClient(url, "key") as client:
        stream = client.chat("go")
        first = [next(stream) for _ in range(20)]
        saved = stream.bookmark().to_json()
        # Another reader sees all of it, so all of it is in the log.
        other = client.assist(stream.bookmark().request)
        assert [next(other).p for _ in range(50)][:20] == first
        kill(process)
    rest: list[object] = []
    with serving(folder, port), CAPClient(url, "key") as client:
        packets = client.resume(Bookmark.model_validate_json(saved))
        with pytest.raises(CAPRuntimeError, match="producer_lost"):
            for packet in packets:
                rest.append(packet.p)  # noqa: PERF401 - those before the error count
    assert first + rest[:30] == [f"w{number} " for number in range(1, 51)]
