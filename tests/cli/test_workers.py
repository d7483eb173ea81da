"""`coreason serve --workers`: several processes, one log, one end."""

import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from coreason_client import CAPClient
from tests.server.log.postgres_server import PostgresServer
from tests.server.log.valkey_server import ValkeyServer

from .command import Process

AGENT = """
import os
from coreason_client.server import AgentStream

async def agent(request, stream: AgentStream) -> None:
    await stream.write(f"{os.getpid()} ")
    for number in range(20):
        await stream.write(f"{number} ")
"""


STORES = {
    "valkey": (ValkeyServer, "valkey://127.0.0.1:{}/0"),
    "postgres": (PostgresServer, "postgresql://127.0.0.1:{}/postgres"),
}


@pytest.mark.parametrize(("make", "shown"), STORES.values(), ids=STORES)
def test_any_worker_serves_any_resume_and_reads_new_keys(
    make: Callable[..., ValkeyServer | PostgresServer], shown: str, tmp_path: Path
) -> None:
    (tmp_path / "many_here.py").write_text(AGENT)
    write(tmp_path / "keys.txt", "one-key ann\n")
    with make(password="very-secret") as store:
        arguments = ["serve", "many_here:agent", "--port", "0", "--workers", "2"]
        url = store.tcp_url if isinstance(store, PostgresServer) else store.url
        env = {"COREASON_STORE": url, "COREASON_API_KEYS_FILE": "keys.txt"}
        with Process(*arguments, env=env, cwd=tmp_path) as process:
            told = process.expect("}'\n")
            assert shown.format(store.port) in told
            assert "very-secret" not in told
            [url] = re.findall(r"at (http://\S+),", told)
            served: set[str] = set()
            deadline = time.monotonic() + 20
            # The second worker may still be starting.
            while len(served) < 2 and time.monotonic() < deadline:
                with CAPClient(url, "one-key") as client:  # each its own connection
                    served.add(_ask_and_resume(client, f"question {uuid4()}"))
            assert len(served) == 2
            write(tmp_path / "keys.txt", "one-key ann\nnew-key ann\n")
            process.expect_error("the keys were read again from keys.txt: 2 keys", times=2)
            for _ in range(6):
                with CAPClient(url, "new-key") as client:
                    assert client.ask("hello")
            process.signal(signal.SIGTERM)
            assert process.end() == 0
            errors = process.errors
            started = set(re.findall(r"INFO coreason_client\.server: worker (\d+) started", errors))
            assert served <= started
            assert errors.count("drained in") == 2
            assert not re.search("WARNING|ERROR|Traceback|very-secret|(one|new)-key", errors)


def write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


RECORD_BINDS = """
import sys

def record(event, arguments):
    if event == "socket.bind" and isinstance(arguments[1], tuple):
        print("bind", *arguments[1], file=sys.stderr, flush=True)

sys.addaudithook(record)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_the_socket_that_found_the_port_free_is_the_one_that_serves(
    tmp_path: Path, workers: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(RECORD_BINDS)
    with ExitStack() as stack:
        env = {"PYTHONPATH": str(tmp_path)}
        if workers > 1:
            env["COREASON_STORE"] = stack.enter_context(ValkeyServer()).url
        arguments = ["serve", "--port", "0", "--workers", str(workers)]
        process = stack.enter_context(Process(*arguments, env=env, cwd=tmp_path, fresh=True))
        [url] = re.findall(r"at (http://\S+),", process.expect("}'\n"))
        with CAPClient(url, "any") as client:
            assert "".join(client.chat("hello"))
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert re.findall("^bind .*", process.errors, re.MULTILINE) == ["bind 127.0.0.1 0"]


def _ask_and_resume(client: CAPClient, question: str) -> str:
    """Ask, leave, and read the rest over another connection; return which process answered."""
    with client.chat(question) as answer:
        words = [next(answer)]
        request, position = answer.request, answer.position
    assert request is not None
    assert position is not None
    with CAPClient(client.base_url, "one-key") as other, other.resume(request, position) as rest:
        words += [str(packet.p) for packet in rest]
    text = "".join(words)
    assert " ".join(map(str, range(20))) in text
    return text.split()[0]
