"""The tests of the client in Node.js, in Chromium: faults, wire cases, disconnects.

The modules of `js/test` play them in both. Page and modules come from the fault server itself, so
nothing stands between the browser and the faults.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from coreason_client.testing.faults.__main__ import end_record, start_record
from coreason_client.testing.faults._wire import response_head, stream_headers
from tests.cap.wire_cases import load, wire_cases
from tests.faults import FaultServer, File, Run

from .conftest import TIMEOUT
from .tools import CLIENT

TABLE = load("faults")
ROWS = [*TABLE["cases"], *TABLE["only_in_browsers"]]
JS = CLIENT.parent
MODULES = ["coreason.js", *(f"test/{path.name}" for path in (JS / "test").glob("*.js"))]

_FAULTS = """async (rows) => {
  const {inBrowser, playRow} = await import("/js/test/fault_rows.js");
  const server = {
    run: (fault, options = {}) => begin(fault, options),
    report: ({id}) => report(id),
  };
  const waiting = [...rows];
  const played = [];
  const work = async () => {
    for (let row; (row = waiting.shift());) {
      const {seen, expected} = await playRow(inBrowser(row), server);
      played.push({name: row.name, seen, expected});
    }
  };
  await Promise.all(Array.from({length: 6}, work)); // Chromium has 6 connections to a server
  return played;
}"""

_ON_PAPER = """async ({cases, plans}) => {
  const {playCase, playPlan} = await import("/js/test/wire_rows.js");
  const played = [];
  for (const item of cases) played.push({name: item.name, ...await playCase(item)});
  for (const plan of plans) played.push({name: plan.name, ...await playPlan(plan)});
  // What is equal to the byte need not travel.
  return played.map(({name, seen, expected}) =>
    JSON.stringify(seen) === JSON.stringify(expected) ? {name} : {name, seen, expected});
}"""


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    files = {
        f"/js/{name}": File("text/javascript", (JS / name).read_bytes()) for name in MODULES
    } | {"/": File("text/html", b"<!doctype html><title>Faults</title>")}
    # On a connection that was used before, Chromium itself repeats a request that got no answer or
    # 408: whether it does would depend on the order of the rows.
    with FaultServer(files=files, keep_alive=False) as server:
        yield server


@pytest.fixture
def page(browser: Browser, server: FaultServer) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.goto(f"{server.origin}/")
        yield page


def check(played: list[dict[str, Any]], count: int) -> None:
    """Compare all that was seen with what was expected."""
    assert len(played) == count
    wrong = {
        item["name"]: {
            name: (item["seen"][name], expected)
            for name, expected in item["expected"].items()
            if item["seen"][name] != expected
        }
        for item in played
        if item.get("seen") != item.get("expected")
    }
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.proves("JS-chromium")
def test_every_row_of_the_fault_table(page: Page, server: FaultServer) -> None:
    play(page, server, ROWS)


def test_a_head_that_is_cut_at_any_byte_is_a_lost_connection(
    page: Page, server: FaultServer
) -> None:
    """Chromium takes what has arrived of it for the whole head."""
    play(
        page,
        server,
        [
            {"name": f"keep={keep}", "fault": "refuse_first", "options": {"keep": keep}}
            | {"reconnects": 1}
            for keep in range(1, len(response_head(200, stream_headers())))
        ],
    )


def play(page: Page, server: FaultServer, rows: list[dict[str, Any]]) -> None:
    """Play rows of a fault table in the page, and compare what came of them."""
    runs: dict[str, Run] = {}

    def begin(fault: str, options: dict[str, Any]) -> dict[str, Any]:
        run = server.run(fault, **options)
        runs[run.id] = run
        return start_record(run)

    page.expose_function("begin", begin)
    page.expose_function("report", lambda run_id: end_record(runs[run_id], wait=False))
    check(page.evaluate(_FAULTS, rows), len(rows))
    # The page is still there: what it did not read to the end, the client has left.
    assert [run.id for run in runs.values() if not run.wait_all_answered()] == []


def test_every_difference_has_its_reason() -> None:
    named = {row["browser"]["why"] for row in TABLE["cases"] if "browser" in row}
    assert named == set(TABLE["browser"])


def test_every_wire_case_and_every_plan_of_disconnects(page: Page) -> None:
    cases = [param.values[0] for param in wire_cases()]
    plans = load("disconnects")["cases"]
    check(page.evaluate(_ON_PAPER, {"cases": cases, "plans": plans}), len(cases) + len(plans))
