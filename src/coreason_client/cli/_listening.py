"""What is wrong with the address that a command listens on."""

from collections.abc import Iterator
from contextlib import contextmanager

from .exits import Failure

__all__ = ["listen_errors"]


@contextmanager
def listen_errors(host: str, port: int) -> Iterator[None]:
    """Turn the error of a socket into a failure that names the address.

    Raises:
        Failure: the address or the port cannot be used.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot listen on {host}, port {port}: {reason}") from None
