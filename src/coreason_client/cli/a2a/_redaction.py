"""Removes secrets from the errors of a command.

An agent may quote a request in its answer, and the fields of errors have the text of the agent
unchanged.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from coreason_client import CoreasonError

from ..._secret import redact
from ..exits import Failure, exit_code_of

__all__ = ["redacting"]


@contextmanager
def redacting(*secrets: str | None) -> Iterator[None]:
    """Remove secrets from the errors that leave the block.

    Raises:
        Failure: instead of an error whose message contains a secret, with the same exit code.
    """
    try:
        yield
    except (CoreasonError, Failure) as error:
        text = redact(str(error), secrets)
        if text == str(error):
            raise
        raise Failure(text, exit_code_of(error)) from None
