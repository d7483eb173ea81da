"""No text and no number of packets keeps the page busy for so long that it seems to hang.

What is measured is the CPU time of the page's main thread between two frames, not the time on the
clock, so these tests run beside all others. What other threads do, such as painting what was laid
out, is not measured: it does not block the page. Other programs can only add CPU time, because they
fill the caches and share the processor, so the least of three measurements counts.
"""

import asyncio
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from coreason_client.server import AgentStream

from .conftest import Serve, Tabs, ask, wait_for
from .cpu import FRAME, TASK, Event, Measured, heap, longest_frame, measured
from .site import Script, Site

PACKETS, RATE, BURST = 10_000, 5_000, 40
MANY = 100_000
MAX_CPU = 200.0  # ms between two frames
MAX_TEXT_CPU = 100.0
MAX_HEAP = 60_000_000  # bytes
LONG = 90_000.0  # ms; for an answer on a busy machine

Record = Callable[[str, object], None]


def answered(page: Page, question: str) -> Measured:
    """Ask, and measure until the answer is drawn."""
    page.set_default_timeout(LONG)
    number = page.get_by_test_id("answer").count()
    with measured(page) as result:
        ask(page, question)
        page.get_by_test_id("answer").nth(number).wait_for(state="attached")
        wait_for(page, "done")
    return result


def at_best(measure: Callable[[], float], limit: float) -> float:
    """Return the first time below the limit, or the least of three."""
    times = [measure()]
    while times[-1] >= limit and len(times) < 3:
        times.append(measure())
    return min(times)


# The measure itself


def task(begin: float, wall: float, cpu: float) -> Event:
    return {"name": TASK, "ts": begin * 1e3, "dur": wall * 1e3, "tdur": cpu * 1e3}


def frame(at: float) -> Event:
    return {"name": FRAME, "ts": at * 1e3}


def test_the_tasks_between_two_frames_are_added() -> None:
    first, second = [task(0, 5, 4), frame(2), task(10, 40, 30)], [task(60, 20, 7), frame(70)]
    assert longest_frame([*first, *second]) == 34
    assert longest_frame([*second, *first]) == 34, "in any order"


def test_the_least_of_three_measurements_counts() -> None:
    times = iter([9.0, 7.0, 8.0, 9.0, 4.0, 9.0])
    assert [at_best(lambda: next(times), 5.0), at_best(lambda: next(times), 5.0)] == [7.0, 4.0]
    assert [*times] == [9.0], "a time below the limit is enough"


# Each part of the work lasts at most as long as the clock says, so uses at most so much CPU time.
_WORK = """async ([parts, wall]) => {
  for (let part = 0; part < parts; part += 1) {
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    const end = performance.now() + wall;
    while (performance.now() < end);
  }
}"""


def used_by(page: Page, parts: int, wall: float) -> float:
    with measured(page) as result:
        page.evaluate(_WORK, [parts, wall])
    return result.longest


def test_a_loop_that_freezes_the_page_is_seen(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    page = new_tabs().open(serve({}).url)
    # A busy machine gives a loop only a part of its time.
    walls = [1.5 * MAX_CPU * 2**doubled for doubled in range(6)]
    seen = next((cpu for wall in walls if (cpu := used_by(page, 1, wall)) > MAX_CPU), None)
    assert seen is not None, "no loop was seen"
    assert used_by(page, 15, 20.0) < MAX_TEXT_CPU, "the same work in many frames freezes nothing"


# The page


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
    serve: Serve, new_tabs: Callable[..., Tabs], record_property: Record
) -> None:
    site, rates = serve({"flood": flood}), []

    def longest() -> float:
        page = new_tabs().open(site.url)
        cpu = answered(page, "flood")
        expect(page.locator("#figure-packets")).to_have_text(f"{PACKETS:,}")
        assert page.locator("*").count() < 3_000, "the document stays small"
        rates.append(page.locator("#figure-rate").inner_text())
        return cpu.longest

    cpu = at_best(longest, MAX_CPU)
    line = f"{PACKETS} packets at {rates[-1]}/s: at most {cpu:.0f} ms of CPU between frames"
    record_property("table: the page in Chromium", line)
    assert cpu < MAX_CPU, line


# Of each way in which an engine lays out letters that no space divides.
LETTERS = {"Latin": "a", "Thai": "\u0e01", "Arabic": "\u0628", "accents": "e\u0301", "code": "a"}


def run_of(name: str, length: int, piece: int) -> Script:
    async def write(stream: AgentStream, _: Site) -> None:
        if name == "code":
            await stream.write("```\n")
        for start in range(0, length, piece):
            letters = LETTERS[name] * piece
            await stream.write(letters[: min(piece, length - start)])

    return write


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LETTERS)
def test_a_run_of_equal_letters_does_not_freeze_the_page(
    serve: Serve, new_tabs: Callable[..., Tabs], record_property: Record, name: str
) -> None:
    sizes = [(50_000, 50_000), (500_000, 500_000), (500_000, 1_000)]
    scripts = {f"{length} by {piece}": run_of(name, length, piece) for length, piece in sizes}
    page = new_tabs().open(serve(scripts).url)
    for question in scripts:
        cpu = at_best(lambda: answered(page, question).longest, MAX_TEXT_CPU)  # noqa: B023
        line = f"{question} letters, {name}: at most {cpu:.0f} ms of CPU between frames"
        record_property("table: the page in Chromium", line)
        assert cpu < MAX_TEXT_CPU, line
    assert heap(page) < MAX_HEAP


def packets_of(end: str) -> Script:
    async def write(stream: AgentStream, _: Site) -> None:
        for number in range(MANY - 1):
            await stream.write(f"w{number}{end}")

    return write


ENDS = {"words": " ", "lines": "\n", "paragraphs": "\n\n"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ENDS)
def test_100_000_small_packets_do_not_freeze_the_page(
    serve: Serve, new_tabs: Callable[..., Tabs], record_property: Record, name: str
) -> None:
    site, sizes = serve({"many": packets_of(ENDS[name])}), []

    def longest() -> float:
        page = new_tabs().open(site.url)
        cpu = answered(page, "many")
        expect(page.locator("#figure-packets")).to_have_text(f"{MANY:,}")
        sizes.append(heap(page))
        return cpu.longest

    cpu = at_best(longest, MAX_CPU)
    figures = f"at most {cpu:.0f} ms of CPU between frames, {max(sizes) / 1e6:.0f} MB of heap"
    line = f"{MANY} packets, {name}: {figures}"
    record_property("table: the page in Chromium", line)
    assert cpu < MAX_CPU, line
    assert max(sizes) < MAX_HEAP, line
