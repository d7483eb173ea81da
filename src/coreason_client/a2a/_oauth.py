"""OAuth 2 client credentials (RFC 6749, section 4.4): the token request, and the token cache.

* A token is requested before the first request that needs it, shortly before it expires, and after
  a 401. If the server sends no `expires_in`, it is used until a 401.
* There is one token request at a time; other calls wait for its result, also if it fails.
* The secret is sent to the token URL only: redirects are not followed, and the URL on a card is not
  used.
* Transient failures are retried; any other response is an error without secrets.
"""

import random
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

from .._clock import monotonic
from .._drive import Flow, Reply, Wait
from .._http._checks import VISIBLE, check_url, shown
from .._http._types import FINAL_FAILURES, Request, TimeoutLike, TransportFailure, timeouts_from
from .._retry import RETRIED_STATUSES, Backoff, parse_seconds, retry_after
from .._secret import header_secrets, redact, redact_chain
from .._version import __version__
from ..errors import ArgumentError
from ._call import connection_error
from ._wire import parse_json
from .errors import A2ATokenError

if TYPE_CHECKING:
    from anyio import Lock
    from anyio.lowlevel import RunVar

_MAX_RETRIES = 2
_MAX_MARGIN = 30.0  # seconds before the end in which a token is replaced
_MAX_MARGIN_SHARE = 0.1  # of the lifetime, for short ones
_MAX_EXPLANATION = 300
_TOKEN_HEADERS = {
    "Accept": "application/json",
    "Content-Type": "application/x-www-form-urlencoded",
    "User-Agent": f"coreason-client/{__version__}",
}


