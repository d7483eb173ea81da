"""The checks that all protocols have in common: the sender of a request, and its permission."""

from collections.abc import Callable, Sequence
from itertools import chain
from time import monotonic_ns
from typing import Final, NamedTuple, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request

from .._names import ANONYMOUS, full_principal, ticket_principal
from .._off_loop import LARGE_BODY, off_loop
from .._options import Options
from ..engine._limits import REQUESTS, Pace
from ._auth import TICKET_PREFIX, Keys, Tickets, bearer_token, unauthorized
from ._body import BodyMemory, BodyReservation, body_length, read_body
from ._problems import PRINCIPAL, Problem
from ._rate_limit import RequestRate, TokenStore

T = TypeVar("T")

_HELD_BODY: Final = "coreason.body"


class Gate:
    """The keys, tickets and limits of one application."""

    def __init__(
        self,
        options: Options,
        keys: Keys | None,
        tickets: Tickets | None = None,
        tokens: TokenStore | None = None,
    ) -> None:
        self.options = options
        self._keys = keys
        self._tickets = tickets
        self._body_memory = BodyMemory(options.max_body_bytes, options.body_timeout)
        self._pace = Pace(REQUESTS)
        self._rate = _rate(options.max_requests_per_minute, tokens)
        self._anybody = full_principal(options.agent_id, ANONYMOUS)

    @property
    def has_keys(self) -> bool:
        """True if requests need a key or a ticket."""
        return self._keys is not None or self._tickets is not None

    async def principal_in_turn(self, request: Request) -> str:
        """Return the principal of a request that may begin now; raises like `principal`."""
        await self.turn()
        return self.principal(request)

    async def turn(self) -> None:
        """Wait until another request may begin."""
        await self._pace.wait()

    def principal(self, request: Request) -> str:
        """Return the principal of a request.

        Raises:
            Problem: 401.
        """
        principal = self.principal_in(request.headers)
        request.scope[PRINCIPAL] = principal
        return principal

    def principal_in(self, headers: Headers) -> str:
        """Return the principal that headers name; raises like `principal`."""
        if not self.has_keys:
            return self._anybody
        agent_id, given = self.options.agent_id, headers.get("authorization")
        if self._tickets is not None:
            token = bearer_token(given) or ""
            if token.startswith(TICKET_PREFIX):
                return ticket_principal(agent_id, self._tickets.subject(token))
            if self._keys is None:
                raise unauthorized("ticket")
        assert self._keys is not None  # noqa: S101 - otherwise a ticket was needed
        return full_principal(agent_id, self._keys.principal(given))

    def header_problem(self, headers: Sequence[tuple[bytes, bytes]]) -> Problem | None:
        """Return the refusal of a request whose headers are too large."""
        most = self.options.max_header_bytes
        if sum(map(len, chain.from_iterable(headers))) <= most:
            return None
        return Problem(431, "headers-too-large", f"The headers may have at most {most} bytes.")

    async def take_token(self, principal: str) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available.

        Raises:
            LogUnavailable: the processes share the limit, and the store does not answer.
        """
        return 0 if self._rate is None else await self._rate.take(principal)

    async def give_token_back(self, principal: str) -> None:
        """Give back the token of a request that only joined a stream; raises like `take_token`."""
        if self._rate is not None:
            await self._rate.give_back(principal)

    def announced_length(self, request: Request, is_plain_text_allowed: bool = False) -> int | None:
        """Return the length of the body according to the head; raises like `body_length`."""
        return body_length(request.headers, self.options.max_body_bytes, is_plain_text_allowed)

    async def read(
        self, request: Request, principal: str, length: int | None, parse: Callable[[bytes], T]
    ) -> T:
        """Read and parse the body, a large one in a thread and within the memory for large bodies.

        Raises:
            Problem: as `read_body` and `parse`.
        """
        held: _HeldBody | None = request.scope.pop(_HELD_BODY, None)
        if held is None:
            held = await self._hold(request, principal, length)
        try:
            return await _parsed(held.body, parse)
        finally:
            held.reservation.release()

    async def read_ahead(self, request: Request, principal: str, parse: Callable[[bytes], T]) -> T:
        """Read the body and return what `parse` finds in it; the next `read`, of any gate, gets it.

        Its memory stays reserved until then, or until `drop_body`.

        Raises:
            Problem: as `body_length` and `read_body`.
        """
        held = await self._hold(request, principal, self.announced_length(request))
        request.scope[_HELD_BODY] = held
        return await _parsed(held.body, parse)

    async def _hold(self, request: Request, principal: str, length: int | None) -> "_HeldBody":
        reservation = self._body_memory.reservation(principal)
        try:
            body = await read_body(request, length, self.options, reservation.reserve)
        except BaseException:
            reservation.release()
            raise
        return _HeldBody(body, reservation)

    async def parse_large(self, principal: str, body: bytes, parse: Callable[[bytes], T]) -> T:
        """Parse a body that was read in another way, in the thread for large bodies.

        Raises:
            Problem: as `parse`, or 503 if there are too many large bodies.
        """
        reservation = self._body_memory.reservation(principal)
        try:
            await reservation.reserve(len(body))
            return await off_loop(lambda: parse(body))
        finally:
            reservation.release()


class _HeldBody(NamedTuple):
    """A body that was read, and the memory for it."""

    body: bytes
    reservation: BodyReservation


async def _parsed(body: bytes, parse: Callable[[bytes], T]) -> T:
    return parse(body) if len(body) <= LARGE_BODY else await off_loop(lambda: parse(body))


def drop_body(request: Request) -> None:
    """Release a body that `read_ahead` has kept, if it was not read since."""
    held: _HeldBody | None = request.scope.pop(_HELD_BODY, None)
    if held is not None:
        held.reservation.release()


class _LocalRate:
    """The limit of requests in this process."""

    def __init__(self, per_minute: int) -> None:
        self._rate = RequestRate(per_minute)

    async def take(self, principal: str) -> int:
        return self._rate.take(principal, monotonic_ns())

    async def give_back(self, principal: str) -> None:
        self._rate.give_back(principal, monotonic_ns())


class _SharedRate:
    """The limit of requests in all processes that share a store."""

    def __init__(self, per_minute: int, tokens: TokenStore) -> None:
        self._per_minute = per_minute
        self._tokens = tokens

    async def take(self, principal: str) -> int:
        return await self._tokens.take_token(principal, self._per_minute)

    async def give_back(self, principal: str) -> None:
        await self._tokens.give_token_back(principal, self._per_minute)


def _rate(per_minute: int | None, tokens: TokenStore | None) -> _LocalRate | _SharedRate | None:
    if per_minute is None:
        return None
    return _LocalRate(per_minute) if tokens is None else _SharedRate(per_minute, tokens)
