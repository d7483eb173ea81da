"""The one place where A2A errors lose their secrets, shared by sync and async.

An agent may quote a request in its response, so the text of an error may contain what was sent.
Each call (unary, stream or card) has a sender of its own and runs inside `redacting`; all its
errors leave through there, before the hooks and the caller see them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .._http._types import Request
from .._secret import header_secrets, redact, redact_chain
from .errors import A2AError, A2AJSONRPCError, A2ASSEParseError

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
            self._redact_fields(error)
            raise

    def _redact_fields(self, error: BaseException | None) -> None:
        """Redact what an error and its causes have of a response: `message`, `data` and `body`."""
        while error is not None:
            if isinstance(error, A2AError) and error.body is not None:
                error.body = self._redacted(error.body)
            if isinstance(error, A2AJSONRPCError):
                error.message = self.redact(error.message)
            if isinstance(error, A2AJSONRPCError | A2ASSEParseError):
                error.data = self._redacted(error.data)
            error = error.__cause__

    def _redacted(self, value: Any) -> Any:
        """Return a JSON value or bytes without the secrets of this call."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            return self.redact(text).encode("utf-8", "surrogateescape")
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._redacted(member) for member in value]
        return value
