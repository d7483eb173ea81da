"""`coreason serve --ai-sdk --ag-ui`: what is served where, and what the command says about it."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from coreason_client.cli._app import app
from coreason_client.cli.serve._application import ServeConfig
from coreason_client.cli.serve._options import ServeOptions
from coreason_client.cli.serve._serving import banner

from .command import PATIENCE, Process

CHAT = {
    "id": "a-chat-of-this-test",
    "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
}
RUN = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Hi"}]}


def chunks(url: str, body: dict[str, Any]) -> list[Any]:
    response = httpx2.post(url, json=body, timeout=PATIENCE)
    assert response.status_code == 200, response.text
    found = re.findall(r"^data: (.*)$", response.text, re.MULTILINE)
    return [json.loads(one) for one in found if one != "[DONE]"]


def test_the_guide_answers_pages_at_the_printed_addresses(tmp_path: Path) -> None:
    with Process("serve", "--ai-sdk", "--ag-ui-path", "/runs", "--port", "0", cwd=tmp_path) as run:
        printed = run.expect("}'\n")
        [chat_url] = re.findall(r"AI SDK at (http://\S+/api/chat)\. ", printed)
        [run_url] = re.findall(r"AG-UI at (http://\S+/runs)\. ", printed)
        first, *_, last = chunks(chat_url, CHAT)
        assert (first["type"], last["type"], last["finishReason"]) == ("start", "finish", "stop")
        first, *_, last = chunks(run_url, RUN)
        assert (first["type"], last["type"]) == ("RUN_STARTED", "RUN_FINISHED")
        run.signal(signal.SIGTERM)
        assert run.end() == 0


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({}, set()),
        ({"ai_sdk": True}, {"/api/chat"}),
        ({"ag_ui": True}, {"/ag-ui"}),
        ({"ai_sdk_path": "/chat", "ag_ui": True}, {"/chat", "/ag-ui"}),
        ({"ai_sdk": True, "ag_ui_path": "/api/runs"}, {"/api/chat", "/api/runs"}),
    ],
)
def test_each_option_serves_its_path(options: dict[str, Any], served: set[str]) -> None:
    made: Any = ServeConfig(ServeOptions(**options)).app()
    assert set(made._options.api_paths) == served
    text = banner(ServeOptions(**options), "http://h:1", None, ["guide"])
    assert set(re.findall(r"(?:AI SDK|AG-UI) at http://h:1(/\S+)\. ", text)) == served


def test_each_of_several_agents_has_its_own_paths() -> None:
    options = ServeOptions(agents=["m:a", "m:b"], ai_sdk=True)
    text = banner(options, "http://h:1", None, ["m.a", "m.b"])
    assert "AI SDK at http://h:1/m.a/api/chat and http://h:1/m.b/api/chat. " in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ai-sdk-path", "chat"], "must be a path such as /api/chat"),
        (["--ai-sdk-path", "/chat/"], "must be a path such as /api/chat"),
        (["--ag-ui-path", "/assist"], "must not begin like a path that the server uses"),
        (["--ag-ui-path", "/v1/ag-ui"], "must not begin like a path that the server uses"),
        (["--ai-sdk-path", "/x", "--ag-ui-path", "/x"], "must be another one for each protocol"),
    ],
)
def test_a_path_that_cannot_be_served_is_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 2, result.output
    words = " ".join(result.output.split())
    assert "--ai-sdk-path or --ag-ui-path" in words
    assert said in words
