"""The answer of one call in a `ResponseCache`: its key, and when it is found, shared and stored.

* The key is a digest of the provider, the URL and the whole body of the request; with a router,
  also of the name of its deployments, any of which may have answered. It is keyed with the
  credentials, headers and `budget_key` of the call, so nobody finds the answers of others, and the
  store contains no secret; or with the `scope` of the cache, which all its callers share.
* Only complete answers are stored: no errors, no filtered or truncated answers, no answers with a
  tool call that is not valid, and no answers of a fallback.
* Equal calls of `generate` at the same time are one request: the first one sends it, the others
  wait. If it has no answer that can be stored, each of the others sends its own request; if its
  caller cancels it, one of the others takes its place. A stream waits for nobody and nobody waits
  for it, because it is as slow as its reader.
"""

import hmac
import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple
from hashlib import sha256
from threading import get_ident
from typing import Any, cast

from pydantic_core import to_json

from ..._drive import Action, Flow
from .._answer import ModelAnswer
from .._argument_errors import AnswerDict
from .._attempts import Attempts
from .._plan import CallPlan, KeyFetcher
from .._reply import parse_content
from .._route import ModelRoute
from ..credentials import AWSCredentials
from ..errors import LLMError, LLMResponseError, LLMStateError
from ..types import Response
from ._state import RouterState
from ._valkey import ValkeyState
from .cache import ABANDONED, Flight, ResponseCache

logger = logging.getLogger("coreason_client.llm")


class CachedAnswer:
    """The answer of one call in a cache.

    `name` is that of the deployments of a router, and `routes` are all that may be used for the
    answer. `parse_as` is the caller's `response_format`.
    """

    def __init__(
        self,
        cache: ResponseCache,
        state: RouterState,
        attempts: Attempts[CallPlan],
        budget_key: str | None,
        parse_as: Any = None,
    ) -> None:
        gate = attempts.gate
        plan = attempts.plan
        self._name, self._plan, self._routes = (
            ("", plan, [plan.route]) if gate is None else gate.cache_plan()
        )
        self._cache = cache
        self._valkey = state if isinstance(state, ValkeyState) else None
        self._attempts = attempts
        self._budget_key = budget_key
        self._parse_as = parse_as
        self._key: str | None = None

    def flow(self, generate: Flow[Response]) -> Flow[Response]:
        """Return the stored answer, that of an equal call, or that of the flow.

        Raises:
            LLMError: there is no answer.
        """
        key = self._key = yield from self._key_flow()
        while key is not None:
            flight, leads = self._cache.join(key)
            if leads:
                return (yield from self._lead_flow(key, flight, generate))
            left = self._attempts.seconds_left()
            if left <= 0:
                raise self._attempts.deadline_error()
            waiting = _Landing(flight, left)
            yield waiting
            if waiting.value is ABANDONED:
                continue
            if (found := self._restored(waiting.value)) is not None:
                return found
            break
        return (yield from generate)

    def find_flow(self) -> Flow[Response | None]:
        """Return the stored answer, None if there is none."""
        self._key = yield from self._key_flow()
        return self._restored((yield from self._get_flow()))

    def store_flow(self, response: Response) -> Flow[bytes | None]:
        """Store an answer and return what was stored, None if it must not be stored."""
        if self._key is None or self._attempts.previous_errors or not _is_complete(response):
            return None
        value = _stored(response)
        if self._valkey is None:
            self._cache.put(self._key, value)
        else:
            milliseconds = int(self._cache.seconds * 1000)
            yield _Command(self._valkey, "SET", self._stored_key(), value, "PX", milliseconds)
        return value

    def _lead_flow(self, key: str, flight: Flight, generate: Flow[Response]) -> Flow[Response]:
        """Find or produce the answer that equal calls wait for."""
        value: Any = ABANDONED
        try:
            value = yield from self._get_flow()
            if (found := self._restored(value)) is not None:
                return found
            value = ABANDONED
            response = yield from generate
            value = yield from self.store_flow(response)
        except Exception:
            value = None
            raise
        finally:  # also if the caller has cancelled the call
            self._cache.land(key, flight, value)
        return response

    def _key_flow(self) -> Flow[str | None]:
        """Return the key, None if there is none because the credentials cannot be fetched."""
        scope, parts = self._cache.scope, list[bytes]()
        if scope is not None:
            return request_key(self._plan, self._name, [b"scope", _bytes(scope)])
        try:
            for route in self._routes:
                parts.append((yield from self._credentials_flow(route)))
        except LLMError:  # the call raises it, or uses another model
            return None
        own = b"" if self._budget_key is None else b"=" + _bytes(self._budget_key)
        return request_key(self._plan, self._name, [b"credentials", own, *sorted(parts)])

    def _credentials_flow(self, route: ModelRoute) -> Flow[bytes]:
        """Return a digest of the credentials and headers of a route; a callable is called."""
        left = self._attempts.seconds_left()
        if route is self._plan.route:  # whose key is fetched only once
            if (step := self._plan.key_step(left)) is not None:
                yield step
                self._plan.key_step(left)
            route = self._plan.route
        elif route.key_provider is not None:
            fetcher = KeyFetcher(route, route.key_provider)
            if (step := fetcher.next_step(left)) is not None:
                yield step
                fetcher.next_step(left)
            route = fetcher.route
        key = astuple(route.key) if isinstance(route.key, AWSCredentials) else (route.key,)
        headers = sorted((name.lower(), value) for name, value in route.headers.items())
        return _digest([to_json((key, headers))])

    def _get_flow(self) -> Flow[bytes | None]:
        if self._key is None:
            return None
        if self._valkey is None:
            return self._cache.get(self._key)
        lookup = _Command(self._valkey, "GET", self._stored_key())
        yield lookup
        stored: bytes | None = lookup.result
        return stored

    def _stored_key(self) -> str:
        return "" if self._valkey is None else f"{{{self._valkey.prefix}}}:cache:{self._key}"

    def _restored(self, stored: bytes | None) -> Response | None:
        """Return a stored response, None if it cannot be read as what this call asks for."""
        call = self._plan.call
        if stored is None:
            return None
        try:
            response = cast("Response", AnswerDict(json.loads(stored)))
            data = response["data"]
            if call.schema is not None and not data["tool_calls"]:
                answer = ModelAnswer(content=data["content"])
                data["parsed"] = parse_content(answer, call, self._parse_as)
            response["usage"]["cost_estimate"] = 0.0
            response.pop("spent", None)
        except (LLMResponseError, ValueError, TypeError, KeyError):
            return None
        response["cached"] = True
        response["seconds"] = self._attempts.seconds()
        return response


