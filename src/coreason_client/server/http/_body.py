"""Reads the bodies of requests within limits (time, size, values, memory), for all protocols."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError, from_json
from pydantic_core import core_schema as schema
from starlette.requests import ClientDisconnect, Request

from .._internals import SEND, response_cycle
from .._off_loop import LARGE_BODY
from .._options import Options
from ._problems import Problem

# The cost of parsing a JSON body, estimated without parsing it. Pure.
#
# The cost does not depend on the bytes alone: four megabytes of text are parsed in milliseconds,
# four megabytes of empty lists in seconds, and no other Python code runs meanwhile. Both counts
# here are cheap and are made before the body is parsed.

_SLICE: Final = 65_536


class ValueCount:
    """Counts the values of a JSON document that arrives in chunks; the count is an upper bound.

    Each `[`, `{` and `,` outside strings begins at most one value. For invalid JSON the count has
    no meaning; the parser will refuse it.
    """

    __slots__ = ("_escape", "_in_string", "count")

    def __init__(self) -> None:
        self.count = 1
        self._in_string = 0
        self._escape = b""

    def feed(self, chunk: bytes | bytearray, limit: int) -> bool:
        """Count the values of the next chunk; return False if there are more than `limit`."""
        for start in range(0, len(chunk), _SLICE):
            self._feed(chunk[start : start + _SLICE])
            if self.count > limit:
                return False
        return True

    def _feed(self, piece: bytes | bytearray) -> None:
        # Without escaped backslashes and quotes, every quote begins or ends a string.
        text = (self._escape + piece).replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escape = b"\\" if text.endswith(b"\\") else b""
        parts = text.split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= (len(parts) - 1) & 1
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")


def count_messages(body: bytes) -> tuple[int, int]:
    """Return the number of messages in a request, and the total number of their parts.

    This costs a tenth of the validation. Invalid values count as 0.
    """
    try:
        found: dict[str, Any] = _SHAPE.validate_json(body)
    except ValidationError:
        return 0, 0
    messages = (found.get("payload") or {}).get("messages") or []
    return len(messages), sum(len((m or {}).get("parts") or ()) for m in messages)


def _or_none(inner: schema.CoreSchema) -> schema.CoreSchema:
    return schema.with_default_schema(inner, default=None, on_error="default")


def _object(**fields: schema.CoreSchema) -> schema.CoreSchema:
    """Return the schema of an object of which only these fields are read."""
    named = {name: schema.typed_dict_field(field, required=False) for name, field in fields.items()}
    return _or_none(schema.typed_dict_schema(named))


def _list(item: schema.CoreSchema) -> schema.CoreSchema:
    return _or_none(schema.list_schema(item))


_SHAPE = SchemaValidator(
    schema.typed_dict_schema(
        {
            "payload": schema.typed_dict_field(
                _object(messages=_list(_object(parts=_list(_object())))), required=False
            )
        }
    )
)


# The meaning of a JSON body, for a comparison with the body of an earlier request. Pure.

# A parsed body has no circular references; looking for them would be a sixth of the time.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


def fingerprint(body: bytes) -> str:
    """Return a digest that is equal for two bodies if and only if they mean the same.

    White space and the order of keys are ignored: the request of a resume may have been encoded by
    another version of a client.
    """
    with suppress(ValueError, RecursionError):  # for example, numbers with thousands of digits
        return _canonical_digest(body)
    return sha256(body).hexdigest()


def _canonical_digest(body: bytes) -> str:
    if len(body) <= LARGE_BODY:
        return sha256(_CANONICAL.encode(from_json(body)).encode()).hexdigest()
    # The same in small steps: encoding everything or parsing many long numbers in one call would
    # keep all other threads from running.
    digest = sha256()
    for piece in _CANONICAL.iterencode(json.loads(body, parse_int=_int)):
        digest.update(piece.encode())
    return digest.hexdigest()


def _int(digits: str) -> int:
    return int(digits)


# The memory for large bodies that are being read or wait to be parsed.
#
# A process keeps a bounded number of bytes, and one principal gets at most a quarter of them, so
# one key cannot keep the others from sending. A request that finds no free memory waits, and its
# body is not read meanwhile.

_MAX_BODIES: Final = 16
_MAX_BODIES_PER_PRINCIPAL: Final = 4


class BodyMemory:
    """The memory for large bodies in one process; `max_bytes` is the size of the largest body."""

    def __init__(self, max_bytes: int, timeout: float) -> None:
        self._free = _MAX_BODIES * max_bytes
        self._max_per_principal = _MAX_BODIES_PER_PRINCIPAL * max_bytes
        self._timeout = timeout
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[BodyReservation, int, asyncio.Future[None]]] = deque()

    def reservation(self, principal: str) -> "BodyReservation":
        """Return an empty reservation for one body."""
        return BodyReservation(self, principal)

    async def reserve(self, reservation: "BodyReservation", size: int) -> None:
        """Reserve memory for a body, and wait for it if necessary.

        Raises:
            Problem: 503, no memory was released in time.
        """
        if not self._waiting and self._fits(reservation, size):
            self._grant(reservation, size)
            return
        granted = asyncio.get_running_loop().create_future()
        entry = (reservation, size, granted)
        self._waiting.append(entry)
        self._grant_waiting()  # the earlier ones may all wait for the limit of their principal
        try:
            async with asyncio.timeout(self._timeout):
                await granted
        except TimeoutError:
            raise _busy() from None
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._grant_waiting()

    def release(self, reservation: "BodyReservation") -> None:
        """Free the memory of a reservation for the requests that wait."""
        self._free += reservation.size
        self._held[reservation.principal] -= reservation.size
        if not self._held[reservation.principal]:
            del self._held[reservation.principal]
        self._grant_waiting()

    def _fits(self, reservation: "BodyReservation", size: int) -> bool:
        held = self._held[reservation.principal]
        return size <= self._free and held + size <= self._max_per_principal

    def _grant(self, reservation: "BodyReservation", size: int) -> None:
        reservation.size = size
        self._free -= size
        self._held[reservation.principal] += size

    def _grant_waiting(self) -> None:
        """Grant memory in the order of arrival.

        A request that waits for the limit of its principal does not delay the others.
        """
        for entry in list(self._waiting):
            reservation, size, granted = entry
            if size > self._free:
                return
            if self._fits(reservation, size):
                self._waiting.remove(entry)
                if not granted.done():
                    self._grant(reservation, size)
                    granted.set_result(None)


class BodyReservation:
    """The memory that is reserved for one body."""

    def __init__(self, memory: BodyMemory, principal: str) -> None:
        self.principal = principal
        self.size = 0
        self._memory = memory

    async def reserve(self, size: int) -> None:
        """Reserve memory, once; a small body needs none."""
        if size > LARGE_BODY and not self.size:
            await self._memory.reserve(self, size)

    def release(self) -> None:
        """Release the memory, if any was reserved."""
        if self.size:
            self._memory.release(self)
            self.size = 0


def _busy() -> Problem:
    return Problem(
        503,
        "busy",
        "The server is reading too many large bodies.",
        headers={"Retry-After": "1", "Connection": "close"},
    )


_MAX_DRAINED_BYTES: Final = 1024 * 1024
_MAX_DRAIN_SECONDS: Final = 1.0


def body_length(
    headers: Mapping[str, str], max_bytes: int, is_plain_text_allowed: bool = False
) -> int | None:
    """Return the length of the body according to the head, None if it gives none.

    A page of any site may send text/plain without being asked; so where that is allowed, a key, or
    the check of Host and Origin before this, must keep other pages out.

    Raises:
        Problem: 415 or 413.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = content_type == "application/json" or content_type.endswith("+json")
    if not is_json and not (is_plain_text_allowed and content_type == "text/plain"):
        raise Problem(415, "unsupported-media-type", "Send the request as application/json.")
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return None
    if len(length) > 18 or int(length) > max_bytes:
        raise _too_large(max_bytes)
    return int(length)


