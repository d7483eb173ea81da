"""Checks that the optional dependencies of a command are installed."""

from importlib.util import find_spec

from coreason_client import MissingExtraError

__all__ = ["require_llm", "require_server"]

_LLM_MODULES = ("aiohttp", "genai_prices", "pydantic_settings")


def require_llm() -> None:
    """Check for the AI client before anything is started.

    Raises:
        MissingExtraError: the AI client is not installed.
    """
    if any(find_spec(name) is None for name in _LLM_MODULES):
        raise MissingExtraError("the AI client", "llm")


def require_server(feature: str) -> None:
    """Check for the server kit before anything is started; `feature` is named in the error.

    Raises:
        MissingExtraError: the server kit is not installed.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError(feature, "server")
