"""The artifacts that a conversation has shown, however they came."""

import re
from pathlib import Path
from typing import Any

from coreason_client.a2a import Artifact, Part
from coreason_client.cli.a2a._events import ShownArtifacts
from coreason_client.server import AgentApp, AgentStream, File, ServiceRequest, running

from .command import coreason_here


def artifact(*parts: Any, name: str = "a") -> Artifact:
    return Artifact(
        artifact_id=name, parts=[Part(text=p) if isinstance(p, str) else p for p in parts]
    )


PICTURE = Part.from_bytes(b"picture", filename="a.png")


def test_pieces_are_the_same_as_the_whole() -> None:
    shown = ShownArtifacts()
    shown.add("t", artifact("Hel"), append=False)
    shown.add("t", artifact("lo", PICTURE), append=True)
    shown.add("t", artifact(""), append=True)
    assert shown.has("t", artifact("Hello", PICTURE))
    assert not shown.has("t", artifact("Hello"))
    assert not shown.has("t", artifact("Hello", PICTURE, "more"))
    assert not shown.has("t", artifact("Hello", Part.from_bytes(b"other", filename="a.png")))


def test_another_artifact_or_task_has_not_been_shown() -> None:
    shown = ShownArtifacts()
    shown.add("t", artifact("Hello"), append=False)
    assert not shown.has("u", artifact("Hello"))
    assert not shown.has("t", artifact("Hello", name="b"))


def test_what_was_replaced_has_not_been_shown() -> None:
    shown = ShownArtifacts()
    shown.add("t", artifact("draft"), append=False)
    shown.add("t", artifact("final"), append=False)
    assert shown.has("t", artifact("final"))
    assert not shown.has("t", artifact("draft"))


async def painter(request: ServiceRequest, stream: AgentStream) -> None:
    if stream.question == "paint":
        await stream.write("A door, fine.")
        await stream.artifact("offer", File(b"7 days", "offer.txt"))
        await stream.ask("Which colour?")
    else:
        await stream.write(f"It is {stream.question}.")


def test_a_conversation_shows_and_saves_each_artifact_once(tmp_path: Path) -> None:
    with running(AgentApp(painter, a2a=True)) as server:
        lines = "paint\nblue\npaint\nred\n"
        done = coreason_here("a2a", "chat", server.url, "--save", "out", stdin=lines, cwd=tmp_path)
    assert done.returncode == 0
    assert re.findall(r"A door, fine\.|Which colour\?|It is \w+\.", done.stdout) == [
        "A door, fine.",
        "Which colour?",
        "It is blue.",
        "A door, fine.",
        "Which colour?",
        "It is red.",
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "offer-2.txt",
        "offer.txt",
    ]
