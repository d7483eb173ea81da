"""Sends many large valid bodies with one key, as an attacker would."""

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
_FEW = 2_000  # messages, each of them long; the default limit of a request


async def send_bodies(url: str, key: str, dice: random.Random) -> Counter[str]:
    """Send the largest allowed bodies, and count the answers by status.

    Of four bodies two are resumes of streams that do not exist, and one has so few messages that
    a server with default limits must parse it.
    """
    answers: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    limits = httpx2.Limits(max_connections=_AT_ONCE)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=_ANSWER_WITHIN, limits=limits
    ) as http:
        for _ in range(_ROUNDS):
            sending = [_send(http, dice, turn) for turn in range(_AT_ONCE)]
            answers.update(await asyncio.gather(*sending))
    return answers


def large_body(request_id: UUID, messages: int | None = None) -> bytes:
    """Return a valid body of the maximum size, with a number of messages or as many as fit."""
    body = envelope("")
    body["request_id"] = str(request_id)
    (message,) = body["payload"]["messages"]
    body["payload"]["messages"] = []
    empty = _dump(body)
    free = MOST_BYTES - len(empty)
    number = free // (len(_dump(message)) + 1) if messages is None else messages
    message["parts"][0]["content"] = "x" * (free // number - len(_dump(message)) - 1)
    return empty.replace(b"[]", b"[" + b",".join([_dump(message)] * number) + b"]")


async def _send(http: httpx2.AsyncClient, dice: random.Random, turn: int) -> str:
    body = large_body(_uuid(dice), _FEW if turn % 4 == 0 else None)
    headers = {"Last-Event-ID": f"{_uuid(dice)}:5"} if turn % 2 else {}
    try:
        response = await http.post("/assist", content=body, headers=headers)
    except httpx2.TransportError as error:  # the server may close early
        return type(error).__name__
    return str(response.status_code)


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _uuid(dice: random.Random) -> UUID:
    return UUID(int=dice.getrandbits(128), version=4)
