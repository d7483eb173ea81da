"""The application around a fake agent ends connections exactly after the packet of the plan."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from coreason_client.testing._received import ABORT, RecordingApp

STREAM = UUID(int=7)
HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"x-stream-id", b"%b")]}


def event(seq: int) -> bytes:
    return b"id: %b:%d\ndata: {}\n\n" % (str(STREAM).encode(), seq)


def play(
    bodies: list[bytes], cuts: list[int], cursor: bytes = b"", *, early: bool = True
) -> tuple[bytes, int]:
    """Send bodies through the application; return what a client gets, and the cuts made."""
    got: list[bytes] = []
    aborted: list[bool] = []

    async def agent(scope: Any, receive: Any, send: Any) -> None:
        await send({**HEAD, "headers": [(b"x-stream-id", str(STREAM).encode())]})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if not early:
            for seq in cuts:
                app.cut_after(STREAM, seq)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(message: Any) -> None:
        if not aborted:
            got.append(message.get("body", b""))

    async def receive() -> Any:
        return {"type": "http.disconnect" if aborted else "http.request", "body": b"{}"}

    app = RecordingApp(agent)
    if early:
        for seq in cuts:
            app.cut_after(STREAM, seq)
    headers = [(b"last-event-id", cursor)] if cursor else []
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    scope[ABORT] = lambda: aborted.append(True)  # type: ignore[assignment]
    asyncio.run(app(scope, receive, send))
    assert app.disconnects == len(aborted)
    assert [request.body for request in app.requests] == [b"{}"]
    return b"".join(got), app.disconnects


@pytest.mark.parametrize("together", [True, False])
def test_no_packet_after_that_of_the_plan_is_sent(together: bool) -> None:
    events = [event(seq) for seq in range(1, 6)]
    bodies = [b"".join(events)] if together else events
    for cut in range(5):
        assert play(bodies, [cut]) == (b"".join(events[:cut]), 1)
    assert play(bodies, []) == (b"".join(events), 0)
    assert play(bodies, [5]) == (b"".join(events), 1)


def test_a_plan_can_come_after_its_packet() -> None:
    assert play([event(1)], [1], early=False) == (event(1), 1)


def test_heartbeats_and_the_start_of_a_resume_count() -> None:
    heartbeat = b": heartbeat\n\n"
    assert play([heartbeat, event(3), event(4)], [3], b"x:2") == (heartbeat + event(3), 1)
    assert play([event(3)], [2], b"x:2") == (b"", 1)


def test_a_connection_is_ended_once() -> None:
    assert play([event(1), event(2)], [1, 1, 2]) == (event(1), 1)
