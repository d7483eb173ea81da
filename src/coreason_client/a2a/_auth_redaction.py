"""The one place where A2A errors lose their secrets, shared by sync and async.

An agent may quote a request in its response, so the text of an error may contain what was sent.
Each call (unary, stream or card) has a sender of its own and runs inside `redacting`; all its
errors leave through there, before the hooks and the caller see them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from .._http._types import Request
from .._secret import header_secrets, redact, redact_chain
from .errors import A2AError, A2AJSONRPCError

__all__ = ["RedactingSender"]


class _SecretValues(Protocol):
    @property
    def values(self) -> tuple[str, ...]: ...


class RedactingSender:
    """The sender of one call, which remembers the secrets that the call has sent.

    A call may send several: a token that was refreshed, the headers of a hook.
    """

    _credentials: _SecretValues

    def __init__(self, credentials: _SecretValues) -> None:
        self._credentials = credentials
        self._sent: set[str] = set()

    def _remember(self, request: Request) -> Request:
        """Remember the secrets of a request, which is returned unchanged."""
        if not request.without_client_defaults:
            self._sent.update(self._credentials.values, header_secrets(request.headers))
        return request

    def redact(self, text: str) -> str:
        """Return a text without the secrets of this call."""
        return redact(text, (*self._credentials.values, *self._sent))

    @contextmanager
    def redacting(self) -> Iterator[None]:
        """Redact the errors that leave the body of the `with` statement, and their causes."""
        try:
            yield
        except A2AError as error:
            redact_chain(error, self.redact)
            self._redact_messages(error)
            raise

    def _redact_messages(self, error: BaseException | None) -> None:
        """Redact the field `message` of an error and its causes; other fields stay as received."""
        while error is not None:
            if isinstance(error, A2AJSONRPCError):
                error.message = self.redact(error.message)
            error = error.__cause__
