"""Random disconnects as data: `python -m tests.cap.disconnects` writes `cases/disconnects.json`.

A plan says what a server does on each connection of one stream: how much it repeats, how its bytes
are cut into chunks, and after which byte the connection is lost. The tests of both languages play
the same plans: every packet has to be delivered exactly once.
"""

import json
import random
from pathlib import Path
from typing import Any

from tests.cap.scripted import Connection, failure, status
from tests.faults import Packet, number, sse

FILE = Path(__file__).parent / "cases" / "disconnects.json"
SEEDS = range(60)
STREAM_ID = "0d0d0d0d-0000-4000-8000-00000000000d"
ABOUT = (
    "Random disconnects, written by python -m tests.cap.disconnects: the words of a stream, and"
    " for each connection how many packets before the cursor it repeats (null: all), whether it"
    " sends ids, the sizes of its chunks in turn, after how many bytes it is lost, and how. The"
    " connection after the last one brings all that is left."
)
WORDS = ("plain ", "naïve ", "日本語 ", "🙂 ", "two\nlines ", '"quoted" ', "")
LOSSES = ("reset", "clean", "refused", "503")


def make_plan(seed: int) -> dict[str, Any]:
    """Return the plan of a seed."""
    draw = random.Random(seed)
    words = [draw.choice(WORDS) for _ in range(draw.randint(1, 40))]
    size = len(body(packets(words), with_id=True))
    connections = [_connection(draw, size) for _ in range(draw.randint(0, 25))]
    return {"name": f"seed {seed}", "words": words, "connections": connections}


def _connection(draw: random.Random, size: int) -> dict[str, Any]:
    return {
        "repeats": draw.choice((0, 0, 0, 1, 3, None)),
        "ids": draw.random() < 0.8,
        "chunks": [draw.choice((1, 2, 3, 7, 50, 1000)) for _ in range(draw.randint(1, 4))],
        "lost_after": draw.randint(0, size) if draw.random() < 0.5 else draw.randint(0, 300),
        "loss": draw.choice(LOSSES),
    }


def packets(words: list[str]) -> list[Packet]:
    """Return the packets of a plan: its words and a CLOSE."""
    payloads: list[tuple[str, Any]] = [("DELTA", word) for word in words]
    return number(STREAM_ID, [*payloads, ("CLOSE", {"reason": "done"})])


def body(sent: list[Packet], *, with_id: bool) -> bytes:
    """Return packets as the bytes of a response."""
    return b"".join(sse(packet, with_id=with_id) for packet in sent)


def play(plan: dict[str, Any], number_: int, cursor: str | None) -> Connection:
    """Return the connection of this number (from 0) for a client that sends this cursor."""
    log = packets(plan["words"])
    seen = int(cursor.rpartition(":")[2]) if cursor and ":" in cursor else 0
    if number_ >= len(plan["connections"]):
        return Connection([body(log[seen:], with_id=True)])
    step = plan["connections"][number_]
    if step["loss"] == "refused":
        return Connection(refused=failure())
    if step["loss"] == "503" and number_ > 0:  # at first it would be final
        return status(503)
    first = 0 if step["repeats"] is None else max(seen - step["repeats"], 0)
    data = body(log[first:], with_id=step["ids"])[: step["lost_after"]]
    return Connection(list(pieces(data, step["chunks"])), end_of(step))


def end_of(step: dict[str, Any]) -> Any:
    """Return the failure with which a connection ends, None for a clean end."""
    return failure() if step["loss"] == "reset" else None


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut data into chunks of these sizes, in turn."""
    found: list[bytes] = []
    while data:
        size = sizes[len(found) % len(sizes)]
        found.append(data[:size])
        data = data[size:]
    return found


def content() -> str:
    """Return the content of the file."""
    plans = [json.dumps(make_plan(seed), ensure_ascii=False) for seed in SEEDS]
    return f'{{\n"about": {json.dumps(ABOUT)},\n"cases": [\n' + ",\n".join(plans) + "\n]\n}\n"


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
