"""The arguments of a client from the environment; see also `test_settings.py`."""

import subprocess
import sys

import pytest

from coreason_client.llm import AsyncLLMClient, LLMClient, LLMRequestError
from coreason_client.llm._from_env import environment_arguments


@pytest.mark.parametrize("kind", [LLMClient, AsyncLLMClient])
def test_both_clients_read_the_environment(
    monkeypatch: pytest.MonkeyPatch, kind: type[LLMClient] | type[AsyncLLMClient]
) -> None:
    monkeypatch.setenv("LLM_API_BASE_URL", "http://127.0.0.1:9/v1/")
    monkeypatch.setenv("DEFAULT_MODEL", "some-model")
    client = kind.from_env(timeout=7)
    assert (client.base_url, client.default_model) == ("http://127.0.0.1:9/v1", "some-model")
    assert client.timeout == 7
    assert repr(client).startswith(f"{kind.__name__}(base_url='http://127.0.0.1:9/v1'")


def test_the_keys_of_providers_are_not_sent_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-anthropic")
    assert environment_arguments({})["keys"] == {"anthropic": "sk-anthropic"}
    assert "keys" not in environment_arguments({"base_url": "https://proxy.example/v1"})
    assert environment_arguments({"base_url": "https://api.openai.com/v1"})["keys"]


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_BASE_URL", "not a url")
    with pytest.raises(LLMRequestError, match="LLM_API_BASE_URL"):
        environment_arguments({})


def test_everything_can_be_imported_before_the_first_call() -> None:
    code = """if True:
        import sys
        from coreason_client.llm import AsyncLLMClient
        from coreason_client.llm._from_env import import_async_client
        import_async_client()
        before = set(sys.modules)
        AsyncLLMClient.from_env()
        print(set(sys.modules) - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")