class _Landing(Action):
    """A step that waits until an equal call has ended; `value` is what it has stored."""

    __slots__ = ("_flight", "_seconds", "value")

    def __init__(self, flight: Flight, seconds: float) -> None:
        self._flight = flight
        self._seconds = seconds
        self.value: Any = ABANDONED  # also if the time is over: then the caller looks again

    def perform(self) -> None:
        """Wait in this thread, unless the equal call runs in it and would wait for its end."""
        if self._flight.thread == get_ident():
            self.value = None
            return
        with suppress(TimeoutError):
            self.value = self._flight.landed.result(self._seconds)

    async def perform_async(self) -> None:
        """Wait without blocking the event loop."""
        from asyncio import timeout, wrap_future

        with suppress(TimeoutError):
            async with timeout(self._seconds):
                self.value = await wrap_future(self._flight.landed)


class _Command(Action):
    """A step that runs one command of Valkey; without a reply, nothing is cached."""

    __slots__ = ("_command", "_state", "result")

    def __init__(self, state: ValkeyState, *command: str | bytes | int) -> None:
        self._state = state
        self._command = command
        self.result: Any = None

    def perform(self) -> None:
        """Run the command."""
        try:
            self.result = self._state.connections.execute(*self._command)
        except LLMStateError as error:
            logger.warning("the cache is not used: %s", error)

    async def perform_async(self) -> None:
        """Run the command without blocking the event loop."""
        try:
            self.result = await self._state.connections.execute_async(*self._command)
        except LLMStateError as error:
            logger.warning("the cache is not used: %s", error)


def request_key(plan: CallPlan, name: str, owner: Sequence[bytes]) -> str:
    """Return the key of the answer to a request, which only its owner can compute.

    `name` is that of a router's deployments, `owner` the credentials, or what is used instead.
    """
    call = (_bytes(name), _bytes(plan.route.profile.name), _bytes(plan.url), plan.content)
    return hmac.digest(_digest(owner), _digest((*call, b"raw" * plan.call.raw)), "sha256").hex()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part) + part)  # with its length, so that no two are equal
    return digest.digest()


def _is_complete(response: Response) -> bool:
    data = response["data"]
    cut = data["finish_reason"] == "length" or data.get("truncated") or data.get("filtered")
    return not cut and not any("invalid_arguments" in call for call in data["tool_calls"])


def _stored(response: Response) -> bytes:
    data = {name: value for name, value in response["data"].items() if name != "parsed"}
    return to_json({**response, "data": data}, inf_nan_mode="constants")
