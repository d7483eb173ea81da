"""What is there to work with."""

from importlib.util import find_spec

from coreason_client import MissingExtraError

__all__ = ["need_server"]


def need_server(part: str) -> None:
    """Refuse to begin what would fail later, half done.

    Raises:
        MissingExtraError: the server kit is not installed.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError(part, "server")