class ClientCredentials:
    """OAuth 2 client credentials, as `auth` of a client or as the credential of a scheme.

    The token is cached here, so several clients can share one object.

    Args:
        token_url: the token endpoint of the authorization server.
        client_id: the id of your application.
        client_secret: its secret.
        scope: the scopes to request: text, or several texts.
        parameters: further parameters of the token request, such as `audience` or `resource`.
        send_in_body: send id and secret as parameters instead of an `Authorization` header, for
            servers that do not support the header.
        timeout: the limit of a token request in seconds, or an `httpx2.Timeout`.

    Raises:
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | Sequence[str] | None = None,
        parameters: Mapping[str, str] | None = None,
        send_in_body: bool = False,
        timeout: float | TimeoutLike = 30.0,
    ) -> None:
        check_url(token_url, "token_url", credentials_go_into="client_id and client_secret")
        for name, value in (("client_id", client_id), ("client_secret", client_secret)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {type(value).__name__}")
            if not value:
                raise ArgumentError(name, "must not be empty")
        form = {"grant_type": "client_credentials", **(parameters or {})}
        if scope:
            form["scope"] = scope if isinstance(scope, str) else " ".join(scope)
        headers = dict(_TOKEN_HEADERS)
        if send_in_body:
            form |= {"client_id": client_id, "client_secret": client_secret}
        else:
            # Both are form-encoded first (RFC 6749, section 2.3.1).
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        self.token_url = token_url
        self.client_id = client_id
        request = Request(
            "POST",
            token_url,
            headers,
            urlencode(form).encode(),
            timeouts_from(timeout),
            without_client_defaults=True,  # those of an HTTP client are for the agent
        )
        self._cache = TokenCache(request, client_secret)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.token_url)!r}, {self.client_id!r}, ***)"


class TokenCache:
    """The token of one application; has the methods of a `Credential`.

    Tests replace `clock` and `jitter`.
    """

    can_refresh = True

    def __init__(self, request: Request, secret: str) -> None:
        self._request = request
        self._secrets = (secret, quote_plus(secret), *header_secrets(request.headers))
        self._token: str | None = None
        self._usable_until = 0.0
        self._failure: A2ATokenError | None = None
        self._backoff = Backoff()
        self._lock = threading.Lock()
        self._loop_lock: RunVar[Lock] | None = None
        self.attempts = 0
        self.clock: Callable[[], float] = monotonic
        self.jitter: Callable[[], float] = random.random

    @property
    def value(self) -> str | None:
        """The current token, None before the first."""
        return self._token

    def get(self, *, refresh: bool = False) -> str:
        """Return the current token, which the sender has requested."""
        assert self._token is not None  # noqa: S101 - senders request it first
        return self._token

    async def get_async(self, *, refresh: bool = False) -> str:
        """Return the current token, which the sender has requested."""
        return self.get()

    # One request at a time

    def lock(self) -> threading.Lock:
        """Return the lock for the token requests of threads."""
        return self._lock

    def lock_async(self) -> AbstractAsyncContextManager[Any]:
        """Return the lock for the token requests of the running event loop."""
        from anyio import Lock
        from anyio.lowlevel import RunVar

        if self._loop_lock is None:
            self._loop_lock = RunVar("token lock")
        try:
            return self._loop_lock.get()
        except LookupError:
            lock = Lock()
            self._loop_lock.set(lock)
            return lock

    def is_usable(self, rejected: Collection[str]) -> bool:
        """Return True if there is a token that is not about to expire, and was not rejected."""
        if self._token is None or self._token in rejected:
            return False
        return self.clock() < self._usable_until

    def raise_failure_since(self, attempts: int) -> None:
        """Raise the failure of a request that has ended since `attempts` was read.

        The calls that waited for that request fail with it, instead of repeating it one by one.
        """
        if self._failure is not None and self.attempts != attempts:
            raise copy(self._failure)

    # The request

    def fetch(self) -> Flow[None]:
        """Request a token.

        Raises:
            A2ATokenError: the server did not issue one.
        """
        try:
            reply = yield from self._send()
            self._store(reply)
        except A2ATokenError as error:
            redact_chain(error, lambda text: redact(text, self._secrets))
            self._failure = error
            raise
        else:
            self._failure = None
        finally:
            self.attempts += 1

    def _send(self) -> Flow[Reply]:
        failures = 0
        while True:
            result = yield self._request
            failures += 1
            delay = self._retry_delay(result, failures)
            if delay is not None:
                yield Wait(delay)
            elif isinstance(result, Reply):
                return result
            else:
                assert result is not None  # noqa: S101 - None is the result of a wait
                lost = connection_error(self._request, result, failures)
                raise A2ATokenError(f"no token was issued: {lost}") from lost

    def _retry_delay(self, result: Reply | TransportFailure | None, failures: int) -> float | None:
        """Return the seconds before the next attempt, None if there is no further attempt."""
        if failures > _MAX_RETRIES:
            return None
        if isinstance(result, Reply):
            if result.head.status not in RETRIED_STATUSES:
                return None
            server_delay = retry_after(result.head.headers, time.time)
            return self._backoff.retry_delay(failures, server_delay, self.jitter)
        is_final = isinstance(result, TransportFailure) and result.kind in FINAL_FAILURES
        return None if is_final else self._backoff.delay(failures, self.jitter)

    def _store(self, reply: Reply) -> None:
        try:
            body = parse_json(reply.body)
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        if reply.head.status != 200:
            raise self._refusal(reply.head.status, body)
        token = body.get("access_token")
        if not isinstance(token, str) or not VISIBLE.fullmatch(token):
            raise self._error("the response has no valid access_token", 200)
        if str(body.get("token_type", "Bearer")).lower() != "bearer":
            raise self._error("the token in the response is not of type Bearer", 200)
        self._token = token
        self._usable_until = self.clock() + _usable_seconds(body.get("expires_in"))

    def _refusal(self, status: int, body: Mapping[str, Any]) -> A2ATokenError:
        code, text = body.get("error"), body.get("error_description")
        code = code if isinstance(code, str) else None
        said = ": ".join(part for part in (code, text) if isinstance(part, str))
        why = f"HTTP {status}" + (f", {said[:_MAX_EXPLANATION]}" if said else "")
        return self._error(why, status, code)

    def _error(self, why: str, status: int, code: str | None = None) -> A2ATokenError:
        message = f"no token was issued by {shown(self._request.url)}: {why}"
        return A2ATokenError(message, status=status, code=code)


def _usable_seconds(expires_in: object) -> float:
    """Return how long a token is used; some servers send the number as text."""
    seconds = parse_seconds(expires_in)
    if seconds is None:
        return float("inf")
    return seconds - min(_MAX_MARGIN, seconds * _MAX_MARGIN_SHARE)
