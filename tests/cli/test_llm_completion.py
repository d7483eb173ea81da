"""Completion in a shell: options, commands, models and conversations, without network."""

import subprocess
from pathlib import Path

import pytest

from coreason_client.cli.llm import _options as _completion
from coreason_client.cli.llm._store import ConversationStore
from coreason_client.cli.llm._turns import SavedTurn

from .command import COMMAND, PATIENCE, environment


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with two conversations."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DEFAULT_MODEL", raising=False)
    store = ConversationStore(tmp_path / "coreason" / "conversations.db")
    for name, model in (("ab1", "my-model"), ("cd2", "anthropic/claude-x")):
        asked = {"role": "user", "content": f"Question\n{name}?"}
        store.save(SavedTurn(conversation=name, time="soon", model=model, messages=[asked]))
    return tmp_path


def completed(line: str, **env: str) -> list[str]:
    """Return what bash is offered at the end of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        COMMAND,
        env=environment({"_COREASON_COMPLETE": "complete_bash", **asked, **env}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_values(data: Path) -> None:
    env = {"XDG_DATA_HOME": str(data)}
    assert completed("coreason ll", **env) == ["llm"]
    assert completed("coreason llm lo", **env) == ["logs"]
    assert "--model" in completed("coreason llm --mo", **env)
    assert completed("coreason llm -m my", **env) == ["my-model"]
    assert completed("coreason llm --cid a", **env) == ["ab1"]
    assert completed("coreason llm logs --del", **env) == ["--delete"]
    assert completed("coreason llm models ollama-", **env) == ["ollama-openai"]


@pytest.mark.usefixtures("data")
def test_models_come_from_the_environment_conversations_and_providers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(_completion.complete_model("a")) == ["anthropic/claude-x", "azure/", "anthropic/"]
    monkeypatch.setenv("DEFAULT_MODEL", "my-default")
    assert list(_completion.complete_model("my")) == ["my-default", "my-model"]
    assert "anthropic" in _completion.complete_provider("anth")


@pytest.mark.usefixtures("data")
def test_a_conversation_is_shown_with_its_question() -> None:
    assert _completion.complete_conversation("") == [
        ("cd2", "soon Question cd2?"),
        ("ab1", "soon Question ab1?"),
    ]


def test_a_broken_file_completes_nothing(data: Path) -> None:
    (data / "coreason" / "conversations.db").write_bytes(b"not a database" * 100)
    assert list(_completion.complete_conversation("")) == []
    assert list(_completion.complete_model("my")) == []
