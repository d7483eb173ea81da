"""`ResponseCache`: answers to requests that were sent before, exactly the same.

The key of an answer is a hash of the provider, the URL and the whole body of the request; with a
router, also of the name of its deployments, any of which may have answered. Only complete answers
of `generate` are cached: no errors, no filtered or truncated answers, no answers with a tool call
that is not valid, no answers of a fallback, and no streams.
"""

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from ... import _fork
from ..._clock import monotonic
from ..._drive import Action, Flow
from ...errors import ArgumentError
from .._answer import Answer
from .._assemble import parse_content
from .._attempts import Attempts
from .._call import Call
from .._plan import Plan
from ..errors import LLMResponseError, LLMStateError
from ..types import Response
from ._numbers import is_number
from ._state import State
from ._valkey import ValkeyState

__all__ = ["ResponseCache", "cached_flow", "request_key"]

logger = logging.getLogger("coreason_client.llm")


class ResponseCache:
    """Returns the answer to a request that was sent before, exactly the same, without sending it.

    The response then has `"cached": True` and costs nothing. In a client with a `ValkeyState` the
    answers are in Valkey, else in this process; clients that are given the same cache share it.

    Args:
        seconds: how long an answer may be used.
        max_entries: the number of answers in this process; the one that was not used for longest is
            dropped first. Valkey has its own limit, `maxmemory`.
        max_bytes: the size of all answers in this process.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(
        self,
        seconds: float = 3600.0,
        max_entries: int = 1000,
        max_bytes: int = 64 * 1024 * 1024,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not is_number(seconds) or not 0 < seconds < 1e9:
            raise ArgumentError("seconds", "must be a number greater than 0", seconds)
        for name, value in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if type(value) is not int or value < 1:
                raise ArgumentError(name, "must be a whole number, 1 or more", value)
        self.seconds = seconds
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        _fork.register(self)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> bytes | None:
        """Return the answer of a key in this process, None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry[0] <= self._clock():
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: str, value: bytes) -> None:
        """Store an answer in this process, unless it is larger than the whole cache."""
        with self._lock:
            if key in self._entries:
                self._remove(key)
            if len(value) > self._max_bytes:
                return
            self._entries[key] = self._clock() + self.seconds, value
            self._bytes += len(value)
            while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
                self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        """Remove all answers of this process."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    def _remove(self, key: str) -> None:
        self._bytes -= len(self._entries.pop(key)[1])


class _ValkeyCommand(Action):
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


def request_key(plan: Plan, name: str = "") -> str:
    """Return the key of the answer to a request; `name` is that of a router's deployments."""
    parts = (name.encode(), plan.route.profile.name.encode(), plan.url.encode(), plan.content)
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part) + part)  # with its length, so that no two keys are equal
    return digest.hexdigest()


def cached_flow(
    cache: ResponseCache,
    state: State,
    plan: Plan,
    name: str,
    attempts: Attempts[Plan],
    flow: Flow[Response],
    parse_as: Any = None,
) -> Flow[Response]:
    """Return the cached answer to a request, or that of the flow, which is then cached.

    Raises:
        LLMError: there is no answer.
    """
    key = request_key(plan, name)
    shared = state if isinstance(state, ValkeyState) else None
    stored_key = "" if shared is None else f"{{{shared.prefix}}}:cache:{key}"
    if shared is None:
        stored = cache.get(key)
    else:
        lookup = _ValkeyCommand(shared, "GET", stored_key)
        yield lookup
        stored = lookup.result
    if stored is not None and (found := _restored(stored, plan.call, parse_as)) is not None:
        found["seconds"] = attempts.seconds()
        return found
    response = yield from flow
    if not attempts.previous_errors and _is_complete(response):
        value = _stored(response)
        if shared is None:
            cache.put(key, value)
        else:
            yield _ValkeyCommand(shared, "SET", stored_key, value, "PX", int(cache.seconds * 1000))
    return response


def _is_complete(response: Response) -> bool:
    data = response["data"]
    cut = data["finish_reason"] == "length" or data.get("truncated") or data.get("filtered")
    return not cut and not any("invalid_arguments" in call for call in data["tool_calls"])


def _stored(response: Response) -> bytes:
    data = {name: value for name, value in response["data"].items() if name != "parsed"}
    return to_json({**response, "data": data}, inf_nan_mode="constants")


def _restored(stored: bytes, call: Call, parse_as: Any) -> Response | None:
    """Return a stored response, None if it cannot be read as what this call asks for."""
    try:
        response: Response = json.loads(stored)
        data = response["data"]
        if call.schema is not None and not data["tool_calls"]:
            data["parsed"] = parse_content(Answer(content=data["content"]), call, parse_as)
        response["usage"]["cost_estimate"] = 0.0
        response.pop("spent", None)
    except (LLMResponseError, ValueError, TypeError, KeyError):
        return None
    response["cached"] = True
    return response
