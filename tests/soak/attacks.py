"""Large valid bodies of one key, as many at a time as an attacker would send."""

import asyncio
import json
import random
from collections import Counter
from uuid import UUID

import httpx2

from ..server.peer import envelope

MOST_BYTES = 4 * 1024 * 1024  # the default limit of a body
_AT_ONCE = 16
_ROUNDS = 2
_ANSWER_WITHIN = 20.0
_MESSAGE = {"role": "user", "parts": [{"type": "text", "content": ""}]}


async def send_bodies(url: str, key: str, dice: random.Random) -> Counter[str]:
    """Send the largest allowed bodies of tiny messages, and count the answers by status.

    Every second one is a resume of a stream that does not exist.
    """
    answers: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    limits = httpx2.Limits(max_connections=_AT_ONCE)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=_ANSWER_WITHIN, limits=limits
    ) as http:
        for _ in range(_ROUNDS):
            bodies = [large_body(_uuid(dice)) for _ in range(_AT_ONCE)]
            cursors = [f"{_uuid(dice)}:5" if turn % 2 else None for turn in range(_AT_ONCE)]
            answers.update(await asyncio.gather(*map(_send, [http] * _AT_ONCE, bodies, cursors)))
    return answers


def large_body(request_id: UUID) -> bytes:
    """Return a valid body with as many tiny messages as fit."""
    body = envelope("")
    body["request_id"] = str(request_id)
    body["payload"]["messages"] = []
    empty = json.dumps(body, separators=(",", ":")).encode()
    message = json.dumps(_MESSAGE, separators=(",", ":")).encode()
    number = (MOST_BYTES - len(empty)) // (len(message) + 1)
    return empty.replace(b"[]", b"[" + b",".join([message] * number) + b"]")


async def _send(http: httpx2.AsyncClient, body: bytes, cursor: str | None) -> str:
    headers = {} if cursor is None else {"Last-Event-ID": cursor}
    try:
        response = await http.post("/assist", content=body, headers=headers)
    except httpx2.TransportError as error:  # a server may close on a body that it does not want
        return type(error).__name__
    return str(response.status_code)


def _uuid(dice: random.Random) -> UUID:
    return UUID(int=dice.getrandbits(128), version=4)
