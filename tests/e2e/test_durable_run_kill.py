"""The process of an agent that runs a model with tools is killed with SIGKILL after a tool call."""

import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from coreason_client import CAPClient, CAPConnectionError, ServiceRequest
from coreason_client.server import running
from coreason_manifest.definitions.presentation import DeltaPacket
from tests.agents.test_llm import request
from tests.llm.server import Received, Replied, ServerInThread
from tests.llm.tools.answers import calls, said
from tests.preloaded import PROJECT, PipedProcess

from .run_agent import PROGRAM, app

ROOT = Path(__file__).parents[2]
LIMIT = 30.0


class Booking:
    """A model that books two seats, and then does not answer before the process was killed."""

    def __init__(self) -> None:
        self.asked_again = threading.Event()
        self.killed = False

    def reply(self, received: Received) -> Replied:
        roles = [message["role"] for message in received.json["messages"]]
        if "tool" not in roles:
            return calls(("book", {"seat": 1}), ("book", {"seat": 2}))
        self.asked_again.set()
        return said("Both are booked.") if self.killed else Replied(silent=True)


def _ask(client: CAPClient, asked: ServiceRequest) -> str:
    """Return the answer as far as it comes; the same request continues the same stream."""
    texts: list[str] = []
    with suppress(CAPConnectionError), client.assist(asked) as packets:
        texts += [packet.p for packet in packets if isinstance(packet, DeltaPacket)]
    return "".join(texts)


@pytest.mark.parametrize("plain", [False, True])
def test_a_tool_runs_once_although_the_process_is_killed(tmp_path: Path, *, plain: bool) -> None:
    log, effects = tmp_path / "log.db", tmp_path / "effects"
    booking, asked = Booking(), request("Book two seats.")
    with ServerInThread() as model:
        model.reply = booking.reply
        arguments = [str(log), model.url, str(effects)]
        process = PipedProcess(
            ["-m", PROGRAM, *arguments, *(["plain"] if plain else [])], cwd=ROOT, libraries=PROJECT
        )
        try:
            url = process.line()
            with CAPClient(url, "key", timeout=LIMIT, max_retries=0) as client:
                asking = threading.Thread(target=_ask, args=(client, asked))
                asking.start()
                assert booking.asked_again.wait(LIMIT)
                process.kill()
                asking.join(LIMIT)
        finally:
            process.close(LIMIT)
        booking.killed = True
        with (
            running(app(*arguments, plain=plain)) as server,
            CAPClient(server.url, "key", timeout=LIMIT) as client,
        ):
            assert _ask(client, asked) == "Both are booked."
    assert sorted(effects.read_text().split()) == ["1", "2"]
    assert len(model.received) == 3  # the calls, the question that was not answered, and again
    sent = [received.json["messages"] for received in model.received]
    assert sent[1] == sent[2]
    assert json.dumps(sent[2]).count("booked") == 2
