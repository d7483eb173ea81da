"""How much CPU time the main thread of a page uses between two frames, from a trace of Chromium.

Other programs on the machine delay frames, but add little to the CPU time of a page.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

BEGIN, FRAME, END = "test: begin", "test: frame", "test: end"
TASK = "RunTask"
_CATEGORIES = ["-*", "disabled-by-default-devtools.timeline", "blink.user_timing"]

_MARK_FRAMES = """([begin, frame]) => {
  window.marking = true;
  const step = () => {
    performance.mark(frame);
    if (window.marking) requestAnimationFrame(step);
  };
  performance.mark(begin);
  requestAnimationFrame(step);
}"""
_STOP = """async (end) => {
  await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
  window.marking = false;
  performance.mark(end);
  performance.clearMarks();
}"""

Event = dict[str, Any]


@dataclass
class Measured:
    """What a trace says; zero until its block has ended."""

    longest: float = 0.0  # ms of CPU time between two frames


@contextmanager
def measured(page: Page) -> Iterator[Measured]:
    """Measure what the page does in the block, and its next frame."""
    browser = page.context.browser
    assert browser is not None
    result = Measured()
    browser.start_tracing(page=page, categories=_CATEGORIES)
    try:
        page.evaluate(_MARK_FRAMES, [BEGIN, FRAME])
        yield result
        page.evaluate(_STOP, END)
    finally:
        trace = browser.stop_tracing()
    result.longest = longest_frame(of_page(json.loads(trace)["traceEvents"]))


def of_page(events: list[Event]) -> list[Event]:
    """Return the events of the thread that set the marks; a trace without one of them is cut."""
    threads = {
        event["name"]: (event["pid"], event["tid"])
        for event in events
        if event["name"] in {BEGIN, FRAME, END}
    }
    assert len(threads) == 3, f"the trace has only the marks {sorted(threads)}"
    assert len(set(threads.values())) == 1, "one page is measured"
    return [event for event in events if (event["pid"], event["tid"]) == threads[END]]


def longest_frame(events: list[Event]) -> float:
    """Return the most CPU time that tasks use from one frame to the next, in ms."""
    frames = sorted(event["ts"] for event in events if event["name"] == FRAME)
    used = Counter[int]()
    for event in events:
        # A task that began or ended outside the trace has no duration.
        if event["name"] == TASK and "dur" in event:
            # A task that draws a frame counts with what follows it: its layout does.
            used[bisect_right(frames, event["ts"] + event["dur"])] += event["tdur"]
    return max(used.values()) / 1_000


def heap(page: Page) -> int:
    """Return the bytes that the page uses, without garbage."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])
