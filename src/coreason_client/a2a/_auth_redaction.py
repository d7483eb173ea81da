"""Redaction of the secrets that a sender has sent, shared by sync and async."""

from collections.abc import Mapping
from types import MappingProxyType

from .._http._types import Request
from .._secret import redact_chain
from ._auth import Credentials
from .errors import A2AError

__all__ = ["RedactingSender"]


class RedactingSender:
    """Redacts the secrets that were sent, because an agent may quote them."""

    _credentials: Credentials
    _sent_headers: Mapping[str, str] = MappingProxyType({})  # of the last request

    def _remember_headers(self, request: Request) -> Request:
        if not request.without_client_defaults:
            self._sent_headers = request.headers
        return request

    def redact(self, text: str) -> str:
        """Return a text without the secrets that were sent."""
        return self._credentials.redact(text, self._sent_headers)

    def redact_error(self, error: A2AError) -> None:
        """Redact the secrets in an error and its causes."""
        redact_chain(error, self.redact)
