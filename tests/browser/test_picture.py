"""Takes the picture of the README: an answer whose connection was cut twice, and lost no word.

Only `make picture` runs it, after the page has changed; `test_page.py` tests the same without one.
`tests/test_readme.py` checks the picture.
"""

import asyncio
import os
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from coreason_client.server import AgentStream
from coreason_manifest.definitions.presentation import CitationItem

from .conftest import Serve, Tabs, ask, wait_for
from .site import Site
from .tools import ROOT

PICTURE = ROOT / "images" / "page.png"
MAX_BYTES = 200_000
SIZE = {"width": 1600, "height": 1000}

QUESTION = "What happens when the connection breaks?"
ANSWER = """The client **reconnects by itself** and asks for what is missing. Every packet has a
number, so nothing is lost and nothing is shown twice.

### What you see

| what happens | what the client does |
|---|---|
| the connection breaks | it resumes after the last packet |
| a packet comes twice | it drops the second one |
| a number is missing | it reads again from the last good packet |
| another answer begins | it stops with `CAPStreamReset` |

### What you write

```js
for await (const text of client.chat("Hello")) {
  output.append(text); // each piece once, in order
}
```

1. Press **Cut** while an answer is being written.
2. Look at the timeline: a new connection begins where the old one ended.
3. Read the answer: *not a word is missing*.
"""
PARTS = re.findall(r"\s*\S+", ANSWER)
STOPS = {
    61: "it drops the",
    100: "client.chat",
}  # the parts before which it is cut, and what is there


async def explain(stream: AgentStream, site: Site) -> None:
    """Write as a model does: some thoughts, the words one by one, and the sources."""
    await stream.progress("Reading the documents", 40)
    await stream.thought("Two parts: what one sees, and what one writes.")
    await stream.progress("Reading the documents", 100, status="complete")
    for number, part in enumerate(PARTS):
        if number in STOPS:
            await site.opened()
            site.gate.clear()
        await stream.write(part)
        await asyncio.sleep(0.004 * (1 + number % 4))
    await stream.cite(
        CitationItem(source_id="1", uri="docs/cap.md", title="The CAP client", confidence=0.9),
        CitationItem(source_id="2", uri="docs/page.md", title="The page", confidence=0.8),
    )


def take(serve: Serve, new_tabs: Callable[..., Tabs]) -> bytes:
    """Ask, cut, resume, and return the picture."""
    documents = dict.fromkeys(("docs/cap.md", "docs/page.md"), "")
    site = serve({QUESTION: explain}, agent_id="guide", _documents=documents)
    page = new_tabs(viewport=SIZE, color_scheme="light", reduced_motion="reduce").open(site.url)
    ask(page, QUESTION)
    answer, reconnects = page.get_by_test_id("answer"), page.get_by_test_id("reconnects")
    for count, words in enumerate(STOPS.values(), 1):
        expect(answer).to_contain_text(words)
        page.get_by_test_id("cut").click()
        expect(reconnects).to_have_text(str(count))
        site.gate.set()
    wait_for(page, "done")
    expect(answer).to_contain_text("not a word is missing")
    page.locator("#log").evaluate("log => log.scrollTo(0, 0)")
    return page.screenshot()


@pytest.mark.skipif(not os.environ.get("PICTURE"), reason="`make picture` takes the picture")
def test_an_answer_that_was_cut_has_its_picture(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    picture = take(serve, new_tabs)
    assert len(picture) < MAX_BYTES
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(picture)
