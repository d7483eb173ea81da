"""The answers that the agent of the browser tests gives, by question."""

import json
from pathlib import Path

from coreason_client.server import AgentStream
from coreason_manifest.definitions.presentation import CitationItem, MediaItem

from .site import Script, Site

HOSTILE = json.loads((Path(__file__).parent / "hostile.json").read_text(encoding="utf-8"))
PIECES = 40

MARKDOWN = """# A title

Some **bold** text, `code`, and [a link](https://example.com/x).

| a | b |
|---|--:|
| 1 | 2 |

```python
print("hi")
```

- one
- two
"""


async def everything(stream: AgentStream, site: Site) -> None:
    """Write one of each thing that an agent can show."""
    await stream.progress("Searching", 10)
    await stream.thought("first thought")
    await stream.thought("second thought")
    await stream.progress("Searching", 100, status="complete")
    for piece in MARKDOWN.split(" "):
        await stream.write(piece + " ")
    await stream.warn("cold_cache", "The cache was cold.")
    await stream.markdown("A *block* of its own.")
    await stream.media(MediaItem(url=f"{site.url}/page/nothing.png", mime_type="image/png"))
    await stream.media(
        MediaItem(url="https://example.com/p.png", mime_type="image/png", alt_text="A picture")
    )
    await stream.cite(
        CitationItem(source_id="a", uri="https://example.com/a", title="Source A", confidence=0.9),
        CitationItem(source_id="b", uri="docs/b.md", title="Source B", confidence=0.5),
    )
    await stream.write_packet("EVENT", {"type": "CUSTOM", "data": {"name": "something"}})


async def headings(stream: AgentStream, site: Site) -> None:
    """Write headings whose levels have gaps, as models do."""
    await stream.write("### third\n\ntext\n\n# first\n\ntext\n\n###### sixth\n\ntext\n")


async def two_halves(stream: AgentStream, site: Site) -> None:
    """Write half of the pieces, wait for the gate, and write the rest."""
    for number in range(PIECES):
        if number == PIECES // 2:
            await site.opened()
        await stream.write(f"piece{number} ")


async def fail(stream: AgentStream, site: Site) -> None:
    """Write some text, and fail."""
    await stream.write("A beginning. ")
    await stream.fail("model_overloaded", "The model is overloaded.", {"model": "m"})


async def transient(stream: AgentStream, site: Site) -> None:
    """Report a failure that may pass, which ends the connection, and then give up."""
    await stream.write("A beginning. ")
    error = {"code": "model_busy", "message": "The model is busy.", "severity": "TRANSIENT"}
    await stream.write_packet("ERROR", error)


async def many(stream: AgentStream, site: Site) -> None:
    """Write 10,000 packets as quickly as the server can."""
    for number in range(9_998):
        await stream.write(f"word{number}" + ("\n\n" if number % 50 == 49 else " "))
    await stream.thought("the end")


async def hostile(stream: AgentStream, site: Site) -> None:
    """Write everything that must not do any harm."""
    for case in HOSTILE["texts"]:
        text = case["text"] * case.get("repeat", 1)
        await stream.write(f"\n\nnext\n\n{text[:20_000]}")
    for case in HOSTILE["events"]:
        await stream.write_packet("EVENT", case["event"])
    await stream.warn("hostile", "<img src=x onerror=hacked=1>\u202e")


def hostile_text(name: str) -> Script:
    """Return a script that writes one hostile text completely."""
    [case] = [case for case in HOSTILE["texts"] if case["name"] == name]

    async def write(stream: AgentStream, site: Site) -> None:
        text = case["text"] * case.get("repeat", 1)
        for start in range(0, len(text), 500_000):
            await stream.write(text[start : start + 500_000])

    return write


async def tools(stream: AgentStream, site: Site) -> None:
    """Write the events of an agent that calls tools; the last call never ends."""

    async def event(kind: str, **data: object) -> None:
        await stream.write_packet("EVENT", {"type": kind, "data": data})

    await event("TOOL_CALL", turn=1, call_id="a", name="find_orders", arguments={"customer": "C-1"})
    await event("TOOL_CALL", turn=1, call_id="b", name="track", arguments={})
    await event("TOOL_RESULT", call_id="a", result='{"id": 7}', is_error=False, seconds=0.21)
    await event("TOOL_RESULT", call_id="b", result="no answer", is_error=True, seconds=5.0)
    await event("TOOL_CALL", turn=2, call_id="c", name="track", arguments=None)
    await event("USAGE", model="m", prompt_tokens=1812, completion_tokens=1)


async def reports(stream: AgentStream, site: Site) -> None:
    """Report tool calls and usage with the calls that every agent has."""
    call_id = await stream.tool_call("find_orders", {"customer": "C-1"})
    await stream.tool_result(call_id, "x" * 65_536)
    await stream.tool_result(await stream.tool_call("track", "all of them"), None, is_error=True)
    await stream.write("Two calls.")
    await stream.usage(prompt_tokens=1000, completion_tokens=2, model="m")
    await stream.usage(prompt_tokens=812, completion_tokens=1, model="m")


async def task(stream: AgentStream, site: Site) -> None:
    """Write what the inspector writes for a task of A2A."""
    working = {"state": "TASK_STATE_WORKING", "message": {"parts": [{"text": "Looking"}]}}
    call = {"call_id": "c", "name": "find_orders", "arguments": {}}
    report = {"coreason": {"type": "TOOL_CALL", "data": call}}
    status = {"taskId": "t1", "status": working, "metadata": report}
    await stream.write_packet("EVENT", {"type": "a2a.task", "data": {"id": "t1", "status": {}}})
    await stream.write_packet("EVENT", {"type": "a2a.status", "data": status})
    artifact = {"artifactId": "a1", "name": "report", "parts": [{"text": "The report."}]}
    update = {"taskId": "t1", "artifact": artifact, "append": False}
    await stream.write_packet("EVENT", {"type": "a2a.artifact", "data": update})
    await stream.write("The report.")
    done = {"taskId": "t1", "status": {"state": "TASK_STATE_COMPLETED"}}
    await stream.write_packet("EVENT", {"type": "a2a.status", "data": done})


SCRIPTS: dict[str, Script] = {
    "everything": everything,
    "halves": two_halves,
    "headings": headings,
    "fail": fail,
    "many": many,
    "transient": transient,
    "hostile": hostile,
    "line": hostile_text("one line of 5 MB"),
    "reports": reports,
    "task": task,
    "tools": tools,
}
