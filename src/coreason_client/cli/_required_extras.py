"""What is there to work with."""

from importlib.util import find_spec

from coreason_client import MissingExtraError

__all__ = ["need_llm", "need_server"]

_OF_LLM = ("aiohttp", "genai_prices", "pydantic_settings")


def need_llm() -> None:
    """Refuse to begin what would fail later, half done.

    Raises:
        MissingExtraError: the AI client is not installed.
    """
    if any(find_spec(name) is None for name in _OF_LLM):
        raise MissingExtraError("the AI client", "llm")


def need_server(part: str) -> None:
    """Refuse to begin what would fail later, half done.

    Raises:
        MissingExtraError: the server kit is not installed.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError(part, "server")
