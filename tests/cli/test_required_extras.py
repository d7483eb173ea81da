"""A command that needs an extra says so before anything is started."""

import pytest

from coreason_client import MissingExtraError
from coreason_client.cli import _load as _required_extras
from coreason_client.cli._load import require_llm, require_server


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = {"aiohttp", "genai_prices", "pydantic_settings", "starlette", "uvicorn"} - {*names}
    monkeypatch.setattr(
        _required_extras, "find_spec", lambda name: object() if name in found else None
    )


def test_nothing_is_raised_if_everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch)
    require_llm()
    require_server("coreason serve")


@pytest.mark.parametrize("name", ["aiohttp", "genai_prices", "pydantic_settings"])
def test_each_library_of_the_ai_client_is_needed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, name)
    with pytest.raises(MissingExtraError, match="the AI client needs the extra 'llm'") as caught:
        require_llm()
    assert caught.value.extra == "llm"
    require_server("coreason serve")


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_each_library_of_the_server_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, name)
    with pytest.raises(MissingExtraError, match="--llm needs the extra 'server'") as caught:
        require_server("--llm")
    assert caught.value.extra == "server"
    require_llm()
