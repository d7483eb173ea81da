"""The wire cases of `tests/cap/cases`, which the tests of both languages read, as scripts.

The format is described in `tests/cap/cases/README.md`.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coreason_client._http._types import FailureKind
from coreason_client.cap.position import Position
from tests.cap.scripted import Connection, failure
from tests.faults import Packet, block, sse

CASES = Path(__file__).parent / "cases"
STREAMS = {
    "A": "0a0a0a0a-0000-4000-8000-00000000000a",
    "B": "0b0b0b0b-0000-4000-8000-00000000000b",
}
FAILURES = {"reset": FailureKind.BROKEN, "timeout": FailureKind.TIMEOUT}
OTHER_FILES = {"faults", "disconnects"}

_SHORT = re.compile(r"(?:(B):)?([a-zA-Z]+?)(\d+)((?::\d+)*)")


def load(name: str) -> Any:
    """Return the content of a file."""
    return json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))


def wire_cases() -> list[Any]:
    """Return all cases as parameters, with their names and the requirements that they prove."""
    names = sorted(path.stem for path in CASES.glob("*.json"))
    return [
        pytest.param(
            case,
            id=f"{name}: {case['name']}",
            marks=pytest.mark.proves(*case.get("proves", ())),
        )
        for name in names
        if name not in OTHER_FILES
        for case in load(name)["cases"]
    ]


def with_ids(text: str) -> str:
    """Return a text with the ids of the streams in place of their names."""
    for name, stream_id in STREAMS.items():
        text = text.replace(f"{{{name}}}", stream_id)
    return text


def connection(case: dict[str, Any]) -> Connection:
    """Return one connection of a case."""
    status = case.get("status", 200)
    stream = {"content-type": "text/event-stream"} if status == 200 else {}
    return Connection(
        chunks=[_chunk(chunk) for chunk in case.get("chunks", ())],
        end=failure(FAILURES[case["end"]]) if "end" in case else None,
        refused=failure(FAILURES[case["refused"]]) if "refused" in case else None,
        status=status,
        headers=case.get("headers", stream),
        body=case.get("body", "").encode(),
        seconds=case.get("seconds", 0.0),
    )


def options(case: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the machine."""
    given = dict(case.get("options", {}))
    if "position" in given:
        given["position"] = position(given["position"])
    return given


def position(value: dict[str, Any] | None) -> Position | None:
    """Return a position of a case."""
    if value is None:
        return None
    return Position.model_validate_json(with_ids(json.dumps(value)))


def _chunk(chunk: Any) -> bytes:
    parts = chunk if isinstance(chunk, list) else [chunk]
    return b"".join(_part(part) for part in parts)


def _part(part: Any) -> bytes:
    if isinstance(part, str):
        packet, epoch = _short_packet(part)
        return block(packet.json(), packet.event_id + epoch)
    if "hex" in part:
        return bytes.fromhex(part["hex"])
    if "text" in part:
        return with_ids(part["text"]).encode()
    stream = STREAMS[part.get("stream", "A")]
    packet = Packet(stream, part["seq"], part["op"], part["p"])
    event_id = part.get("id", True)
    if isinstance(event_id, str):
        return block(packet.json(), with_ids(event_id))
    return sse(packet, with_id=event_id)


def _short_packet(short: str) -> tuple[Packet, str]:
    """Return a packet, and the epoch in its id."""
    match = _SHORT.fullmatch(short)
    assert match is not None, short
    stream, kind, seq = STREAMS[match[1] or "A"], match[2], int(match[3])
    error = {"code": "busy", "message": "too much", "severity": kind}
    kinds: dict[str, tuple[str, Any]] = {
        "w": ("DELTA", f"w{seq} "),
        "close": ("CLOSE", {"reason": "done"}),
    }
    op, payload = kinds.get(kind, ("ERROR", error))
    return Packet(stream, seq, op, payload), match[4]
