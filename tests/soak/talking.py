"""Durable agents that ask, listen and take turns, while replicas are killed and frozen.

Three kinds of streams run beside each other: approvals, of which some are answered after a kill;
messages to running streams, from senders that repeat what was not acknowledged; and several
messages of one conversation at once, which wait for each other.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import httpx2

from coreason_client import AsyncCAPClient, CAPConnectionError, CAPError, Position
from coreason_manifest.definitions.presentation import ClosePacket, ErrorPacket

from ..server.log.valkey_server import ValkeyServer
from .faults import Kind, Store, until
from .fulldisk import TcpPostgres
from .options import ReplicaOptions
from .readers import READ_TIMEOUT, TRANSIENT, client_for, read_stream
from .site import Account, Settings, Site, started, work_under_faults
from .talking_replica import EFFECTS, PROGRAM
from .talking_tally import (
    APPROVAL,
    INBOX,
    ORDER,
    PAY,
    UNREAD,
    Answer,
    Approval,
    Effect,
    Said,
    Talk,
    approval_rows,
    inbox_rows,
    order_rows,
)
from .tally import HUNG, Notes, Reading, Row, count, longest_silence, plain, titled, zero

PREFIX = "talking"
_TURNS, _MESSAGES = 4, 10  # of a conversation, and that an agent reads
_KILL_WITHIN = 8.0
_SENT_WITHIN = 40.0  # seconds until a sender gives up, which the table reports
_AGAIN_AFTER = 0.3
_BEGUN_WITHIN = 120.0
_FAULTS: dict[Kind, int] = {"kill": 6, "pause": 1, "restart": 1, "freeze": 3}
READS, ENDS = ("waits", "looks", "steps"), ("returns", "asks", "fails")


class Talkers:
    """The clients of one run; what they do follows from the seed, as far as time allows."""

    def __init__(self, site: Site, client: AsyncCAPClient, settings: Settings) -> None:
        self._site = site
        self._client = client
        self._settings = settings
        self._seed = settings.seed
        self._http = httpx2.AsyncClient(base_url=site.proxy.url, timeout=READ_TIMEOUT)
        self.approvals: list[Approval] = []
        self.talks: list[Talk] = []
        self.conversations: list[list[Answer]] = []
        self.gave_up = 0

    async def aclose(self) -> None:
        await self._http.aclose()

    @property
    def answers(self) -> list[Answer]:
        """All streams."""
        return [
            *(one for each in self.approvals for one in (each.asked, *each.answers)),
            *(talk.answer for talk in self.talks),
            *(talk.next_turn for talk in self.talks if talk.next_turn is not None),
            *(turn for turns in self.conversations for turn in turns),
        ]

    async def talk(self) -> None:
        """Begin everything within some time, and wait for its end."""
        streams, seconds = self._settings.streams, self._settings.seconds
        acts = [
            *_spread(self._approve, streams // 8, seconds),
            *_spread(self._send, streams // 10, seconds),
            *_spread(self._converse, streams // 30, seconds),
        ]
        await asyncio.gather(*acts)

    # Approvals.

    async def _approve(self, number: int) -> None:
        dice = random.Random(f"{self._seed} approval {number}")
        session = f"{APPROVAL}-{self._seed}-{number}"
        name = f"bill-{number}"
        asked = await self._read(Said.of(session, f"{PAY} {name}"))
        if number % 4 == 1:
            answers, paid = [Said.of(session, "No, not today")], None
        elif number % 4 == 2:
            changed, paid = (
                {"approved": True, "arguments": {"name": f"{name}-less"}},
                f"{name}-less",
            )
            answers = [Said.of(session, "", answer=changed)]
        else:
            # Some are sent twice, by two clients that do not know of each other.
            answers, paid = [Said.of(session, "yes")] * (1 + (number % 4 == 3)), name
        approval = Approval(name, paid, asked)
        self.approvals.append(approval)
        kills = self._site.striker.struck
        before = kills["kills"]
        if number % 3 == 0:
            approval.after_kill = await until(lambda: kills["kills"] > before, _KILL_WITHIN)
        else:
            await asyncio.sleep(3 * dice.random())
        approval.answers = list(await asyncio.gather(*map(self._read, answers)))

    async def _read(self, said: Said) -> Answer:
        answer = Answer.of(said)
        await read_stream(self._client, answer)
        return answer

    # Messages to a running agent.

    async def _send(self, number: int) -> None:
        dice = random.Random(f"{self._seed} inbox {number}")
        reads, ends = READS[number % 3], ENDS[number // 3 % 3]
        session = f"{INBOX}-{self._seed}-{number}"
        talk = Talk(Answer.of(Said.of(session, f"{reads} {ends} {_MESSAGES}")), ends)
        self.talks.append(talk)
        reading = asyncio.ensure_future(read_stream(self._client, talk.answer))
        answer = talk.answer
        await until(lambda: answer.stream_id is not None or reading.done(), _BEGUN_WITHIN)
        if answer.stream_id is None:  # it hung, or was refused
            await reading
            return
        for turn in range(_MESSAGES + dice.randrange(5)):
            await asyncio.sleep(dice.random() * (0.8 if turn < _MESSAGES - 1 else 0.4))
            if not await self._deliver(talk, str(turn)):
                break
            if dice.random() < 0.2:  # a sender that did not notice
                talk.sent_again += 1
                await self._deliver(talk, str(turn), again=True)
        await reading
        if talk.next_stream is not None:
            talk.next_turn = await self._follow(session, answer)

    async def _deliver(self, talk: Talk, name: str, *, again: bool = False) -> bool:
        """Send a message until it is accepted or refused; return True if it was accepted."""
        stream_id = talk.answer.stream_id
        assert stream_id is not None
        deadline = time.monotonic() + _SENT_WITHIN
        while time.monotonic() < deadline:
            try:
                await self._client.send(stream_id, f"{UNREAD} {name}", message_id=name)
            except CAPError as error:
                if error.status_code == 409:
                    talk.refused.append(name)
                    return False
                if not _may_retry(error):
                    raise
                talk.sent_again += 1
                await asyncio.sleep(_AGAIN_AFTER)
            else:
                if not again:
                    talk.accepted.append(name)
                return True
        self.gave_up += 1
        talk.unknown.append(name)
        return False

    async def _follow(self, session: str, answer: Answer) -> Answer:
        """Read the turn after an answer, which nobody has asked for."""
        assert answer.stream_id is not None
        position = Position(stream_id=answer.stream_id, seq=max(answer.delivered))
        turn = Answer.of(Said.of(session, ""))
        turn.begin(time.monotonic())
        while turn.end is None:
            following = self._client.follow_conversation(session, position)
            try:
                async with asyncio.timeout(turn.hung_after), aclosing(following):
                    async for packet in following:
                        if packet.seq > 0:  # the first one is the message of the turn
                            turn.take(packet, time.monotonic())
                        if isinstance(packet, ClosePacket | ErrorPacket):
                            turn.complete()
                            break
            except TimeoutError:
                turn.end = HUNG
            except CAPError as error:
                if not _may_retry(error):
                    raise
                await asyncio.sleep(_AGAIN_AFTER)
            position = following.position or position
        return turn

    # Several messages of one conversation.

    async def _converse(self, number: int) -> None:
        session = f"{ORDER}-{self._seed}-{number}"
        turns = [Answer.of(Said.of(session, f"{number}.{turn}")) for turn in range(_TURNS)]
        self.conversations.append(turns)
        if number % 2:
            reading = await asyncio.gather(*map(self._accepted, turns))
        else:  # each when the one before has been accepted
            reading = [await self._accepted(turn) for turn in turns]
        await asyncio.gather(*reading)

    async def _accepted(self, turn: Answer) -> "asyncio.Future[Reading]":
        """Send a message until it is accepted; then it is read."""
        turn.sent_at = time.monotonic()
        body = turn.request.model_dump(mode="json", exclude_none=True)
        deadline = turn.sent_at + _SENT_WITHIN
        while time.monotonic() < deadline:
            try:
                async with self._http.stream("POST", "/assist", json=body) as response:
                    accepted = response.status_code == 200
                    if not accepted and response.status_code not in TRANSIENT:
                        raise RuntimeError(f"a message was refused: {response.status_code}")
            except httpx2.TransportError:
                accepted = False
            if accepted:
                turn.accepted_at = time.monotonic()
                return asyncio.ensure_future(read_stream(self._client, turn))
            await asyncio.sleep(_AGAIN_AFTER)
        self.gave_up += 1
        return asyncio.ensure_future(read_stream(self._client, turn))


def _may_retry(error: CAPError) -> bool:
    return isinstance(error, CAPConnectionError) or error.status_code in TRANSIENT


def _spread(
    act: Callable[[int], Awaitable[None]], number: int, seconds: float
) -> Iterator[Awaitable[None]]:
    """Return the acts, each of which begins at its share of the time."""

    async def later(turn: int) -> None:
        await asyncio.sleep(seconds * turn / number)
        await act(turn)

    return map(later, range(number))


async def talking_rows(folder: Path, settings: Settings) -> tuple[list[Row], str]:
    """Return the tables for both stores, and the stderr of the replicas."""
    settings = replace(settings, faults=_FAULTS, cuts_store=True)
    rows: list[Row] = []
    errors = ""
    for name, make in (("Valkey", lambda: ValkeyServer(keep=True)), ("Postgres", TcpPostgres)):
        print(f"  {name}", file=sys.stderr)
        with make() as store:
            found, more = await talking_under_faults(folder / name, store, settings)
        rows, errors = [*rows, *titled(f"talking, {name}", found)], errors + more
    return rows, errors


async def talking_under_faults(
    folder: Path, store: Store, settings: Settings, *, long: bool = True
) -> tuple[list[Row], str]:
    """Return the table for one store, and the stderr of the replicas."""
    options = ReplicaOptions(
        url=store.url, prefix=PREFIX, lease=settings.lease, durable=True, program=PROGRAM
    )
    account = Account()
    async with started(folder, store, options, settings) as site, client_for(site.proxy.url) as c:
        talkers = Talkers(site, c, settings)
        await work_under_faults(site, settings, talkers.talk())
        await talkers.aclose()
        account.readings = [*talkers.answers, *site.striker.stale]
        await account.close(site.fleet, store, PREFIX)
    effects = list(_effects(folder))
    rows = [
        *approval_rows(talkers.approvals, effects, long=long),
        *inbox_rows(talkers.talks, long=long),
        *order_rows(talkers.conversations, effects),
        zero("senders that gave up", talkers.gave_up),
        *_counted(account),
        *site.rows(),
        zero("replicas with an exit code other than 0", sum(code != 0 for code in account.codes)),
        zero("tracebacks of replicas", account.errors.count("Traceback")),
    ]
    return rows, account.errors


def _counted(account: Account) -> Iterator[Row]:
    """Return the rows for packets; silence has no limit: a message may wait for several others."""
    for row in count(account.readings, Notes.parse(account.notes), account.stored):
        if not row.name.startswith("longest silence"):
            yield row
    yield plain("longest silence", f"{longest_silence(account.readings):.1f} s")


def _effects(folder: Path) -> Iterator[Effect]:
    for file in sorted(folder.glob(f"{EFFECTS}-*")):
        for line in file.read_text().splitlines():
            yield Effect(**json.loads(line))
