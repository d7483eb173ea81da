"""The name of a profile instead of the URL of an A2A agent."""

from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.cli.a2a._agent import AgentOptions, agent_of_profile
from coreason_client.cli.exits import Failure

from .command import run_a2a


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(
        '[profiles.prod]\nurl = "https://a.example"\napi_key = "prod-key"\ntimeout = 5\n'
        '[profiles.blank]\nurl = "https://a.example"\napi_key = "two words"\n'
        '[profiles.fast]\nllm = "m"\n'
    )
    path.chmod(0o600)
    monkeypatch.setenv("COREASON_CONFIG", str(path))
    return path


def test_the_profile_gives_url_token_and_timeout() -> None:
    agent = agent_of_profile(AgentOptions("prod"))
    assert (agent.url, agent.token, agent.timeout) == ("https://a.example", "prod-key", 5.0)
    assert agent.command("chat", "URL") == "coreason a2a chat prod --timeout 5"


def test_options_win_and_a_token_of_the_environment_is_not_sent() -> None:
    agent = agent_of_profile(AgentOptions("prod", "mine", timeout=9.0))
    assert (agent.token, agent.timeout) == ("mine", 9.0)
    assert agent.command("chat", "URL").endswith('--token "$TOKEN"')
    agent = agent_of_profile(AgentOptions("prod", "other", token_from_option=False))
    assert agent.token == "prod-key"


def test_what_is_no_profile_stays_a_url() -> None:
    assert agent_of_profile(AgentOptions("a.example")).url == "a.example"
    with pytest.raises(Failure, match="profile 'fast' has no url"):
        agent_of_profile(AgentOptions("fast"))
    with pytest.raises(ArgumentError, match="api_key of profile 'blank' must"):
        agent_of_profile(AgentOptions("blank"))


def test_a_command_takes_a_profile(peer: str, path: Path) -> None:
    path.write_text(f'[profiles.here]\nurl = "{peer}/jsonrpc-1.0"\n')
    assert run_a2a("send", "here", "hello Ann")[1] == "Hello, Ann!\n"
    code, _, error = run_a2a("send", "nowhere", "hello Ann")
    assert code == 2
    assert error.startswith("error: URL must start with http")
