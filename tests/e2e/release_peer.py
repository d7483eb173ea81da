"""A server or a client of that version of the package which is on PYTHONPATH.

It uses only what is public, so that the newest release can run it too. Arguments: `serve`, a store
and the URL of a proxy in front, or none; or `cap` or `a2a` and a URL. See `test_last_release`.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import coreason_client
from coreason_client import A2AClient, Bookmark, CAPClient
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_manifest.definitions.presentation import DeltaPacket

WORDS = 40
HELD_AT = 4
LEASE = 1.0
LONGEST = 120.0  # seconds that a server outlives a test that was killed


async def agent(_: ServiceRequest, stream: AgentStream) -> None:
    """Counts; or stops in the middle of its first run; or repeats messages."""
    kind = stream.question.partition(" ")[0]
    if kind == "listen":
        await stream.write("ready ")
        async for message in stream.inbox:
            await stream.write(f"{message.text} ")
            if message.text == "stop":
                return
    pid = await stream.step("pid", os.getpid)
    await stream.write(f"{pid if kind == 'hold' else kind} ")
    for number in range(1, WORDS + 1):
        await stream.write(f"{number} ")
        if (kind, number, stream.attempt) == ("hold", HELD_AT, 1):
            await asyncio.Event().wait()


def store(address: str) -> Any:
    """Return the log at an address: the kind, the path or URL, and the prefix or schema."""
    from coreason_client import server

    kind, where, name = json.loads(address)
    if kind == "sqlite":
        return server.SQLiteStreamLog(where)
    if kind == "valkey":
        return server.ValkeyStreamLog(where, prefix=name, lease=LEASE)
    return server.PostgresStreamLog(where, schema=name, lease=LEASE)


def serve(address: str, proxy: str) -> None:
    """Serve until the process is killed."""
    app = AgentApp(
        agent,
        log=store(address),
        agent_id="peer",
        durable=True,
        a2a=True,
        inbox=True,
        on_busy="wait",
        public_url=proxy or None,
    )
    with running(app) as server:
        print(f"serving {server.url} {coreason_client.__file__}", file=sys.stderr, flush=True)
        time.sleep(LONGEST)


def read_cap(url: str) -> dict[str, object]:
    """Read streams in every way that a CAP client has."""
    found: dict[str, object] = {}
    with CAPClient(url, "key") as client:
        found["chat"] = str(client.ask("chat", "one"))  # its connections are cut
        stream = client.chat("bookmark", "two")
        begun = [next(stream) for _ in range(3)]
        saved = stream.bookmark().to_json()
        stream.close()
        rest = client.resume_chat(Bookmark.model_validate_json(saved))
        found["bookmark"] = "".join([*begun, *rest])
        listening = client.chat("listen", "three")
        words = [next(listening)]
        for text in ("hello", "stop"):
            assert listening.stream_id is not None
            client.send(listening.stream_id, text)
        found["inbox"] = "".join([*words, *listening])
        followed = client.chat("first", "four")
        assert "".join(followed)
        client.ask("second", "four")
        with client.follow_conversation("four", followed.position) as packets:
            texts = []
            for packet in packets:
                texts += [packet.p] if isinstance(packet, DeltaPacket) else []
                if packet.is_last:
                    break
        found["follow"] = "".join(texts)
    return found


def read_a2a(url: str) -> dict[str, object]:
    """Read a stream of A2A, whose connections are cut, and the task of a message."""
    with A2AClient.connect(url) as client:
        streamed = "".join(event.text for event in client.send_message_stream("stream"))
        return {"stream": streamed, "send": client.send_message("send").text}


CLIENTS: dict[str, Callable[[str], dict[str, object]]] = {"cap": read_cap, "a2a": read_a2a}

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role == "serve":
        serve(*arguments)
    else:
        print(json.dumps({"from": coreason_client.__file__, **CLIENTS[role](*arguments)}))
