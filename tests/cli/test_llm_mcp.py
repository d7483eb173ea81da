"""`--mcp`: the model calls tools of MCP servers, which may ask the user."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.llm._mcp import field_value
from tests.llm.tools import test_mcp as library

from .command import Process, coreason_here, shown
from .models import MODEL, answer, model
from .test_llm_tools import call

SMALL = shlex.join([sys.executable, str(library.HERE / "small_mcp_server.py"), "plain"])
OPTIONS = ("llm", "--no-log", "-m", MODEL, "--mcp", SMALL)


def test_the_model_calls_tools_of_a_server(tmp_path: Path) -> None:
    with model(call(("fine", {}), ("ask", {}), text="Wait."), answer("Done.")) as served:
        done = coreason_here(*OPTIONS, "-v", "Go.", env=served.env, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Wait.\nDone.\n")
        assert "→ fine {}" in done.stderr.splitlines()
        results = [text for role, text in served.sent() if role == "tool"]
        names = [tool["function"]["name"] for tool in served.received[0].json["tools"]]
    assert results == ["fine", '{"action": "decline"}']  # stdin is not a terminal
    assert {"fine", "ask"} <= set(names)


def test_a_terminal_asks_the_user(tmp_path: Path) -> None:
    server = shlex.join([sys.executable, "-m", "tests.llm.tools.mcp_server"])
    options = ("llm", "--no-log", "-m", MODEL, "--mcp", server, "Go.")
    with (
        model(call(("book", {})), answer("Booked.")) as served,
        Process(*options, env=served.env, cwd=library.ROOT, terminal=True) as process,
    ):
        question = shown(process.expect("nights (integer): "))
        assert f"{sys.executable} asks: How many nights? (Ctrl-D declines)" in question
        process.send("many\n")
        assert "'many' is not of type 'integer'" in process.expect("nights (integer): ")
        process.send("3\n")
        assert process.end() == 0
        assert "Booked." in shown(process.text)
        assert served.sent()[-1] == ("tool", "accept 3")


@pytest.mark.parametrize(("key", "code"), [("\x04", 0), (signal.SIGINT, 130)])
def test_a_question_can_be_declined_and_stopped(tmp_path: Path, key: Any, code: int) -> None:
    with (
        model(call(("ask", {})), answer("Done.")) as served,
        Process(*OPTIONS, "Go.", env=served.env, cwd=tmp_path, terminal=True) as process,
    ):
        process.expect("city (string): ")
        process.signal(key) if code else process.send(key)
        assert process.end() == code
        assert "Fatal" not in process.text
        assert code or served.sent()[-1] == ("tool", '{"action": "decline"}')


@pytest.mark.skipif(sys.platform != "linux", reason="the threads of a process are in /proc")
def test_ctrl_c_ends_a_question_also_if_it_does_not_wake_the_event_loop(tmp_path: Path) -> None:
    # So it is in the instant before the loop begins to wait; here another thread gets the signal.
    with (
        model(call(("ask", {})), answer("Done.")) as served,
        Process(*OPTIONS, "Go.", env=served.env, cwd=tmp_path, terminal=True) as process,
    ):
        process.expect("city (string): ")
        process.signal_another_thread(signal.SIGINT)
        assert process.end() == 130


@pytest.mark.parametrize(
    ("server", "code", "says"),
    [
        ("no-such-command", 3, "cannot open the MCP server no-such-command"),
        (
            "http://127.0.0.1:9/mcp?key=secret",
            3,
            "cannot open the MCP server http://127.0.0.1:9/mcp:",
        ),
        ("http://user:secret@x", 2, "--mcp"),
        ("'npx", 2, "--mcp must be a URL, or a command whose quotes are closed"),
        ("", 2, "--mcp must be a URL"),
    ],
)
def test_a_wrong_server_has_the_exit_code_of_its_error(server: str, code: int, says: str) -> None:
    with model(answer("Yes.")) as served:
        done = coreason_here("llm", "--no-log", "--mcp", server, "Hi", env=served.env)
    assert (done.returncode, done.stdout, served.received) == (code, "", [])
    assert says in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("Rome", {"type": "string"}, "Rome"),
        ("7", {"type": "string"}, "7"),
        ("7", {"type": "integer"}, 7),
        ("0.5", {"type": "number"}, 0.5),
        ("[" * 4000, {"type": "number"}, "[" * 4000),
        ("Yes", {"type": "boolean"}, True),
        ("n", {"type": "boolean"}, False),
        ("a, b", {"type": "array"}, ["a", "b"]),
        ("", {"type": "boolean", "default": False}, False),
        ("", {"type": "string"}, None),
    ],
)
def test_what_is_typed_becomes_a_value(text: str, field: dict[str, Any], value: Any) -> None:
    assert field_value(text, field) == value


@given(st.text(), st.sampled_from(["string", "integer", "number", "boolean", "array", None]))
def test_any_line_has_a_value(text: str, kind: str | None) -> None:
    assert (field_value(text, {"type": kind}) is None) <= (not text or text == "null")
