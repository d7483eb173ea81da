"""The client of AG-UI for npm: what its users see of an answer."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coreason_client.server import AGUI
from coreason_client.server.ag_ui._request import run_input
from coreason_client.server.ag_ui._writer import RunWriter
from tests.installed import npm_package
from tests.installed import run as run_client

from ..answer.packets import STREAM, Packet, entries_of
from .model import Model, events_of
from .serving import (
    CUSTOM,
    KEY,
    MESSAGES,
    PACKETS,
    USAGE,
    called,
    comparable,
    event,
    returned,
    site,
)

GIVEN = [
    {"id": "u1", "role": "user", "content": "Hi"},
    {"id": "a1", "role": "assistant", "content": "Hello"},
]
THOUGHT = event("THOUGHT_TRACE", content="Hm.")
CALL, RESULT = called("c1", "t", {}), returned("c1", "x")


def rewind(to_seq: int) -> dict[str, Any]:
    return event("REWIND", to_seq=to_seq)


# Answers in which words are taken back: at the start, in an open message, in one that had ended, in
# thoughts, after a call, and twice.
REWOUND: list[list[Any]] = [
    ["a", "b", rewind(0), "c"],
    ["a", "b", rewind(1), "c"],
    [THOUGHT, "a", THOUGHT, rewind(2), "c"],
    ["a", CALL, RESULT, "b", rewind(1), "c", CALL, RESULT],
    ["a", CALL, rewind(2), RESULT, "b"],
    [THOUGHT, THOUGHT, "a", rewind(1), THOUGHT, "b"],
    [THOUGHT, "a", THOUGHT, "b", rewind(2), "c"],
    ["a", "b", CALL, rewind(2), "c", CALL, rewind(1), "d"],
    [*PACKETS, rewind(5), *PACKETS[5:]],
    [*PACKETS[:12], rewind(8), *PACKETS[8:]],
]
# A client keeps the thoughts that it has if a snapshot has none.
ALL_THOUGHTS: list[Any] = ["a", THOUGHT, rewind(1), "c"]


def bodies() -> list[bytes]:
    """Return the answers, the same for a reader who joins, and one without any thought left."""
    found = []
    run = run_input({"threadId": "t", "runId": "r", "messages": GIVEN})
    for values, joins in (
        *((one, False) for one in REWOUND),
        *((one, True) for one in REWOUND),
        (ALL_THOUGHTS, False),
    ):
        packets: list[Packet] = [
            ("DELTA", one) if isinstance(one, str) else ("EVENT", one) for one in values
        ]
        entries = entries_of([*packets, ("CLOSE", {"reason": "complete"})])
        writer = RunWriter(STREAM, run, AGUI())
        writer.loaded = entries
        if joins:
            writer.begin_snapshot()
            writer.feed(entries[: len(entries) // 2])
            found.append(writer.end_snapshot() + writer.feed(entries[len(entries) // 2 :]))
        else:
            found.append(writer.start() + writer.feed(entries))
    return found


@contextmanager
def serving(answers: list[bytes]) -> Iterator[str]:
    """Answer a POST to a number; to the number after the last one with a part of an answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            number = int(self.path[1:])
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            if number == len(answers):
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                self.wfile.write(answers[0][: len(answers[0]) // 2])
                self.close_connection = True
            else:
                self.send_header("Content-Length", str(len(answers[number])))
                self.end_headers()
                self.wfile.write(answers[number])

        def log_request(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """What the client has printed; it runs once for all tests of this file."""
    folder = npm_package("@ag-ui/client@1.0.0")
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js")
    script = str(Path(__file__).with_name("judge.mjs"))
    answers = bodies()
    with site() as server, serving(answers) as prepared:
        arguments = [str(folder), f"{server.url}/ag-ui", KEY, prepared, str(len(answers) + 1)]
        found = run_client([node, script, *arguments], {}, folder)
        found["runs"] = list(server.agent.runs)
    return found


def answer(found: dict[str, Any]) -> Any:
    """Return the messages of an answer, without the question."""
    question, *rest = found["messages"]
    assert question["role"] == "user"
    return comparable(rest)


def test_a_whole_answer(printed: dict[str, Any]) -> None:
    found = printed["whole"]
    assert "error" not in found
    assert answer(found) == MESSAGES
    assert found["custom"] == CUSTOM
    assert found["last"]["usage"] == [USAGE]
    assert (found["outcome"], found["pendingToolCallIds"]) == ("success", [])
    assert found["last"]["runId"] == "r1"


def test_the_same_run_again_is_the_same_answer(printed: dict[str, Any]) -> None:
    found = printed["again"]
    assert found["messages"] == printed["whole"]["messages"]
    assert found["custom"] == CUSTOM
    assert found["events"][:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert printed["runs"].count("Tell me everything.") == 1


def test_an_error_is_the_last_event(printed: dict[str, Any]) -> None:
    found = printed["failed"]
    assert "error" not in found  # the client resolves
    assert (found["last"]["type"], found["last"]["code"]) == ("RUN_ERROR", "no_fuel")


def test_a_refusal_is_an_error_with_its_status(printed: dict[str, Any]) -> None:
    assert [error["status"] for error in printed["refused"]] == [401, 409, 400, 404]
    assert "The runId was used before" in printed["refused"][1]["message"]


def test_a_conversation_has_each_message_once(printed: dict[str, Any]) -> None:
    said = [(one["role"], one["content"]) for one in printed["turns"]]
    assert said == [
        ("user", "Hello"),
        ("assistant", "You said Hello"),
        ("user", "And then?"),
        ("assistant", "You said And then?"),
    ]


def test_a_reload_in_mid_answer_shows_each_message_once(printed: dict[str, Any]) -> None:
    for name in ("undisturbed", "reloaded"):
        assert "error" not in printed[name]
        assert answer(printed[name]) == MESSAGES
        assert printed[name]["custom"] == CUSTOM
    assert printed["reloaded"]["messages"] == printed["undisturbed"]["messages"]
    assert printed["runs"].count("Wait after:9") == 1


def test_a_question_about_a_call(printed: dict[str, Any]) -> None:
    found = printed["asked"]
    assert found["outcome"] == "interrupt"
    [interrupt] = comparable(found["pending"])
    assert interrupt == {
        "id": "question",
        "message": "May I?",
        "reason": "tool_call",
        "toolCallId": "call-1",
    }
    assert "error" in printed["blocked"]  # by the client itself
    assert not printed["blocked"]["events"]
    answered = printed["answered"]
    assert (answered["outcome"], answered["pending"]) == ("success", [])
    assert answered["messages"][-1]["content"] == "You said Yes"
    assert printed["twice"]["status"] == 409


def test_a_tool_of_the_page(printed: dict[str, Any]) -> None:
    assert printed["called"]["pendingToolCallIds"] == ["page-1"]
    assert printed["clicked"]["outcome"] == "success"


def test_words_that_are_taken_back_vanish(printed: dict[str, Any]) -> None:
    """The model of a client that the other tests use agrees with the real one."""
    count = len(REWOUND)
    prepared = printed["prepared"]
    for body, found in zip(bodies()[: 2 * count], prepared, strict=False):
        assert "error" not in found
        model = Model(GIVEN).add_all(events_of(body))
        assert found["messages"] == model.messages
        assert found["events"] == [one["type"] for one in events_of(body)]
    for whole, joined in zip(prepared[:count], prepared[count : 2 * count], strict=True):
        assert whole["messages"] == joined["messages"]


def test_thoughts_that_are_all_taken_back_stay(printed: dict[str, Any]) -> None:
    found = printed["prepared"][2 * len(REWOUND)]
    said = [(one["role"], one["content"]) for one in found["messages"][len(GIVEN) :]]
    assert sorted(said) == [("assistant", "ac"), ("reasoning", "Hm.")]


def test_an_answer_that_is_cut_is_an_error(printed: dict[str, Any]) -> None:
    assert "error" in printed["prepared"][-1]


def test_the_client_has_nothing_to_warn_about(printed: dict[str, Any]) -> None:
    assert printed["warnings"] == []
