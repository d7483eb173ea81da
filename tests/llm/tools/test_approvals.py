"""Tools that a person must approve: the run waits, and another one goes on at the call."""

import json
from typing import Any

import pytest

from coreason_client.llm import Approval, LLMApprovalRequired, LLMClient, LLMRequestError, Tool
from tests.llm.server import ServerInThread

from .test_tools_run import Runner, runner

__all__ = ["runner"]

ROME, OSLO = ("delete", {"path": "/rome"}), ("delete", {"path": "/oslo"})
LOOK: tuple[str, dict[str, Any]] = ("look", {})


class Files:
    """Two tools, and what they did."""

    def __init__(self, requires_approval: Any = True) -> None:
        self.done: list[str] = []
        self.tools: list[Any] = [Tool(self.delete, requires_approval=requires_approval), self.look]

    def delete(self, path: str) -> str:
        """Delete a file."""
        self.done.append(path)
        return f"deleted {path}"

    def look(self) -> str:
        """Look around."""
        self.done.append("look")
        return "files"


def waits(runner: Runner, server: Any, files: Files, **options: Any) -> LLMApprovalRequired:
    with pytest.raises(LLMApprovalRequired) as caught:
        runner.run(server, files.tools, **options)
    assert caught.value.conversation is not None
    return caught.value


def test_a_run_goes_on_at_the_call_without_asking_the_model_again(runner: Runner) -> None:
    files = Files()
    with ServerInThread(runner.calls(ROME, LOOK, text="Hm."), runner.said("Done.")) as server:
        error = waits(runner, server, files)
        assert files.done == []  # nothing of this answer, not even what needs no approval
        assert [(call["name"], call["arguments"]) for call in error.calls] == [ROME]
        assert error.usage is not None
        messages = json.loads(json.dumps(error.conversation))  # it can be stored
        result = runner.run(server, files.tools, messages=messages, approvals={"call_1": True})
    assert len(server.received) == 2
    assert sorted(files.done) == ["/rome", "look"]
    assert result.text == "Done."
    roles = [message["role"] for message in server.received[1].json["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert [call.result for call in result.tool_calls] == ["deleted /rome", "files"]


def test_a_call_is_denied_with_a_reason(runner: Runner) -> None:
    files = Files()
    denied = Approval(approved=False, reason="not that one")
    with ServerInThread(runner.calls(ROME), runner.said("Ok.")) as server:
        error = waits(runner, server, files)
        result = runner.run(
            server, files.tools, messages=error.conversation, approvals={"call_1": denied}
        )
    assert (files.done, result.text) == ([], "Ok.")
    [call] = result.tool_calls
    assert call.is_error
    assert call.result == "Error: the user did not allow this call: not that one"


def test_the_arguments_can_be_changed_and_the_model_knows_it(runner: Runner) -> None:
    files = Files()
    changed = Approval(arguments={"path": "/copy"})
    with ServerInThread(runner.calls(ROME), runner.said("Ok.")) as server:
        error = waits(runner, server, files)
        result = runner.run(
            server, files.tools, messages=error.conversation, approvals={"call_1": changed}
        )
    assert files.done == ["/copy"]
    note = 'The user changed the arguments of this call to {"path":"/copy"}.\n'
    assert [call.result for call in result.tool_calls] == [f"{note}deleted /copy"]


def test_arguments_that_stay_are_not_changed(runner: Runner) -> None:
    files = Files()
    same = Approval(arguments={"path": "/rome"})
    with ServerInThread(runner.calls(ROME), runner.said("Ok.")) as server:
        error = waits(runner, server, files)
        result = runner.run(
            server, files.tools, messages=error.conversation, approvals={"call_1": same}
        )
    assert [call.result for call in result.tool_calls] == ["deleted /rome"]


def test_all_calls_of_an_answer_are_decided_before_one_is_made(runner: Runner) -> None:
    files = Files()
    with ServerInThread(runner.calls(ROME, OSLO), runner.said("Ok.")) as server:
        error = waits(runner, server, files)
        assert len(error.calls) == 2
        again = waits(
            runner, server, files, messages=error.conversation, approvals={"call_1": True}
        )
        assert [call["id"] for call in again.calls] == ["call_2"]
        assert files.done == []
        both = {"call_1": True, "call_2": False}
        runner.run(server, files.tools, messages=again.conversation, approvals=both)
    assert files.done == ["/rome"]


def _breaks(_: dict[str, Any]) -> bool:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        (lambda arguments: arguments["path"] == "/rome", True),
        (lambda arguments: arguments["path"] == "/oslo", False),
        (_breaks, True),
        (False, False),
    ],
)
def test_a_function_of_the_arguments_decides(runner: Runner, rule: Any, asks: bool) -> None:
    files = Files(rule)
    with ServerInThread(runner.calls(ROME), runner.said("Ok.")) as server:
        if asks:
            waits(runner, server, files)
        else:
            runner.run(server, files.tools)
    assert files.done == ([] if asks else ["/rome"])


def test_a_call_that_cannot_be_made_is_not_asked_for(runner: Runner) -> None:
    files = Files()
    with ServerInThread(runner.calls(("delete", "not JSON")), runner.said("Ok.")) as server:
        assert runner.run(server, files.tools).text == "Ok."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [Tool(print, requires_approval="yes")]}, "requires_approval must be True"),  # type: ignore[arg-type]
        ({"approvals": {"call_1": "yes"}}, "approvals must be True, False or an Approval"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    client = LLMClient("key", "http://127.0.0.1:9", "m")
    with client, pytest.raises(LLMRequestError, match=message):
        client.run([{"role": "user", "content": "hi"}], **options)
