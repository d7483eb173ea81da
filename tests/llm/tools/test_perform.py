"""The execution of one call, as far as it does no I/O."""

import logging
from types import SimpleNamespace

import pytest

from coreason_client.llm import ToolAbort
from coreason_client.llm.tools._function_schema import ArgumentsError
from coreason_client.llm.tools._output import ToolOutput
from coreason_client.llm.tools._perform import failed, known_secrets, runnable, too_late
from coreason_client.llm.tools._run_machine import Requested
from coreason_client.llm.tools.tool import RunnableTool, Toolset, function_tool


def add(a: int) -> int:
    return a


TOOL: RunnableTool = function_tool(add, "tools[0]", allow_async=False)


def requested(name: str, refusal: str | None = None) -> Requested:
    return Requested(0, {"id": "c", "name": name, "arguments": {}}, refusal)


def test_what_is_not_executed() -> None:
    toolset = Toolset([TOOL])
    assert runnable(toolset, requested("add")) is TOOL
    unknown = runnable(toolset, requested("sub"))
    assert isinstance(unknown, ToolOutput)
    assert unknown.is_error
    cut = runnable(toolset, requested("add", "cut off"))
    assert isinstance(cut, ToolOutput)
    assert cut.text == "Error: cut off"


def test_errors_are_logged_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    output = failed(TOOL, ValueError("with sk-123"), ["sk-123"])
    assert output.text == "Error: ValueError: with ***"
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None


def test_invalid_arguments_and_aborts_are_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    assert failed(TOOL, ArgumentsError("a: missing"), ()).text == (
        "Error: invalid arguments: a: missing"
    )
    abort = ToolAbort("stop")
    assert failed(TOOL, abort, ()).abort is abort
    assert not caplog.records


def test_a_late_call() -> None:
    tool = RunnableTool("t", "", {}, lambda _: int, is_async=False, timeout=2.5)
    assert too_late(tool).text == "Error: the tool took longer than its timeout of 2.5 s"


def test_the_keys_of_a_client_are_secrets() -> None:
    target = SimpleNamespace(api_key="one", keys={"a": "two", "b": lambda: "three"})
    assert known_secrets(SimpleNamespace(_target=target)) == ["one", "two"]
