"""10,000 packets at 2,000 a second leave no gap between frames in which the page seems to hang.

Other tests that run at the same time make gaps, too. So `make test` runs this file once more,
alone, and only then the limit is the strict one.
"""

import asyncio
import os
import time
from collections.abc import Callable

from coreason_client.server import AgentStream

from .conftest import Serve, Tabs, ask, wait_for
from .site import Site

PACKETS, RATE, BURST = 10_000, 2_000, 40
ALONE = "PYTEST_XDIST_WORKER" not in os.environ
MAX_GAP = 200.0 if ALONE else 2_000.0  # ms
ATTEMPTS = 3

_MEASURE = """() => {
  window.frames = {gap: 0, count: 0};
  let last = performance.now();
  const step = (now) => {
    window.frames.gap = Math.max(window.frames.gap, now - last);
    window.frames.count += 1;
    last = now;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}"""


async def flood(stream: AgentStream, _: Site) -> None:
    """Write the packets at their rate, of which one is the CLOSE; one of 50 is an event."""
    begun = time.monotonic()
    for number in range(PACKETS - 1):
        if number % 50 == 25:
            await stream.progress("Flood", 100 * number / PACKETS)
        else:
            await stream.write(f"word{number}" + ("\n\n" if number % 50 == 49 else " "))
        if number % BURST == 0:
            await asyncio.sleep(max(begun + number / RATE - time.monotonic(), 0))


def test_no_frame_waits_long(
    serve: Serve, new_tabs: Callable[..., Tabs], record_property: Callable[[str, object], None]
) -> None:
    page = new_tabs().open(serve({"flood": flood}).url)
    gaps = []
    # Other programs on the machine make gaps, too: one undisturbed run is enough.
    for _ in range(ATTEMPTS):
        page.evaluate(_MEASURE)
        ask(page, "flood")
        wait_for(page, "open")
        wait_for(page, "done")
        measured = page.evaluate("window.frames")
        gaps.append(round(measured["gap"]))
        assert page.locator("#figure-packets").inner_text() == str(PACKETS)
        if gaps[-1] < MAX_GAP:
            break
    rate = page.locator("#figure-rate").inner_text()
    line = f"{PACKETS} packets at {rate}/s: longest gap between frames {gaps} ms"
    record_property("table: the page in Chromium", line)
    assert min(gaps) < MAX_GAP, line
    assert page.locator("*").count() < 3_000, "the document stays small"