async def read_body(
    request: Request,
    length: int | None,
    options: Options,
    reserve: Callable[[int], Awaitable[None]],
) -> bytes:
    """Read the body; `reserve` is called with its size before a large body is stored.

    Raises:
        Problem: 413, 408, or 400 if the body is incomplete.
    """
    if length is not None:
        await reserve(length)
    cycle = response_cycle(request.scope.get(SEND))
    arrived = cycle is not None and not cycle.more_body  # so no timer is needed
    reading = _read(request, options, reserve)
    return await _arriving_within(None if arrived else options.body_timeout, reading)


async def read_within(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Read a body that is not checked any further.

    Raises:
        Problem: 413, 408, or 400 if the body is incomplete.
    """
    return await _arriving_within(seconds, _read_up_to(request, max_bytes))


async def _read_up_to(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


async def _arriving_within(seconds: float | None, reading: Awaitable[bytes]) -> bytes:
    try:
        if seconds is None:
            return await reading
        try:
            async with asyncio.timeout(seconds):
                return await reading
        except TimeoutError:
            raise too_slow(seconds) from None
    except ClientDisconnect:
        raise Problem(
            400, "incomplete-body", "The connection ended before the body was complete."
        ) from None


async def drain_body(request: Request) -> None:
    """Drain a bounded part of an unwanted body.

    If a connection is closed while bytes still arrive, it is reset, and the reset may discard the
    response: the client would see a broken connection instead of the reason for the refusal.
    """
    left = _MAX_DRAINED_BYTES
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: already read
        async with asyncio.timeout(_MAX_DRAIN_SECONDS):
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    return


async def _read(
    request: Request, options: Options, reserve: Callable[[int], Awaitable[None]]
) -> bytes:
    body, values, counted = bytearray(), ValueCount(), 0
    async for chunk in request.stream():
        body += chunk
        if len(body) > options.max_body_bytes:
            raise _too_large(options.max_body_bytes)
        if len(body) > options.max_json_values:  # each value has a byte
            if not values.feed(body[counted:], options.max_json_values):
                raise too_complex(options.max_json_values)
            counted = len(body)
        if len(body) > LARGE_BODY:  # and its length was not known
            await reserve(options.max_body_bytes)
    return bytes(body)


def too_slow(timeout: float) -> Problem:
    """Return the refusal of a body that did not arrive in time."""
    return Problem(
        408,
        "request-timeout",
        f"The body did not arrive within {timeout:g} s.",
        headers={"Connection": "close"},
    )


def too_complex(max_values: int) -> Problem:
    """Return the refusal of a body with too many values."""
    return Problem(
        413,
        "body-too-complex",
        f"A request may have at most {max_values} JSON values.",
        headers={"Connection": "close"},
    )


def _too_large(max_bytes: int) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"A request may have at most {max_bytes} bytes.",
        headers={"Connection": "close"},
    )
